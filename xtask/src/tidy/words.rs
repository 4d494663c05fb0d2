//! Checks for plain language. Counts hard sentences and banned words in comments, messages and Markdown.
//! `CONTRIBUTING.md` has the rules. Counting does not replace reading.

use std::sync::LazyLock;

use regex::Regex;

use super::source::Source;
use super::tree::{File, Tree, finding, has_extension, regex};

const LONG_WORDS: usize = 32;
const WIDE_COLUMNS: usize = 120;

static BANNED: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\boctets?\b"));

static CODE: LazyLock<Regex> = LazyLock::new(|| regex("`[^`]*(`|$)"));

/// An opening of a doc comment that is neither a verb nor a noun phrase.
static OPENING: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(What|Whether|How|Where|Who|Those|Nothing|None)\b"));

/// A subject that does not name the actor.
static SUBJECT: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)\b(who|whoever|whomever|nobody|somebody|everybody|anybody)\b"));

/// A subject such as `what` at the beginning of a clause. Questions are allowed.
static CLAUSE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i)(?:^|[,;:.]\s|\()\W*(what|those\s(?:that|who|of|without|with|beyond|in))\b")
});

/// Counts hard places of one kind, such as long sentences. Hard places must be a small share of all places.
struct Share {
    what: &'static str,
    /// The maximum number of hard places per 10,000 places.
    most: usize,
    all: usize,
    hard: Vec<String>,
}

impl Share {
    const fn new(what: &'static str, most: usize) -> Self {
        Self { what, most, all: 0, hard: Vec::new() }
    }

    /// Counts a place, and keeps the finding if the place is hard to read.
    fn add(&mut self, finding: Option<String>) {
        self.all += 1;
        self.hard.extend(finding);
    }

    /// Returns the findings if there are more than the limit. Returns no findings otherwise.
    fn excess(mut self) -> Vec<String> {
        let Self { what, most, all, .. } = self;
        let count = self.hard.len();
        if count * 10_000 <= most * all {
            return Vec::new();
        }
        self.hard.push(format!("{count} of {all} {what}, at most {most} of 10000 are allowed"));
        self.hard
    }
}

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut shares = [
        Share::new("paragraphs have a banned word", 0),
        Share::new("doc comments have a bad opening", 100),
        Share::new("sentences are too long", 100),
        Share::new("words begin a clause without an actor", 4),
        Share::new("lines are too wide", 80),
    ];
    let [banned, openings, long, headless, wide] = &mut shares;
    for (path, file) in tree.files().filter(|(path, _)| is_read(path)) {
        let is_prose = |line: &str| {
            !line.trim().is_empty() && !line.starts_with('|') && kind(path, line.trim()).is_some()
        };
        for (index, line) in file.text.lines().enumerate().filter(|(_, line)| is_prose(line)) {
            let is_wide = line.chars().count() > WIDE_COLUMNS;
            wide.add(is_wide.then(|| finding(path, index + 1, "the line is too wide")));
        }
        for paragraph in paragraphs(path, file) {
            let plain = CODE.replace_all(&paragraph.text, "X");
            let find = |word: &str, message| finding(path, paragraph.line, format!("`{word}` {message}"));
            banned.add(BANNED.find(&plain).map(|word| find(word.as_str(), "is not allowed: write `byte`")));
            if paragraph.kind == Kind::Doc {
                let opening = OPENING.find(&plain);
                openings.add(
                    opening
                        .map(|word| find(word.as_str(), "opens a doc comment: begin with a verb or a noun")),
                );
            }
            for sentence in sentences(&plain) {
                let words =
                    sentence.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count();
                long.add((words > LONG_WORDS).then(|| find(sentence, "is too long: split it")));
                let subjects = SUBJECT.captures_iter(sentence);
                let clauses = CLAUSE.captures_iter(sentence).filter(|_| !sentence.ends_with('?'));
                let found = subjects.chain(clauses);
                headless
                    .hard
                    .extend(found.map(|word| find(&word[1], "is the subject of a clause: name the actor")));
                headless.all += words;
            }
        }
    }
    shares.into_iter().flat_map(Share::excess).collect()
}

/// Returns `false` for third-party sources, reports, manifests and the files of this task.
fn is_read(path: &str) -> bool {
    let is_text = ["rs", "md", "toml"].iter().any(|extension| has_extension(path, extension));
    let is_foreign =
        path.starts_with("third_party/") || path.contains("/reports/") || path.ends_with("Cargo.toml");
    is_text && !is_foreign && !path.starts_with("xtask/src/tidy/")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Doc,
    Message,
    Other,
}

/// A comment, a message or a block of Markdown.
struct Paragraph {
    line: usize,
    kind: Kind,
    text: String,
}

/// Returns the length of the comment marker of a line, and the kind of its text.
fn kind(path: &str, line: &str) -> Option<(usize, Kind)> {
    match path.rsplit('.').next()? {
        "rs" if line.starts_with("///") || line.starts_with("//!") => Some((3, Kind::Doc)),
        "rs" if line.starts_with("//") => Some((2, Kind::Other)),
        "toml" if line.starts_with('#') => Some((1, Kind::Other)),
        "md" => Some((0, Kind::Other)),
        _ => None,
    }
}

