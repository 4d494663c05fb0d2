extern crate std;

use std::collections::BTreeSet;

use super::*;

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_word(text, |word| words.push(word));
    words
}

const TOOLS: [(&str, &str); 6] = [
    ("github__create_issue", "Creates an issue in a repository."),
    ("github__list_issues", "Lists the issues of a repository, with filters for state and labels."),
    ("files__readFile", "Returns the text of a file."),
    ("files__searchFiles", "Searches for files by name. Returns the paths of the files."),
    ("mail__send-message", "Sends a message to a list of recipients."),
    ("clock", ""),
];

fn texts(tools: &[(&'static str, &'static str)]) -> impl Iterator<Item = SearchText<'static>> {
    tools.iter().map(|(name, description)| SearchText { name, description })
}

fn found(query: &str) -> Vec<&'static str> {
    let found = SearchIndex::new(texts(&TOOLS)).search(query, 3);
    found.into_iter().map(|tool| TOOLS[tool].0).collect()
}

#[test]
fn words_end_at_punctuation_and_at_changes_of_case() {
    for (text, expected) in [
        ("github__read_issue", &["github", "read", "issue"][..]),
        ("get-current-time", &["get", "current", "time"]),
        ("readTextFile", &["read", "text", "file"]),
        ("parseHTTPHeader", &["parse", "http", "header"]),
        ("HTTP2 ping", &["http2", "ping"]),
        ("Straße, ÉTÉ!", &["straße", "été"]),
        ("列出files", &["列", "出", "file"]),
        ("", &[]),
        (" _-. ", &[]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

#[test]
fn plural_and_singular_are_the_same_word() {
    for (plural, singular) in [("issues", "issue"), ("queries", "query"), ("FILES", "file")] {
        assert_eq!(words(plural), words(singular));
    }
    assert_eq!(words("class bus"), ["class", "bus"]);
}

#[test]
fn best_match_comes_first() {
    assert_eq!(found("create issue"), ["github__create_issue", "github__list_issues"]);
    assert_eq!(found("list the ISSUES")[0], "github__list_issues");
    assert_eq!(found("read a file")[0], "files__readFile");
    assert_eq!(found("search files by name")[0], "files__searchFiles");
    assert_eq!(found("message")[0], "mail__send-message");
    assert_eq!(found("clocks"), ["clock"]);
}

#[test]
fn query_without_a_known_word_finds_nothing() {
    for query in ["", "  ", "weather", "__"] {
        assert_eq!(found(query), [""; 0], "{query}");
    }
    assert_eq!(SearchIndex::new([]).search("a", 3), [0; 0]);
}

#[test]
fn number_of_results_and_of_query_words_is_bounded() {
    let index = SearchIndex::new(texts(&TOOLS));
    assert_eq!(index.search("the of a", 2).len(), 2);
    assert_eq!(index.search("clock", 0), [0; 0]);
    let unknown: Vec<_> = (0..QUERY_WORDS_MAX).map(|n| alloc::format!("unknown{n}")).collect();
    assert_eq!(index.search(&alloc::format!("{} clock", unknown.join(" ")), 3), [0; 0]);
    assert_eq!(index.search(&alloc::format!("clock {}", unknown.join(" ")), 3), [5]);
}

#[test]
fn logarithm_equals_that_of_the_standard_library() {
    for number in [1.0, 1.0001, 1.5, 1.999_999, 2.0, 3.0, 10.0, 12_345.678, 1e9] {
        let expected = f64::ln(number);
        assert!((natural_logarithm(number) - expected).abs() < 1e-12, "{number}");
    }
}

/// Returns the BM25 score of a tool, computed directly from the definition.
fn score(tools: &[(&'static str, &'static str)], tool: usize, query: &str) -> f64 {
    let all_words = |tool: usize| {
        let (name, description) = tools[tool];
        let mut all: Vec<_> = words(name).into_iter().cycle().take(3 * words(name).len()).collect();
        all.extend(words(description));
        all
    };
    let length = |tool| float(all_words(tool).len());
    let mean = (0..tools.len()).map(length).sum::<f64>() / float(tools.len());
    let terms: BTreeSet<_> = words(query).into_iter().collect();
    let terms = terms.iter().map(|term| {
        let documents = float((0..tools.len()).filter(|tool| all_words(*tool).contains(term)).count());
        let frequency = float(all_words(tool).iter().filter(|word| *word == term).count());
        let idf = (1.0 + (float(tools.len()) - documents + 0.5) / (documents + 0.5)).ln();
        let norm = 1.2 * (1.0 - 0.75 + 0.75 * length(tool) / mean);
        idf * frequency * (1.2 + 1.0) / (frequency + norm)
    });
    terms.sum()
}

/// A small generator of numbers (xorshift).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state % 1_000_003).unwrap()
}

#[test]
fn order_equals_the_order_of_the_scores_in_the_definition() {
    const NAMES: [&str; 6] = ["a_b", "aB", "c", "d-e-a", "e__f", "bCD"];
    const DESCRIPTIONS: [&str; 6] = ["", "a b c", "e e e f", "d of the a", "c c b b", "f"];
    const QUERIES: [&str; 7] = ["a", "a b", "c d", "e f a", "of", "f f b", "x a"];
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..300 {
        let tools: Vec<_> = (0..=next(&mut state) % 12)
            .map(|_| (NAMES[next(&mut state) % 6], DESCRIPTIONS[next(&mut state) % 6]))
            .collect();
        let query = QUERIES[next(&mut state) % QUERIES.len()];
        let found = SearchIndex::new(texts(&tools)).search(query, usize::MAX);
        let scores: Vec<_> = found.iter().map(|tool| score(&tools, *tool, query)).collect();
        assert!(scores.is_sorted_by(|one, other| *one >= *other - 1e-9), "{tools:?} {query} {scores:?}");
        let expected = (0..tools.len()).filter(|tool| score(&tools, *tool, query) > 0.0).count();
        assert_eq!(found.len(), expected, "{tools:?} {query}");
    }
}
