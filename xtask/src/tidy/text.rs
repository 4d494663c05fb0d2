//! Checks the text of files: forbidden words and paths, the number of lines without test code, and the first
//! line. Clippy checks the length of functions.

use std::sync::LazyLock;

use regex::Regex;

use super::source::Source;
use super::tree::{File, Tree, finding, has_extension, regex};

/// Maximum number of lines of a file without its tests.
const LINES_MAX: usize = 600;

/// Patterns that lines must not match. The flag is `true` if tests may match the pattern.
static PATTERNS: LazyLock<Vec<(Regex, bool, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"[ \t\r]+$", false, "whitespace at the end of the line"),
        // Without the brackets, this line would match its own pattern.
        (
            r"\b(TO[D]O|FIX[M]E|XX[X])\b",
            false,
            "do the work now, or write a decision record in `docs/decisions`",
        ),
        (
            r"RFC[ _-]*(2068|2616|2818|723[0-5]|7540)\b",
            false,
            "this RFC is obsolete: the current ones are 9110 to 9114",
        ),
        (r"(^|[^\w._}*/-])/(work|root|home|Users|tmp)/", true, "this path exists only on one machine"),
    ];
    patterns.map(|(pattern, tests, message)| (regex(pattern), tests, message)).into()
});

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, file) in tree.files().filter(|(path, _)| !is_foreign(path)) {
        let find = |(line, message)| finding(path, line, message);
        findings.extend(check_lines(file).into_iter().map(find));
        let source = file.source.as_ref().and_then(|source| check_size(&file.text, source));
        findings.extend(source.map(find));
    }
    findings
}

/// Returns `true` for fuzz seeds, and for files that other tools write.
fn is_foreign(path: &str) -> bool {
    path.starts_with("fuzz/seeds/") || has_extension(path, "lock") || path.ends_with("go.sum")
}

fn check_lines(file: &File) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        for (pattern, is_for_tests, message) in &*PATTERNS {
            let found = pattern.find(line).filter(|_| !is_for_tests || !file.is_test_line(index + 1));
            findings
                .extend(found.map(|found| (index + 1, format!("`{}`: {message}", found.as_str().trim()))));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push((file.text.lines().count(), "the last line has no newline".to_owned()));
    }
    findings
}

fn check_size(text: &str, source: &Source) -> Option<(usize, String)> {
    let tests: usize = source.test_lines().map(|(first, last)| last - first + 1).sum();
    let lines = source.line_count.saturating_sub(tests);
    if lines > LINES_MAX {
        let message =
            format!("{lines} lines without tests (at most {LINES_MAX}): split the file by responsibility");
        return Some((0, message));
    }
    let purpose = text.lines().next().and_then(|line| line.strip_prefix("//!")).unwrap_or_default().trim();
    (purpose.is_empty() && !source.is_test())
        .then(|| (1, "the file must begin with its purpose: `//! …`".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn forbidden_parts_of_lines_are_found() {
        for (path, text, count) in [
            ("a.md", "a\n\nb\n", 0),
            ("a.md", "a \nb\t\nc\r\n", 3),
            ("a.md", "a", 1),
            ("a.toml", concat!("# TO", "DO: later\n"), 1),
            ("a.toml", concat!("# FIX", "MES\n"), 0),
            ("a.md", concat!("see RFC ", "2616 §4\n"), 1),
            ("a.md", concat!("RFC", "7230.\n"), 1),
            ("a.md", "RFC 9112 §6.3, RFC 26160, 7540 requests\n", 0),
            ("a.md", concat!("in /wo", "rk/a\n"), 1),
            ("a.md", "`../root/a/tmp/b`\n", 0),
            ("a/tests/it/main.rs", "const A: &str = \"/tmp/a\";\n", 0),
            ("a/src/a.rs", "//! A.\n#[cfg(test)]\nmod tests {\n    const A: &str = \"/tmp/a\";\n}\n", 0),
            ("a/src/a.rs", concat!("//! A.\nconst A: &str = \"/t", "mp/a\";\n"), 1),
        ] {
            assert_eq!(finds(path, text), count, "{text:?}");
        }
    }

    #[test]
    fn long_file_is_found_but_long_tests_are_allowed() {
        let lines = "const A: u8 = 0;\n".repeat(LINES_MAX - 1);
        assert_eq!(finds("a/src/a.rs", &format!("//! Long.\n{lines}")), 0);
        assert_eq!(finds("a/src/a.rs", &format!("//! Long.\n{lines}const B: u8 = 0;\n")), 1);
        let tests = format!("//! Long.\n#[cfg(test)]\nmod tests {{\n{lines}{lines}}}\n");
        assert_eq!(finds("a/src/a.rs", &tests), 0);
    }

    #[test]
    fn file_must_begin_with_its_purpose() {
        for (text, count) in [("//! Its purpose.\nmod b;\n", 0), ("mod b;\n", 1), ("//!\nmod b;\n", 1)] {
            assert_eq!(finds("a/src/lib.rs", text), count, "{text}");
        }
    }
}
