//! The text of files: forbidden words and paths, the length without tests, and the first sentence. Clippy checks the
//! length of functions.

use super::source::Source;
use super::tree::{File, Finding, Tree, has_extension};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let ours = tree.files().filter(|(path, _)| !is_foreign(path));
    let findings = ours.flat_map(|(path, file)| check_file(path, file));
    findings.chain(check_sizes(tree)).collect()
}

/// Returns `true` for bytes that tests send unchanged, and for files that tools write.
fn is_foreign(path: &str) -> bool {
    path.starts_with("fuzz/seeds/") || has_extension(path, "lock") || path.ends_with("go.sum")
}

fn check_file(path: &str, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        let line_number = index + 1;
        let mut find = |message: String| findings.push(Finding::new(path, line_number, message));
        if line.ends_with([' ', '\t', '\r']) {
            find("blanks at the end of the line".to_owned());
        }
        if let Some(word) = UNFINISHED.iter().find(|word| has_word(line, word)) {
            find(format!("`{word}`: do it, or write a decision record in `docs/decisions`"));
        }
        if let Some(number) = obsolete_rfc(line) {
            find(format!("RFC {number} is obsolete: the current ones are 9110 to 9114"));
        }
        if let Some(folder) = machine_path(line).filter(|_| !is_test_line(file, line_number)) {
            find(format!("`{folder}` is a place of one machine"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(path, file.text.lines().count(), "the last line has no end"));
    }
    findings
}

/// Spelled apart, as this file is one of those that are checked.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

fn has_word(line: &str, word: &str) -> bool {
    line.split(|character: char| !character.is_alphanumeric() && character != '_').any(|part| part == word)
}

/// The number of an RFC that others have replaced.
fn obsolete_rfc(line: &str) -> Option<u32> {
    const OBSOLETE: [u32; 10] = [2068, 2616, 2818, 7230, 7231, 7232, 7233, 7234, 7235, 7540];
    line.match_indices("RFC").find_map(|(at, rfc)| {
        let rest = line[at + rfc.len()..].trim_start_matches([' ', '-', '_']);
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok().filter(|number| OBSOLETE.contains(number))
    })
}

/// Returns a folder of one developer's machine, at the beginning of a path.
fn machine_path(line: &str) -> Option<String> {
    const FOLDERS: [&str; 5] = ["work", "root", "home", "Users", "tmp"];
    let folders = FOLDERS.iter().map(|name| format!("/{name}/"));
    folders.into_iter().find(|folder| {
        line.match_indices(folder.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || "._-}*/".contains(before))
        })
    })
}

fn is_test_line(file: &File, line: usize) -> bool {
    file.source()
        .is_some_and(|source| source.test_lines().any(|(first, last)| (first..=last).contains(&line)))
}

/// Lines of a file without its tests.
const LINES_MAX: usize = 600;

fn check_sizes(tree: &Tree) -> Vec<Finding> {
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

    fn finds(path: &str, text: &str) -> usize {
        let find = |tree: &Tree| tree.files().flat_map(|(path, file)| check_file(path, file)).collect();
        found(find, &[(path, text)]).len()
    }

    #[test]
    fn blanks_at_the_end_and_a_missing_end_are_found() {
        assert_eq!(finds("a.md", "a\n\nb\n"), 0);
        assert_eq!(finds("a.md", "a \nb\t\nc\r\n"), 3);
        assert_eq!(finds("a.md", "a"), 1);
    }

    #[test]
    fn what_is_unfinished_is_found() {
        for word in UNFINISHED {
            assert_eq!(finds("a.rs", &format!("// {word}: later\n")), 1);
            assert_eq!(finds("a.rs", &format!("// {word}S\n")), 0);
        }
    }

    #[test]
    fn obsolete_documents_are_found_by_their_numbers() {
        for number in [2616, 7230, 7540] {
            assert_eq!(finds("a.md", &format!("see RFC {number} §4\n")), 1);
            assert_eq!(finds("a.rs", &format!("// RFC{number}.\n")), 1);
            assert_eq!(finds("a.md", &format!("{number} requests\n")), 0);
        }
        assert_eq!(finds("a.md", "RFC 9112 §6.3, RFC 26160\n"), 0);
    }

    #[test]
    fn places_of_one_machine_are_found_outside_of_tests() {
        for folder in ["work", "root", "tmp"] {
            let code = format!("const A: &str = \"/{folder}/a\";\n");
            assert_eq!(finds("a/src/lib.rs", &code), 1);
            assert_eq!(finds("a/src/lib.rs", &format!("#[cfg(test)]\nmod tests {{\n{code}}}\n")), 0);
            assert_eq!(finds("a/tests/it/main.rs", &code), 0);
            assert_eq!(finds("a/src/lib.rs", &format!("const A: &str = \"../{folder}/a/{folder}/b\";\n")), 0);
        }
    }

    fn sizes(text: &str) -> usize {
        found(check_sizes, &[("a/src/lib.rs", text)]).len()
    }

    #[test]
    fn a_long_file_is_found_and_long_tests_are_not() {
        let lines = "const A: u8 = 0;\n".repeat(LINES_MAX - 1);
        assert_eq!(sizes(&format!("//! Long.\n{lines}")), 0);
        assert_eq!(sizes(&format!("//! Long.\n{lines}const B: u8 = 0;\n")), 1);
        // The attribute is one line more.
        assert_eq!(sizes(&format!("//! Long.\n#[cfg(test)]\nmod tests {{\n{lines}{lines}}}\n")), 0);
    }

    #[test]
    fn a_file_begins_with_its_purpose() {
        assert_eq!(sizes("//! What for.\nmod b;"), 0);
        assert_eq!(sizes("mod b;"), 1);
        assert_eq!(sizes("//!\nmod b;"), 1);
    }
}