/// Returns the paragraphs of a file, without code blocks, tables and headings.
fn paragraphs(path: &str, file: &File) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim();
        let Some((mark, kind)) = kind(path, line) else {
            (is_code, is_open) = (false, false);
            continue;
        };
        let body = line[mark..].trim();
        let is_fence = body.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || body.is_empty() || body.starts_with(['|', '#']) {
            is_open = false;
            continue;
        }
        let item = body.strip_prefix("- ").or_else(|| body.strip_prefix("* "));
        let is_continued = |last: &&mut Paragraph| is_open && item.is_none() && last.kind == kind;
        if let Some(last) = paragraphs.last_mut().filter(is_continued) {
            last.text = format!("{} {body}", last.text);
        } else {
            paragraphs.push(Paragraph { line: index + 1, kind, text: item.unwrap_or(body).to_owned() });
        }
        is_open = true;
    }
    paragraphs.extend(file.source.iter().flat_map(messages));
    paragraphs
}

/// Returns the string literals with at least two words.
fn messages(source: &Source) -> impl Iterator<Item = Paragraph> {
    // The tokens of a doc comment contain a literal too.
    let is_comment = |at: usize| source.is_at(at.wrapping_sub(2), &["doc", "="]);
    let literals = source.tokens.iter().enumerate().filter(move |(at, _)| !is_comment(*at));
    literals.filter_map(|(_, token)| {
        let text = token.text.trim_start_matches(['r', '#']).trim_end_matches('#');
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        let lines: Vec<_> = text.split("\\\n").flat_map(str::lines).map(str::trim).collect();
        let text = lines.join(" ").replace("\\n", " ").replace("\\\"", "\"").trim().to_owned();
        let is_word = |word: &&str| word.len() >= 2 && word.chars().all(|c| c.is_ascii_alphabetic());
        let words = text.split([' ', ',', ':', '.']).filter(is_word).count();
        (words >= 2).then_some(Paragraph { line: token.line, kind: Kind::Message, text })
    })
}

/// Splits a paragraph after `.`, `;`, `!` and `?` if a capital letter follows.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    let ends = text.match_indices(['.', ';', '!', '?']).filter_map(|(at, _)| {
        let rest = text[at + 1..].strip_prefix(' ')?;
        rest.starts_with(|c: char| c.is_uppercase() || c == '[').then_some(at + 1)
    });
    let ends: Vec<_> = ends.chain([text.len()]).collect();
    ends.into_iter().map(move |end| text[std::mem::replace(&mut start, end)..end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::repository;

    #[test]
    fn hard_sentences_are_found_in_comments_messages_and_prose() {
        for (path, text, part) in [
            ("a.rs", "/// What it is.\n", "`What` opens a doc comment"),
            ("a.rs", "// The client waits, and\n// who reads is told.\n", "`who` is the subject"),
            (
                "a.rs",
                "const A: &str = \"those that are \\\n closed stay open\";\n",
                "`those that` is the subject",
            ),
            ("a.md", "Wait. What is read stays.\n", "`What` is the subject"),
            ("a.toml", "# nobody listens here\n", "`nobody` is the subject"),
            ("a.md", &format!("{} end.\n", "word ".repeat(LONG_WORDS)), "is too long"),
            ("a.md", &format!("{}\n", "w".repeat(WIDE_COLUMNS + 1)), "too wide"),
            ("a.md", "An octet.\n", "`octet` is not allowed"),
        ] {
            let found = check(&Tree::of(&[(path, text)])).concat();
            assert!(found.contains(part), "{text:?}: {found}");
        }
    }

    #[test]
    fn plain_sentences_code_and_tables_pass() {
        for (path, text) in [
            ("a.rs", "/// Returns the size of what `who` has sent.\nconst WHO: &str = what(\"a b\");\n"),
            ("a.md", "```\nwhoever asks\n```\n| who | nobody |\n# Who\n"),
            ("a.md", "What is it?\n"),
            ("third_party/a.rs", "/// What it is.\n"),
        ] {
            assert_eq!(check(&Tree::of(&[(path, text)])), [""; 0], "{text:?}");
        }
    }

    /// Writes all text for users to `target/messages.txt` for reviewers. Fails if the file lacks a known
    /// error, log line, hint or help text.
    #[test]
    fn messages_file_contains_errors_logs_hints_and_help() {
        let mut text = String::new();
        let tree = Tree::read().unwrap();
        for (path, file) in
            tree.files().filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"))
        {
            let has_help = path.starts_with("crates/cli/src/");
            let is_shown = |paragraph: &Paragraph| {
                let is_message = paragraph.kind == Kind::Message || has_help && paragraph.kind == Kind::Doc;
                is_message && !file.is_test_line(paragraph.line)
            };
            let shown: Vec<_> =
                paragraphs(path, file).into_iter().filter(is_shown).map(|shown| shown.text).collect();
            if !shown.is_empty() {
                text.extend(["\n", path, "\n    ", &shown.join("\n    "), "\n"]);
            }
        }
        for message in [
            "cannot read `{}`: {error}",
            "reload failed, keeping the previous config",
            "write `10s`, `1m 30s` or `500ms`",
            "Log level, such as `debug`",
        ] {
            assert!(text.contains(message), "{message}");
        }
        let folder = repository().join("target");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("messages.txt"), text).unwrap();
    }
}
