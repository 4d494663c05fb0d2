//! The files of the repository as values, and the places that break a rule.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::manifest::Manifest;
use super::source::Source;
use crate::program::repository;

/// All text files that git knows or would take, by their path in the repository.
pub(super) struct Tree {
    files: BTreeMap<String, File>,
}

/// A file, read as what it is.
pub(super) struct File {
    pub(super) text: String,
    kind: Kind,
}

enum Kind {
    Rust(Source),
    Manifest(Box<Manifest>),
    Other,
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
            // Git still lists deleted files; files that are not text have no style.
            let Some(text) =
                std::fs::read(root.join(path)).ok().and_then(|bytes| String::from_utf8(bytes).ok())
            else {
                continue;
            };
            files.insert(path.to_owned(), File::new(path, text)?);
        }
        Ok(Self { files })
    }

    /// A repository that is not there.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file =
            |&(path, text): &(&str, &str)| (path.to_owned(), File::new(path, text.to_owned()).unwrap());
        Self { files: files.iter().map(file).collect() }
    }

    /// Returns the number of files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// All files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Returns the Rust files.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.files().filter_map(|(path, file)| Some((path, file.source()?)))
    }

    /// Returns the path as the tree keeps it, if there is such a file.
    pub(super) fn path(&self, path: &str) -> Option<&str> {
        self.files.get_key_value(path).map(|(path, _)| path.as_str())
    }

    pub(super) fn source(&self, path: &str) -> Option<&Source> {
        self.files.get(path)?.source()
    }

    /// Every `Cargo.toml`.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&str, &Manifest)> {
        self.files().filter_map(|(path, file)| match &file.kind {
            Kind::Manifest(manifest) => Some((path, manifest.as_ref())),
            Kind::Rust(_) | Kind::Other => None,
        })
    }
}

/// `false` for the patched crates of other authors, which have their own style.
fn is_ours(path: &str) -> bool {
    let patched = path.strip_prefix("third_party/");
    patched.is_none_or(|path| !path.contains('/') && !has_extension(path, "patch"))
}

impl File {
    fn new(path: &str, text: String) -> anyhow::Result<Self> {
        let kind = match path.rsplit('/').next() {
            Some("Cargo.toml") => {
                Kind::Manifest(Box::new(toml::from_str(&text).with_context(|| path.to_owned())?))
            }
            Some(name) if has_extension(name, "rs") => {
                Kind::Rust(Source::read(&text, is_test(path)).with_context(|| path.to_owned())?)
            }
            _ => Kind::Other,
        };
        Ok(Self { text, kind })
    }

    pub(super) const fn source(&self) -> Option<&Source> {
        match &self.kind {
            Kind::Rust(source) => Some(source),
            Kind::Manifest(_) | Kind::Other => None,
        }
    }
}

/// Returns `true` if `path` ends with a dot and `extension`.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

/// Returns `true` if a Rust file contains only tests.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// A place that breaks a rule.
pub(super) struct Finding {
    pub(super) path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    pub(super) fn new(path: &str, line: usize, message: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), line, message: message.to_string() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}
