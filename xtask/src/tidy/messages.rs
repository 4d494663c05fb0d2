//! All text of the program for users in one file, so that a reviewer can read it together.

use std::fmt::Write as _;

use super::source::{Source, Token};
use super::tree::Tree;

/// Returns the string literals with at least two words in the crates, and the help of the commands, by file.
pub(super) fn all(tree: &Tree) -> String {
    let mut text = String::new();
    for (path, source) in tree.sources() {
        let messages = messages(source, path.starts_with("crates/cli/src/"));
        if is_product(path) && !messages.is_empty() {
            let _ = writeln!(text, "\n{path}\n    {}", messages.join("\n    "));
        }
    }
    text
}

fn is_product(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/")
}

fn messages(source: &Source, has_help: bool) -> Vec<String> {
    let tokens = &source.tokens;
    let is_comment = |at: usize| at >= 2 && source.is_at(at - 2, &["doc", "="]);
    let is_message = |&(at, token): &(usize, &Token)| !token.is_test && (has_help || !is_comment(at));
    let literals = tokens.iter().enumerate().filter(is_message);
    literals.filter_map(|(_, token)| unquoted(&token.text)).filter(|text| has_words(text)).collect()
}

/// Returns the text of a string literal on one line.
fn unquoted(literal: &str) -> Option<String> {
    let text = literal.strip_prefix("r#").or(literal.strip_prefix('r')).unwrap_or(literal);
    let text = text.trim_end_matches('#').strip_prefix('"')?.strip_suffix('"')?;
    let lines: Vec<_> = text.split("\\\n").flat_map(str::lines).map(str::trim).collect();
    Some(lines.join(" ").replace("\\n", " ").replace("\\\"", "\"").trim().to_owned())
}

fn has_words(text: &str) -> bool {
    let is_word = |word: &&str| word.len() >= 2 && word.chars().all(|c| c.is_ascii_alphabetic());
    text.split([' ', ',', ':', '.']).filter(is_word).count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::repository;

    /// Writes `target/messages.txt`. It must have an error, a log line, a hint and help.
    #[test]
    fn one_file_has_all_messages() {
        let text = all(&Tree::read().unwrap());
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

    #[test]
    fn comments_and_tests_are_no_messages() {
        let file = "/// A doc comment here.\nconst A: &str = \"an error occurred:\\n {x}\";\n\
                    const B: &str = \"one\";\n#[cfg(test)]\nmod t {\n    const C: &str = \"in a test\";\n}\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", file), ("xtask/src/a.rs", file)]);
        assert_eq!(all(&tree), "\ncrates/a/src/lib.rs\n    an error occurred:  {x}\n");
    }
}
