//! Words of identifiers. Reviewers check the names that depend on the meaning.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::source::{ANY, Source};
use super::tree::{Finding, Tree};

/// The lists in `names.toml`. The file is part of this program, and a test reads it.
static LISTS: LazyLock<Lists> = LazyLock::new(|| {
    toml::from_str(include_str!("names.toml")).unwrap_or_else(|error| panic!("names.toml: {error}"))
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    terms: Vec<String>,
    empty: Vec<String>,
    instead: BTreeMap<String, String>,
    exempt: Vec<Exemption>,
}

/// A word that a file may use. The path may be that of a folder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exemption {
    file: String,
    word: String,
    #[expect(dead_code, reason = "for readers; each entry needs one")]
    reason: String,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        // The peers are written in the words of their libraries.
        if !path.starts_with("peers/") {
            findings.extend(words(path, source));
        }
        findings.extend(functions(path, source));
        findings.extend(empty_name(path));
    }
    findings
}

fn words(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for token in source.tokens.iter().filter(|token| token.is_word) {
        let name = spelled(&token.text);
        for (word, instead) in &LISTS.instead {
            if name.contains(&format!("_{word}_")) && !is_exempt(path, word) {
                let message = format!("`{}`: say {instead} instead of `{word}`", token.text);
                findings.push(Finding::new(path, token.line, message));
            }
        }
    }
    findings
}

fn is_exempt(path: &str, word: &str) -> bool {
    LISTS.exempt.iter().any(|exempt| path.starts_with(&exempt.file) && exempt.word == word)
}

/// `RequestHead`, `request_head` and `REQUEST_HEAD` as `_request_head_`, without the terms that are right.
fn spelled(name: &str) -> String {
    let is_constant = !name.contains(char::is_lowercase);
    let mut spelled = String::from("_");
    for character in name.chars() {
        if character.is_uppercase() && !is_constant && !spelled.ends_with('_') {
            spelled.push('_');
        }
        spelled.extend(character.to_lowercase());
    }
    spelled.push('_');
    LISTS.terms.iter().fold(spelled, |name, term| name.replace(term, ""))
}

/// `get_…` says nothing unless a test's sentence begins with the method, `is_…` and `has_…` promise a `bool`,
/// and a test's name is a sentence about what is tested.
fn functions(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in 0..source.tokens.len() {
        if !source.is_at(at, &["fn", ANY]) || !source.tokens[at + 1].is_word {
            continue;
        }
        let name = &source.tokens[at + 1];
        let complaint = if name.text.starts_with("get_") && !name.is_test && !is_exempt(path, "get") {
            "no `get_`: the name of what is got is enough"
        } else if (name.text.starts_with("is_") || name.text.starts_with("has_")) && !returns_bool(source, at)
        {
            "`is_` and `has_` are for `bool`"
        } else if name.text.starts_with("test_") && at >= 4 && source.is_at(at - 4, &["#", "[", "test", "]"])
        {
            "a test's name is a sentence that says what is so"
        } else {
            continue;
        };
        findings.push(Finding::new(path, name.line, format!("`{}`: {complaint}", name.text)));
    }
    findings
}

/// Returns `true` if the return type of the function at `at` contains `bool` or a vector of them.
fn returns_bool(source: &Source, at: usize) -> bool {
    let mut depth = 0_i32;
    let mut is_after_arrow = false;
    for (at, token) in source.tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" | ";" if depth == 0 => return false,
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "-" if depth == 0 && source.is_at(at + 1, &[">"]) => is_after_arrow = true,
            "bool" | "__m128i" if is_after_arrow => return true,
            _ => {}
        }
    }
    false
}

fn empty_name(path: &str) -> Option<Finding> {
    let mut parts = path.split('/').map(|part| part.trim_end_matches(".rs"));
    let name = parts.find(|part| LISTS.empty.iter().any(|empty| empty == part))?;
    Some(Finding::new(path, 0, format!("`{name}` does not say what is in it")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn finds(text: &str) -> usize {
        found(check, &[("crates/a/src/lib.rs", text)]).len()
    }

    #[test]
    fn words_of_other_vocabularies_are_found_in_every_spelling() {
        for text in ["fn payload() {}", "struct RequestPayload;", "const PAYLOAD_MAX: u8 = 1;", "let req_id;"]
        {
            assert_eq!(finds(text), 1, "{text}");
        }
        for text in
            ["struct Required;", "// payload", "let entity_tag;", "struct EntityTag;", "use std::connect;"]
        {
            assert_eq!(finds(text), 0, "{text}");
        }
    }

    #[test]
    fn an_exemption_is_for_its_file_and_its_word() {
        let finds = |path, text| found(check, &[(path, text)]).len();
        assert_eq!(finds("crates/net/src/ip_text.rs", "let octets;"), 0);
        assert_eq!(finds("crates/net/src/ip_text.rs", "let payload;"), 1);
        assert_eq!(finds("crates/net/src/lib.rs", "let octets;"), 1);
    }

    #[test]
    fn every_exemption_is_in_use() {
        let tree = Tree::read().unwrap();
        for Exemption { file, word, .. } in &LISTS.exempt {
            let mut sources = tree.sources().filter(|(path, _)| path.starts_with(file));
            let says = |source: &Source| {
                source.tokens.iter().any(|token| spelled(&token.text).contains(&format!("_{word}_")))
            };
            assert!(sources.any(|(_, source)| says(source)), "`{file}` does not use `{word}` any more");
        }
    }

    #[test]
    fn names_of_functions_keep_their_promises() {
        for text in
            ["fn get_it() {}", "fn is_it() -> u8 {}", "fn has_it(a: bool) {}", "#[test] fn test_it() {}"]
        {
            assert_eq!(finds(text), 1, "{text}");
        }
        for text in [
            "fn is_it(&self) -> bool;",
            "fn is_it<F: Fn() -> u8>(f: F, a: [u8; 2]) -> Result<bool> {}",
            "fn test_it() {}",
        ] {
            assert_eq!(finds(text), 0, "{text}");
        }
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        assert_eq!(found(check, &[("crates/common/src/lib.rs", "")]).len(), 1);
        assert_eq!(found(check, &[("crates/a/src/utils.rs", "")]).len(), 1);
        assert_eq!(found(check, &[("crates/a/src/score.rs", "")]).len(), 0);
    }
}
