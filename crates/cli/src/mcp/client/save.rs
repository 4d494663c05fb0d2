//! `--save`: what cannot be shown is written into a directory.

use std::cell::{Cell, RefCell};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::print::to_stderr;

/// The directory, and what became of what was to be written there.
pub(super) struct SaveDirectory<'a> {
    directory: &'a Path,
    paths: RefCell<Vec<PathBuf>>,
    has_failed: Cell<bool>,
}

impl<'a> SaveDirectory<'a> {
    pub(super) const fn new(directory: &'a Path) -> Self {
        Self { directory, paths: RefCell::new(Vec::new()), has_failed: Cell::new(false) }
    }

    /// Writes what is Base64 into a file of its own; `None`, and an error that is told, if that cannot be done.
    pub(super) fn save(&self, kind: &str, mime_type: &str, base64: &str) -> Option<PathBuf> {
        let saved = save(self.directory, kind, mime_type, base64);
        let saved = saved.inspect_err(|error| {
            self.has_failed.set(true);
            let directory = self.directory.display();
            to_stderr(&format!("error: `{directory}`: the {kind} cannot be saved: {error}"));
        });
        let path = saved.ok()?;
        self.paths.borrow_mut().push(path.clone());
        Some(path)
    }

    /// What was written.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.paths.borrow().clone()
    }

    /// Whether anything could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }
}

/// Writes what is Base64 into a file of its own in `directory`, which is made if it is not there. Nothing is overwritten.
fn save(directory: &Path, kind: &str, mime_type: &str, base64: &str) -> io::Result<PathBuf> {
    let octets = STANDARD.decode(base64).map_err(|_| io::ErrorKind::InvalidData)?;
    fs::create_dir_all(directory)?;
    for number in 1..=FILES_MAX {
        let path = directory.join(format!("{kind}-{number}.{}", extension(mime_type)));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(&octets)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// What files of a type end with. The server chooses the type, but not where the file is.
fn extension(mime_type: &str) -> String {
    let subtype = mime_type.split('/').nth(1).unwrap_or_default();
    let subtype = subtype.split([';', '+']).next().unwrap_or_default().trim();
    let known = match subtype {
        "jpeg" => "jpg",
        "mpeg" => "mp3",
        "svg" => "svg",
        "plain" => "txt",
        other => other.strip_prefix("x-").unwrap_or(other),
    };
    let is_plain =
        !known.is_empty() && known.len() <= 10 && known.bytes().all(|octet| octet.is_ascii_alphanumeric());
    if is_plain { known.to_owned() } else { "bin".to_owned() }
}

/// How many files of a kind a directory may have.
const FILES_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_numbers_and_are_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("new");
        let save = |mime_type: &str, base64: &str| save(&directory, "image", mime_type, base64);
        assert_eq!(save("image/png", "AAEC").unwrap(), directory.join("image-1.png"));
        assert_eq!(save("image/png", "AAED").unwrap(), directory.join("image-2.png"));
        assert_eq!(fs::read(directory.join("image-1.png")).unwrap(), [0, 1, 2]);
        assert!(save("image/png", "not base64").is_err());
    }

    #[test]
    fn a_type_leads_nowhere_else() {
        for (mime_type, expected) in [
            ("image/jpeg", "jpg"),
            ("audio/x-wav", "wav"),
            ("image/svg+xml; charset=utf-8", "svg"),
            ("../../etc/passwd", "bin"),
            ("image/../x", "bin"),
            ("", "bin"),
        ] {
            assert_eq!(extension(mime_type), expected, "{mime_type}");
        }
    }
}
