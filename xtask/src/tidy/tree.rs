//! Reads the files of the repository into memory.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::Command;

use anyhow::{Context as _, ensure};
use regex::Regex;

use super::source::Source;
use crate::program::repository;

/// All text files that git tracks or would add, by their path in the repository.
pub(super) struct Tree {
    files: BTreeMap<String, File>,
}

/// A file, with its tokens if it is a Rust file.
pub(super) struct File {
    pub(super) text: String,
    pub(super) source: Option<Source>,
}

impl Tree {
    /// Reads the repository.
    pub(super) fn read() -> anyhow::Result<Self> {
        let root = repository();
        let mut git = Command::new("git");
        git.current_dir(&root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let output = git.output().context("cannot start `git`")?;
        ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
        let mut files = BTreeMap::new();
        for path in String::from_utf8(output.stdout)?.split_terminator('\0').filter(|path| is_ours(path)) {
            // Skips deleted files, which git still lists, and binary files.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                files.insert(path.to_owned(), File::new(path, text)?);
            }
        }
        Ok(Self { files })
    }

    /// Returns a tree with the given files, for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file =
            |&(path, text): &(&str, &str)| (path.to_owned(), File::new(path, text.to_owned()).unwrap());
        Self { files: files.iter().map(file).collect() }
    }

    /// Returns all files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Returns the Rust files.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.files().filter_map(|(path, file)| Some((path, file.source.as_ref()?)))
    }

    /// Returns a Rust file, and its path as a reference into the tree.
    pub(super) fn source(&self, path: &str) -> Option<(&str, &Source)> {
        let (path, file) = self.files.get_key_value(path)?;
        Some((path, file.source.as_ref()?))
    }
}

/// Returns `false` for patched third-party crates, which have their own style.
fn is_ours(path: &str) -> bool {
    let patched = path.strip_prefix("third_party/");
    patched.is_none_or(|path| !path.contains('/') && !has_extension(path, "patch"))
}

impl File {
    fn new(path: &str, text: String) -> anyhow::Result<Self> {
        let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
        let source = has_extension(path, "rs").then(|| Source::read(&text, is_test));
        Ok(Self { source: source.transpose().with_context(|| path.to_owned())?, text })
    }

    pub(super) fn is_test_line(&self, line: usize) -> bool {
        let mut tests = self.source.iter().flat_map(Source::test_lines);
        tests.any(|(first, last)| (first..=last).contains(&line))
    }
}

/// Returns `true` if `path` ends with a dot and `extension`.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

/// Compiles a pattern of this program.
pub(super) fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// Describes a violation. Lines start at 1; line 0 means the whole file.
pub(super) fn finding(path: &str, line: usize, message: impl Display) -> String {
    match line {
        0 => format!("{path}: {message}"),
        line => format!("{path}:{line}: {message}"),
    }
}
