//! Disabled lints without a reason, and macros for debugging.

use super::source::Source;
use super::tree::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources().flat_map(|(path, source)| check_source(path, source)).collect()
}

fn check_source(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, token) in source.tokens.iter().enumerate().filter(|(_, token)| token.is_word) {
        let follows = |text: &str| source.is_at(at + 1, &[text]);
        match token.text.as_str() {
            word @ ("allow" | "expect")
                if is_attribute(source, at) && follows("(") && !has_reason(source, at + 1) =>
            {
                findings.push(Finding::new(path, token.line, format!("`{word}` needs its `reason = …`")));
            }
            word @ ("dbg" | "todo" | "unimplemented") if follows("!") => {
                findings.push(Finding::new(path, token.line, format!("`{word}!` is left over")));
            }
            _ => {}
        }
    }
    findings
}

fn has_reason(source: &Source, open: usize) -> bool {
    source.group(open).iter().any(|token| token.text == "reason")
}

/// `#[…`, `#![…`, or after a comma of `cfg_attr(`; not a method: `.expect(`.
fn is_attribute(source: &Source, at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).map_or("", |at| source.tokens[at].text.as_str());
    match before(1) {
        "[" => before(2) == "#" || before(2) == "!" && before(3) == "#",
        "," => source.tokens[..at].iter().rev().take(20).any(|token| token.text == "cfg_attr"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn finds(text: &str) -> usize {
        found(check, &[("a/src/lib.rs", text)]).len()
    }

    #[test]
    fn a_lint_is_not_switched_off_without_a_reason() {
        for text in ["#[allow(dead_code)]", "#![expect(a, b)]", "#[cfg_attr(test, allow(dead_code))]"] {
            assert_eq!(finds(text), 1, "{text}");
        }
        for text in
            ["#[allow(dead_code, reason = \"a table\")]", "a.expect(\"b\")", "f(a, expect(b))", "// allow(a)"]
        {
            assert_eq!(finds(text), 0, "{text}");
        }
    }

    #[test]
    fn what_is_left_over_is_found() {
        assert_eq!(finds("fn a() { dbg!(1); todo!() }"), 2);
        assert_eq!(finds("/// `dbg!`\nfn todo() {}"), 0);
    }
}
