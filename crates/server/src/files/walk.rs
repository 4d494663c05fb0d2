//! Resolves a path, one name after the other, on systems where `openat2` is missing or forbidden. The result
//! is the same as that of `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`.
//!
//! The walk opens each directory of the path relative to the directory before it. It does not let the kernel
//! follow symbolic links. Instead, it reads a link, and resolves its target like the remaining path. The
//! directories of the path stay open until the end. So `..` in a link returns to the right directory, even if
//! another process moves directories meanwhile.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// Opens the file at `path` below `root`.
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
    // The path ends with `.`, `..` or a slash, so it refers to the current directory of the walk.
    openat(walk.directory(), c".", OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty())
}

/// State of a walk.
struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// The open directories between the root and the current directory. The last item is the current
    /// directory.
    passed: Vec<OwnedFd>,
    /// The remaining names of the path in reverse order, so the next name is the last item.
    ahead: Vec<Vec<u8>>,
    symlinks_left: usize,
}

impl Walk<'_> {
    fn put_ahead(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        self.ahead.extend(path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
        Ok(())
    }

    /// Resolves `name`, the next name of the path. Returns the file if `name` was the last name of the path.
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

    /// If `name` is a symbolic link, puts its target at the start of the remaining path. Otherwise returns
    /// `error`, the error of the attempt to open `name`.
    fn follow(&mut self, name: &[u8], error: Errno) -> Result<(), Errno> {
        let target = readlinkat(self.directory(), name, Vec::new()).map_err(|_| error)?;
        self.symlinks_left = self.symlinks_left.checked_sub(1).ok_or(Errno::LOOP)?;
        self.put_ahead(target.as_bytes())
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.passed.last().map_or(self.root, AsFd::as_fd)
    }
}

/// Flags to open the directories of a path. The process needs no read permission for these directories.
const PASS_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Maximum number of symbolic links in a path, as in Linux.
const SYMLINKS_MAX: usize = 40;

/// Maximum number of directories in a path. The limit is needed because each open directory uses a
/// descriptor.
const DEPTH_MAX: usize = 64;

/// Flags to open a file for reading. With these flags, opening a FIFO does not wait for a writer, and opening
/// a terminal does not make it the controlling terminal of the process.
pub(super) const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
