//! The config file of an application: reading, the backup, and the replacement in one step.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
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

/// The mode of a file, with its owner and its group.
#[derive(Clone, Copy)]
struct Access {
    mode: u32,
    /// Ids of the user and of the group. `None` for those of this process.
    owner: Option<(u32, u32)>,
}

impl Access {
    fn of(metadata: &Metadata) -> Self {
        let mode = metadata.permissions().mode() & 0o777;
        Self { mode, owner: Some((metadata.uid(), metadata.gid())) }
    }
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
    /// keeps its mode, its owner and its group. If this is not possible, the file stays as it is.
    pub(super) fn write(&self, text: &str) -> Result<Written, CommandError> {
        let failed = |error| failed("write", &self.path, &error);
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory).map_err(failed)?;
        let access = if self.exists {
            Access::of(&fs::metadata(&self.path).map_err(failed)?)
        } else {
            Access { mode: 0o600, owner: None }
        };
        let new = self.beside(&format!("{}.new", std::process::id()));
        let written = write_new(&new, text, access);
        let replaced = written.and_then(|()| {
            self.check_unchanged()?;
            let backup = self.back_up(access)?;
            fs::rename(&new, &self.path)?;
            // After a power failure, the directory must not contain the previous file.
            File::open(directory)?.sync_all()?;
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
    fn back_up(&self, access: Access) -> io::Result<Option<PathBuf>> {
        if !self.exists {
            return Ok(None);
        }
        let backup = self.beside("backup");
        write_new(&backup, &self.text, access)?;
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
fn write_new(path: &Path, text: &str, access: Access) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    if let Some((user, group)) = access.owner {
        fchown(&file, Some(user), Some(group)).map_err(|error| {
            io::Error::new(error.kind(), format!("the file would get another owner or group: {error}"))
        })?;
    }
    file.set_permissions(Permissions::from_mode(access.mode))?;
    file.sync_all()
}

fn failed(action: &str, path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(format!("cannot {action} `{}`: {error}", path.display()))
}

/// Maximum size of a config file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use rustix::process::geteuid;

    use super::*;

    /// Regression test: the command took the config of a user away when `root` ran it.
    #[test]
    fn file_and_backup_keep_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        fs::write(&path, "old").unwrap();
        let mut owner = (geteuid().as_raw(), fs::metadata(&path).unwrap().gid());
        if geteuid().is_root() {
            owner = (1234, 5678);
            std::os::unix::fs::chown(&path, Some(owner.0), Some(owner.1)).unwrap();
        }
        let written = ConfigFile::read(path.clone()).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        for file in [path, written.backup.unwrap()] {
            let metadata = fs::metadata(&file).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), owner, "{}", file.display());
        }
    }

    /// Only `root` may give files away, so this test needs another user.
    #[test]
    fn file_that_cannot_get_its_owner_is_an_error() {
        if geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let access = Access { mode: 0o644, owner: Some((0, 0)) };
        let path = directory.path().join("config.json");
        let error = write_new(&path, "text", access).unwrap_err();
        assert!(error.to_string().starts_with("the file would get another owner or group: "), "{error}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
