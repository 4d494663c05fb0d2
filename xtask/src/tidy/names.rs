//! Checks the words in identifiers. Reviewers must still check whether each name fits its meaning.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use heck::ToSnakeCase as _;
use serde::Deserialize;

use super::source::Source;
use super::tree::{Tree, finding};

/// The lists in `names.toml`. The file is compiled into this program, and a test reads it.
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

/// A word that a file, or all files of a folder, may use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exemption {
    file: String,
    word: String,
    #[expect(dead_code, reason = "for readers; each entry needs one")]
    reason: String,
}

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        // The competitors in `peers/` use the terms of their libraries.
        if !path.starts_with("peers/") {
            findings.extend(words(path, source));
        }
        findings.extend(functions(path, source));
        let mut names = path.split('/').map(|part| part.trim_end_matches(".rs"));
        if let Some(name) = names.find(|name| LISTS.empty.iter().any(|empty| empty == name)) {
            findings.push(finding(path, 0, format!("`{name}` does not describe the contents")));
        }
    }
    findings
}

fn words(path: &str, source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    for token in source.tokens.iter().filter(|token| token.is_word) {
        let name = normalized(&token.text);
        for (word, instead) in &LISTS.instead {
            if name.contains(&format!("_{word}_")) && !is_exempt(path, word) {
                let message = format!("`{}`: use {instead} instead of `{word}`", token.text);
                findings.push(finding(path, token.line, message));
            }
        }
    }
    findings
}

fn is_exempt(path: &str, word: &str) -> bool {
    LISTS.exempt.iter().any(|exempt| path.starts_with(&exempt.file) && exempt.word == word)
}

/// Converts `RequestHead`, `request_head` and `REQUEST_HEAD` to `_request_head_`. Removes allowed terms.
fn normalized(name: &str) -> String {
    let normalized = format!("_{}_", name.to_snake_case());
    LISTS.terms.iter().fold(normalized, |name, term| name.replace(term, ""))
}

/// Finds functions named `get_…`, and functions named `is_…` or `has_…` that do not return `bool`.
fn functions(path: &str, source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    for at in (0..source.tokens.len()).filter(|at| source.is_at(*at, &["fn"])) {
        let (name, token) = (source.text(at + 1), &source.tokens[at]);
        let message = if name.starts_with("get_") && !token.is_test && !is_exempt(path, "get") {
            "remove `get_`: name the result"
        } else if (name.starts_with("is_") || name.starts_with("has_")) && !returns_bool(source, at) {
            "`is_` and `has_` are only for functions that return `bool`"
        } else {
            continue;
        };
        findings.push(finding(path, token.line, format!("`{name}`: {message}")));
    }
    findings
}

/// Returns `true` if the return type of the function at `at` contains `bool` or a SIMD mask.
fn returns_bool(source: &Source, at: usize) -> bool {
    let mut after_arrow = source.signature(at).iter().skip_while(|token| token.text != "->");
    after_arrow.any(|token| matches!(token.text.as_str(), "bool" | "__m128i"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_and_misleading_prefixes_are_found() {
        for (path, text, count) in [
            ("crates/a/src/lib.rs", "fn payload() {}", 1),
            ("crates/a/src/lib.rs", "struct RequestPayload;", 1),
            ("crates/a/src/lib.rs", "const PAYLOAD_MAX: u8 = 1;", 1),
            ("crates/a/src/lib.rs", "let req_id;", 1),
            ("crates/a/src/lib.rs", "struct Required; // payload\nconst A: &str = \"payload\";", 0),
            ("crates/a/src/lib.rs", "let entity_tag; struct EntityTag; use std::connect;", 0),
            ("crates/a/src/lib.rs", "fn get_it() {}", 1),
            ("crates/a/src/lib.rs", "fn is_it() -> u8 {}", 1),
            ("crates/a/src/lib.rs", "fn has_it(a: bool) {}", 1),
            ("crates/a/src/lib.rs", "fn is_it(&self) -> bool;", 0),
            ("crates/a/src/lib.rs", "fn is_it<F: Fn() -> u8>(f: F, a: [u8; 2]) -> Result<bool> {}", 0),
            ("crates/net/src/ip_text.rs", "let octets;", 0),
            ("crates/net/src/ip_text.rs", "let payload;", 1),
            ("crates/net/src/lib.rs", "let octets;", 1),
            ("crates/common/src/lib.rs", "", 1),
            ("crates/a/src/utils.rs", "", 1),
            ("crates/a/src/score.rs", "", 0),
        ] {
            assert_eq!(check(&Tree::of(&[(path, text)])).len(), count, "{path}: {text}");
        }
    }

    #[test]
    fn every_exemption_is_in_use() {
        let tree = Tree::read().unwrap();
        for Exemption { file, word, .. } in &LISTS.exempt {
            let sources = tree.sources().filter(|(path, _)| path.starts_with(file));
            let mut tokens = sources.flat_map(|(_, source)| &source.tokens);
            let is_used = tokens.any(|token| normalized(&token.text).contains(&format!("_{word}_")));
            assert!(is_used, "`{file}` no longer uses `{word}`: remove the exemption");
        }
    }
}
