//! The config file of an application: reading, the backup, and the replacement in one step.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::message::CommandError;

/// A config file and its text.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    /// The text. Empty if the file does not exist.
    text: String,
    exists: bool,
}

/// The result of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// Path of the copy of the previous file. `None` if there was no file, or if nothing changed.
    pub backup: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads a file. Follows symbolic links, so that a later [`write`](Self::write) keeps the link. A missing
    /// file counts as an empty file.
    pub(super) fn read(path: PathBuf) -> Result<Self, CommandError> {
        let path = match fs::canonicalize(&path) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                return Ok(Self { path, text: String::new(), exists: false });
            }
            Err(error) => return Err(failed("read", &path, &error)),
        };
        let text = read_text(&path).map_err(|error| failed("read", &path, &error))?;
        Ok(Self { path, text, exists: true })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the file. A new file has mode 0600, because its entries may contain secrets. An existing file
    /// keeps its mode.
    pub(super) fn write(&self, text: &str) -> Result<Written, CommandError> {
        let failed = |error| failed("write", &self.path, &error);
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory).map_err(failed)?;
        let mode = if self.exists {
            fs::metadata(&self.path).map_err(failed)?.permissions().mode() & 0o777
        } else {
            0o600
        };
        let new = self.beside(&format!("{}.new", std::process::id()));
        let written = write_new(&new, text, mode);
        let replaced = written.and_then(|()| {
            self.check_unchanged()?;
            let backup = self.back_up(mode)?;
            fs::rename(&new, &self.path)?;
            Ok(backup)
        });
        if replaced.is_err() {
            // The file may not exist, and the first error matters more.
            let _ = fs::remove_file(&new);
        }
        replaced.map(|backup| Written { backup }).map_err(failed)
    }

    /// Writes the previous text to the backup. Replaces an earlier backup, and does not follow a link at its
    /// path.
    fn back_up(&self, mode: u32) -> io::Result<Option<PathBuf>> {
        if !self.exists {
            return Ok(None);
        }
        let backup = self.beside("backup");
        write_new(&backup, &self.text, mode)?;
        Ok(Some(backup))
    }

    /// Fails if another program has changed the file since it was read.
    fn check_unchanged(&self) -> io::Result<()> {
        let current = match read_text(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.exists => return Ok(()),
            text => text?,
        };
        if self.exists && current == self.text {
            return Ok(());
        }
        Err(io::Error::other("another program has just changed the file; run the command again"))
    }

    /// Returns the path of a file in the same directory, with a further extension.
    fn beside(&self, extension: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".thruway-");
        path.push(extension);
        path.into()
    }
}

/// Reads a regular file of at most [`FILE_BYTES_MAX`] bytes.
fn read_text(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is larger than 4 MiB"));
    }
    Ok(text)
}

/// Writes a new file. Removes an older file, for example of an earlier process with the same process id.
fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn failed(action: &str, path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(format!("cannot {action} `{}`: {error}", path.display()))
}

/// Maximum size of a config file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
