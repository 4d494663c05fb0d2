//! The length of files, and the sentence each begins with. The length of functions is clippy's.

use super::finding::Finding;
use super::source::Source;
use super::tree::Tree;

/// Lines of a file without its tests.
const LINES_MAX: usize = 600;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.files() {
        let Some(source) = file.source() else { continue };
        let lines = lines_without_tests(source);
        if lines > LINES_MAX {
            findings.push(Finding::new(
                path,
                0,
                format!("{lines} lines without tests, {LINES_MAX} are the most: split by what it does"),
            ));
        }
        let is_test = source.tokens.first().is_none_or(|token| token.is_test);
        if !is_test && !begins_with_purpose(&file.text) {
            findings.push(Finding::new(path, 1, "a file begins with its purpose: `//! …`"));
        }
    }
    findings
}

fn lines_without_tests(source: &Source) -> usize {
    let tests: usize = source.test_lines().map(|(first, last)| last - first + 1).sum();
    source.line_count.saturating_sub(tests)
}

fn begins_with_purpose(text: &str) -> bool {
    text.lines().next().and_then(|line| line.strip_prefix("//!")).is_some_and(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn finds(text: &str) -> usize {
        found(check, &[("a/src/lib.rs", text)]).len()
    }

    #[test]
    fn a_long_file_is_found_and_long_tests_are_not() {
        let lines = "const A: u8 = 0;\n".repeat(LINES_MAX - 1);
        assert_eq!(finds(&format!("//! Long.\n{lines}")), 0);
        assert_eq!(finds(&format!("//! Long.\n{lines}const B: u8 = 0;\n")), 1);
        // The attribute is one line more.
        assert_eq!(finds(&format!("//! Long.\n#[cfg(test)]\nmod tests {{\n{lines}{lines}}}\n")), 0);
    }

    #[test]
    fn a_file_begins_with_its_purpose() {
        assert_eq!(finds("//! What for.\nmod b;"), 0);
        assert_eq!(finds("mod b;"), 1);
        assert_eq!(finds("//!\nmod b;"), 1);
    }
}
