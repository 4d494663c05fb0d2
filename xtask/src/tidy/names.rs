//! Words that are said otherwise here. Only what can be told without knowing the meaning is checked; the rest
//! of the table of names is for reviewers.

use super::finding::Finding;
use super::source::{ANY, Source};
use super::tree::Tree;

/// Words of names, in small letters and with `_` between them, and what to say.
const INSTEAD: &[(&str, &str)] = &[
    ("conn", "connection"),
    ("ctx", "context"),
    ("downstream", "client, or request_… and response_…"),
    ("entity", "content"),
    ("hdr", "field"),
    ("inbound", "request_… or response_…"),
    ("keep_alive", "persistence"),
    ("msg", "message"),
    ("outbound", "request_… or response_…"),
    ("payload", "content"),
    ("preamble", "control data"),
    ("provisional", "interim"),
    ("req", "request"),
    ("resp", "response"),
];

/// Files that say such a word for a reason.
const EXEMPT: &[(&str, &str, &str)] = &[
    (
        "crates/http1/src/request_fields.rs",
        "keep_alive",
        "the connection option has this name: RFC 9112 §C.2.2",
    ),
    (
        "crates/server/src/response/",
        "keep_alive",
        "server-sent events: a comment against idle timeouts, HTML §9.2.7",
    ),
    ("crates/client/tests/it/https.rs", "conn", "a field of `rustls::StreamOwned`"),
    ("crates/cli/tests/it/tls.rs", "conn", "the same"),
    ("crates/gateway/tests/it/http2/upgrades.rs", "conn", "the same"),
    ("crates/net/src/tls/session.rs", "payload", "what rustls calls the content of a record"),
    ("crates/certificates/src/ocsp/subject.rs", "req", "a field of `x509-ocsp`, as RFC 6960 §4.1.1 calls it"),
    ("testkit/src/acme/answers.rs", "req", "a type of `x509-cert`"),
    ("testkit/src/ocsp.rs", "req", "a field of `x509-ocsp`"),
    ("crates/demo/src/http.rs", "keep_alive", "as in `Response::events`"),
    ("crates/mcp-client/src/", "get", "`get_prompt`: the method is called `prompts/get`"),
    ("peers/rmcp/", "get", "the name of a method of a trait of that peer"),
    ("peers/interop-rmcp/", "get", "the same, of that client"),
];

/// Names of what has another name in RFC 9110, and is spelled with a word of [`INSTEAD`].
const TERMS: &[&str] = &["entity_tag"];

/// Names of files, folders and crates that say nothing.
const EMPTY_NAMES: &[&str] =
    &["base", "common", "core", "helper", "helpers", "manager", "misc", "shared", "types", "util", "utils"];

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
        for (word, instead) in INSTEAD {
            if name.contains(&format!("_{word}_")) && !is_exempt(path, word) {
                let message = format!("`{}`: say {instead} instead of `{word}`", token.text);
                findings.push(Finding::new(path, token.line, message));
            }
        }
    }
    findings
}

fn is_exempt(path: &str, word: &str) -> bool {
    EXEMPT.iter().any(|(of, exempt, _)| path.starts_with(of) && *exempt == word)
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
    TERMS.iter().fold(spelled, |name, term| name.replace(term, ""))
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

/// Whether the return type of the function at `at` says `bool`, perhaps within a `Result`, or one for each
/// octet.
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
    let name =
        path.split('/').map(|part| part.trim_end_matches(".rs")).find(|part| EMPTY_NAMES.contains(part))?;
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
        assert_eq!(finds("crates/http1/src/request_fields.rs", "let is_keep_alive;"), 0);
        assert_eq!(finds("crates/http1/src/request_fields.rs", "let payload;"), 1);
        assert_eq!(finds("crates/http1/src/lib.rs", "let is_keep_alive;"), 1);
    }

    #[test]
    fn every_exemption_is_in_use() {
        let tree = Tree::read().unwrap();
        for (of, word, _) in EXEMPT {
            let mut sources = tree.sources().filter(|(path, _)| path.starts_with(of));
            let says = |source: &Source| {
                source.tokens.iter().any(|token| spelled(&token.text).contains(&format!("_{word}_")))
            };
            assert!(sources.any(|(_, source)| says(source)), "`{of}` does not say `{word}` any more");
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
