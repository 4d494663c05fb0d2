//! Whether files have changed since they were read.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What files looked like.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

/// What tells one state of a file from the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    modified: Option<SystemTime>,
    changed: (i64, i64),
    length: u64,
    inode: u64,
}

impl Stamps {
    /// What the files at `paths` look like now.
    pub(super) fn of<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Self {
        Self(paths.into_iter().map(|path| (path.to_owned(), Stamp::of(path))).collect())
    }

    /// What the same files look like now.
    pub(super) fn again(&self) -> Self {
        Self::of(self.0.iter().map(|(path, _)| &**path))
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            length: metadata.len(),
            inode: metadata.ino(),
        })
    }
}
