//! Looks up a path name by name, where the kernel has no `openat2` or it is forbidden: the portable twin of
//! what `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS` means.
//!
//! Every name is opened in the directory that was opened before it, and never as a symbolic link: links are
//! read and their targets walked like the rest of the path. The directories passed stay open, so that `..` in
//! a link leads back to them, and not to wherever they have been moved meanwhile.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// Opens what is at `path` below `root`.
pub(super) fn open_beneath(root: &OwnedFd, path: &[u8], follows_symlinks: bool) -> Result<OwnedFd, Errno> {
    let mut walk = Walk {
        root: root.as_fd(),
        passed: Vec::new(),
        ahead: Vec::new(),
        symlinks_left: if follows_symlinks { SYMLINKS_MAX } else { 0 },
    };
    walk.put_ahead(path)?;
    while let Some(name) = walk.ahead.pop() {
        if let Some(found) = walk.step(&name)? {
            return Ok(found);
        }
    }
    // The last name was none, as in `a/..`: that is the directory itself.
    openat(walk.directory(), c".", OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty())
}

/// State of a walk.
struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// The directories on the way from the root to here.
    passed: Vec<OwnedFd>,
    /// The names to come, the next one last.
    ahead: Vec<Vec<u8>>,
    symlinks_left: usize,
}

impl Walk<'_> {
    fn put_ahead(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        self.ahead.extend(path.split(|octet| *octet == b'/').rev().map(<[u8]>::to_vec));
        Ok(())
    }

    /// Walks on to `name`; the file, if it was the last one.
    fn step(&mut self, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        match name {
            b"" | b"." => return Ok(None),
            b".." => return self.passed.pop().map(|_| None).ok_or(Errno::XDEV),
            _ if self.passed.len() == DEPTH_MAX => return Err(Errno::NAMETOOLONG),
            _ => {}
        }
        let is_last = self.ahead.is_empty();
        let flags = if is_last { OPEN_FLAGS } else { PASS_FLAGS };
        match openat(self.directory(), name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(file) if is_last => Ok(Some(file)),
            Ok(directory) => {
                self.passed.push(directory);
                Ok(None)
            }
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => self.follow(name, error).map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// Puts the target of the link `name` in its place. If it is no link, the error is that of opening it.
    fn follow(&mut self, name: &[u8], error: Errno) -> Result<(), Errno> {
        let target = readlinkat(self.directory(), name, Vec::new()).map_err(|_| error)?;
        self.symlinks_left = self.symlinks_left.checked_sub(1).ok_or(Errno::LOOP)?;
        self.put_ahead(target.as_bytes())
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.passed.last().map_or(self.root, AsFd::as_fd)
    }
}

/// To pass through a directory, it need not be readable.
const PASS_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Maximum number of symbolic links in a path, as in Linux.
const SYMLINKS_MAX: usize = 40;

/// Each directory on the way is a descriptor.
const DEPTH_MAX: usize = 64;

/// Flags to open a file for reading. They prevent a wait for the writer of a FIFO, and taking over a
/// terminal.
pub(super) const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
