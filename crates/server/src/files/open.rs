//! Opens files below a directory, and never a file outside of the directory.
//!
//! The kernel resolves the whole path in one call of `openat2`, and never leaves the directory. So an
//! attacker cannot replace a part of the path after it was checked. This module is independent of HTTP.

use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::walk;

/// An open directory, and the method to look up paths in it.
#[derive(Debug)]
pub(super) struct Root {
    directory: OwnedFd,
    lookup: Lookup,
    pub(super) follows_symlinks: bool,
}

/// Method to look up a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lookup {
    /// The kernel resolves the path with `openat2` (Linux 5.6).
    Kernel,
    /// This crate resolves the path, one name after the other. Used on systems where `openat2` is missing or
    /// forbidden.
    Walk,
}

/// Result of a lookup.
#[derive(Debug)]
pub(super) enum Found {
    /// A directory, which is open for reading its names.
    Directory(File),
    File(OpenFile),
    /// A device, a FIFO or a socket. The server must not serve such files.
    Other,
}

/// An open regular file, with the metadata that it had when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) metadata: Metadata,
}

impl Root {
    /// Opens the directory at `path`, which may be a symbolic link to any place.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut root = Self {
            directory: openat(CWD, path, flags, Mode::empty())?,
            lookup: Lookup::Kernel,
            follows_symlinks: true,
        };
        // Old kernels do not support `openat2`, and some sandboxes forbid it.
        if matches!(root.open_beneath(b"."), Err(Errno::NOSYS | Errno::PERM)) {
            tracing::debug!("`openat2` is missing or forbidden, so file paths are looked up name by name");
            root.lookup = Lookup::Walk;
        }
        Ok(root)
    }

    /// Returns this root with the lookup method replaced by `lookup`.
    #[cfg(test)]
    pub(super) const fn with_lookup(mut self, lookup: Lookup) -> Self {
        self.lookup = lookup;
        self
    }

    /// Looks up the relative `path`.
    pub(super) fn find(&self, path: &[u8]) -> Result<Found, Errno> {
        let file = File::from(match self.lookup {
            Lookup::Kernel => self.open_beneath(path)?,
            Lookup::Walk => walk::open_beneath(&self.directory, path, self.follows_symlinks)?,
        });
        let metadata = file.metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(match metadata.file_type() {
            kind if kind.is_file() => Found::File(OpenFile { file, metadata }),
            kind if kind.is_dir() => Found::Directory(file),
            _ => Found::Other,
        })
    }

    fn open_beneath(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if !self.follows_symlinks {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..TRIES_MAX {
            outcome = openat2(&self.directory, path, walk::OPEN_FLAGS, Mode::empty(), resolve);
            // The kernel returns `EAGAIN` if a directory is moved while the kernel resolves `..`.
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }
}

const TRIES_MAX: usize = 8;

#[cfg(test)]
mod tests;
