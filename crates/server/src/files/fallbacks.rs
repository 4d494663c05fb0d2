//! The list of files that a handler tries for a request.

use std::fmt;

use super::path;

/// A file to try for a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FileCandidate {
    /// `{path}`: the file or directory at the path of the request.
    Path,
    /// `{path}SUFFIX`: the file at the path of the request with a suffix, such as `.html` or `/index.html`.
    PathWithSuffix(String),
    /// The same file for each request, as a path relative to the root.
    File(Vec<u8>),
}

/// The error for an invalid entry of [`Files::try_files`](super::Files::try_files).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidFileCandidate(String);

impl FileCandidate {
    pub(super) fn parse(text: &str, serves_hidden: bool) -> Result<Self, InvalidFileCandidate> {
        let invalid = || InvalidFileCandidate(text.to_owned());
        let is_plain = |text: &str| !text.contains(['{', '}', '\\', '\0']);
        match text.strip_prefix("{path}") {
            Some("") => Ok(Self::Path),
            Some(suffix) => {
                let is_safe =
                    is_plain(suffix) && !suffix.split('/').any(|segment| matches!(segment, "." | ".."));
                is_safe.then(|| Self::PathWithSuffix(suffix.to_owned())).ok_or_else(invalid)
            }
            None if text.starts_with('/') && is_plain(text) => {
                // A percent sign in the config is a part of the name, and not the start of an encoded byte.
                let found = path::below_root(&text.replace('%', "%25"), serves_hidden).ok_or_else(invalid)?;
                if found.is_empty() || text.ends_with('/') { Err(invalid()) } else { Ok(Self::File(found)) }
            }
            None => Err(invalid()),
        }
    }

    /// Returns the path of the file to try, relative to the root. `path` is the path of the request below the
    /// root, if it is a valid file path. `is_of_directory` is `true` if the path of the request ends with a
    /// slash. Returns `None` if the candidate does not apply to the request.
    pub(super) fn file(&self, path: Option<&[u8]>, is_of_directory: bool) -> Option<Vec<u8>> {
        match self {
            Self::Path => None,
            Self::File(file) => Some(file.clone()),
            Self::PathWithSuffix(suffix) => {
                let path = path?;
                match suffix.strip_prefix('/') {
                    Some(name) if path.is_empty() => Some(name.as_bytes().to_vec()),
                    // `/about/` names a directory, so `{path}.html` is not the page `about.html`.
                    None if path.is_empty() || is_of_directory => None,
                    _ => Some([path, suffix.as_bytes()].concat()),
                }
            }
        }
    }
}

impl fmt::Display for InvalidFileCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a file to try: it begins with `/` or `{{path}}`, and names a file below the root",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for InvalidFileCandidate {}
