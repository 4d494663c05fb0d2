//! Watches the source files of a server with inotify.
//!
//! The kernel watches directories one by one, so the watcher skips directories with build results. See
//! `docs/decisions/0098-watching-source-files.md`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::message::CommandError;

/// Receives the changes of source files. A thread reads the events of the kernel. It runs until the process
/// ends.
pub(super) struct SourceWatcher {
    changes: mpsc::Receiver<io::Result<PathBuf>>,
}

/// The watched directories.
struct Directories {
    inotify: OwnedFd,
    paths: HashMap<i32, PathBuf>,
}

impl SourceWatcher {
    /// Starts to watch `roots` with their subdirectories.
    ///
    /// # Errors
    /// A root is not a directory, the roots have too many directories, or the kernel refuses a watch.
    pub(super) fn new(roots: &[PathBuf]) -> Result<Self, CommandError> {
        let directories = Directories::new(roots)?;
        let (sender, changes) = mpsc::channel(CHANGES_MAX);
        let thread = thread::Builder::new().name("watch".to_owned());
        let started = thread.spawn(move || directories.watch(&sender));
        started.map_err(|error| CommandError::new(format!("cannot watch source files: {error}")))?;
        Ok(Self { changes })
    }

    /// Waits until a source file changes, and then until no file has changed for [`QUIET`]. Returns the path
    /// of the first change.
    ///
    /// # Cancel safety
    /// If the future is dropped, a change that it has seen may be lost.
    pub(super) async fn changed(&mut self) -> io::Result<PathBuf> {
        let ended = || Err(io::Error::other("the thread has ended"));
        let first = self.changes.recv().await.unwrap_or_else(ended)?;
        let end = Instant::now() + QUIET_MAX;
        // An editor or `git checkout` writes several files.
        while let Ok(more) = timeout_at(end.min(Instant::now() + QUIET), self.changes.recv()).await {
            more.unwrap_or_else(ended)?;
        }
        Ok(first)
    }

    /// Forgets the changes until now.
    pub(super) fn forget(&mut self) {
        while let Ok(Ok(_)) = self.changes.try_recv() {}
    }
}

impl Directories {
    fn new(roots: &[PathBuf]) -> Result<Self, CommandError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC)
            .map_err(|error| CommandError::new(format!("cannot watch source files: {error}")))?;
        let mut directories = Self { inotify, paths: HashMap::new() };
        for root in roots {
            let shown = root.display();
            if !root.is_dir() {
                return Err(CommandError::new(format!("cannot watch `{shown}`: it is not a directory")));
            }
            directories.add(root).map_err(|error| {
                CommandError::new(format!("cannot watch `{shown}`: {error}"))
                    .with_hint("pass directories with fewer subdirectories: `--watch src`")
            })?;
        }
        Ok(directories)
    }

    /// Sends each change to `changes`, until the receiver is gone or reading fails.
    fn watch(mut self, changes: &mpsc::Sender<io::Result<PathBuf>>) {
        loop {
            let outcome = self.next_changes();
            let has_failed = outcome.is_err();
            let paths = outcome.unwrap_or_else(|error| vec![Err(error)]);
            if paths.into_iter().any(|path| changes.blocking_send(path).is_err()) || has_failed {
                return;
            }
        }
    }

    /// Waits for events. Returns the paths of the relevant changes.
    fn next_changes(&mut self) -> io::Result<Vec<io::Result<PathBuf>>> {
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let (mut changed, mut created) = (Vec::new(), Vec::new());
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if let Some((path, is_new_directory)) = change_of(&self.paths, &event) {
                if is_new_directory {
                    created.push(path.clone());
                }
                changed.push(Ok(path));
            }
            // A further call would wait for new events.
            if reader.is_buffer_empty() {
                break;
            }
        }
        for directory in created {
            // The directory may already be gone.
            if let Err(error) = self.add(&directory)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!("cannot watch `{}`: {error}", directory.display());
            }
        }
        Ok(changed)
    }

    /// Watches a directory and its subdirectories.
    fn add(&mut self, root: &Path) -> io::Result<()> {
        let mut remaining = vec![root.to_owned()];
        while let Some(directory) = remaining.pop() {
            if self.paths.len() >= DIRECTORIES_MAX {
                return Err(io::Error::other(format!("it has more than {DIRECTORIES_MAX} subdirectories")));
            }
            let flags = WatchFlags::CLOSE_WRITE
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVE
                | WatchFlags::ONLYDIR
                | WatchFlags::EXCL_UNLINK;
            let watch = inotify::add_watch(&self.inotify, &directory, flags)?;
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                // A link is not followed: it may lead out of the project, or into a circle.
                if entry.file_type()?.is_dir() && !is_ignored(&entry.file_name()) {
                    remaining.push(entry.path());
                }
            }
            self.paths.insert(watch, directory);
        }
        Ok(())
    }
}

/// Returns the path of a relevant change, and `true` if the path is a new directory.
fn change_of(directories: &HashMap<i32, PathBuf>, event: &inotify::Event<'_>) -> Option<(PathBuf, bool)> {
    let events = event.events();
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        // The kernel has dropped events.
        return Some((PathBuf::from("(many files)"), false));
    }
    let directory = directories.get(&event.wd())?;
    let name = OsStr::from_bytes(event.file_name()?.to_bytes());
    if is_ignored(name) {
        return None;
    }
    let path = directory.join(name);
    let is_directory = events.contains(ReadFlags::ISDIR);
    let is_new = events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
    // A new file counts when it is written. A link is complete at once.
    if events == ReadFlags::CREATE && !path.is_symlink() {
        return None;
    }
    Some((path, is_directory && is_new))
}

/// Returns `true` for names that are not source files: hidden files such as `.git`, build results, and files
/// that editors write while they save. Cargo writes `Cargo.lock` during a build.
fn is_ignored(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".")
        || name.ends_with(b"~")
        || matches!(name, b"target" | b"node_modules" | b"__pycache__" | b"venv" | b"Cargo.lock" | b"4913")
}

/// Time without changes after which [`SourceWatcher::changed`] returns.
const QUIET: Duration = Duration::from_millis(100);

/// Maximum time that [`SourceWatcher::changed`] waits for the end of changes.
const QUIET_MAX: Duration = Duration::from_secs(2);

/// Maximum number of changes that wait for the receiver. The thread then waits, and the kernel keeps further
/// events.
const CHANGES_MAX: usize = 64;

/// Maximum number of watched directories.
const DIRECTORIES_MAX: usize = 4_096;

/// Size of the buffer for events, in bytes.
const EVENT_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    async fn change_after(watcher: &mut SourceWatcher, change: impl FnOnce()) -> PathBuf {
        change();
        tokio::time::timeout(Duration::from_secs(30), watcher.changed()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn changes_of_source_files_are_seen_and_others_ignored() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for directory in ["src/deep", "target/debug", ".git", "node_modules/a"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        fs::write(path("src/old.rs"), "").unwrap();
        assert_eq!(Directories::new(&[root.path().to_owned()]).unwrap().paths.len(), 3);
        let mut watcher = SourceWatcher::new(&[root.path().to_owned()]).unwrap();
        let seen = change_after(&mut watcher, || {
            for ignored in ["target/debug/a", ".git/index", "node_modules/a/b", ".hidden", "a~", "Cargo.lock"]
            {
                fs::write(path(ignored), "x").unwrap();
            }
            fs::write(path("src/deep/a.rs"), "x").unwrap();
        });
        assert_eq!(seen.await, path("src/deep/a.rs"));
        let seen = change_after(&mut watcher, || fs::remove_file(path("src/old.rs")).unwrap());
        assert_eq!(seen.await, path("src/old.rs"));
        // Many editors write a new file, and rename it.
        let seen = change_after(&mut watcher, || {
            fs::write(path(".b.rs"), "x").unwrap();
            fs::rename(path(".b.rs"), path("src/b.rs")).unwrap();
        });
        assert_eq!(seen.await, path("src/b.rs"));
    }

    #[tokio::test]
    async fn new_directories_are_watched() {
        let root = tempfile::tempdir().unwrap();
        let mut watcher = SourceWatcher::new(&[root.path().to_owned()]).unwrap();
        let inner = root.path().join("a/b");
        let seen = change_after(&mut watcher, || fs::create_dir_all(&inner).unwrap());
        assert_eq!(seen.await, root.path().join("a"));
        let seen = change_after(&mut watcher, || fs::write(inner.join("c.rs"), "x").unwrap());
        assert_eq!(seen.await, inner.join("c.rs"));
    }

    #[tokio::test]
    async fn roots_must_be_directories() {
        let root = tempfile::tempdir().unwrap();
        let error = SourceWatcher::new(&[root.path().join("missing")]).err().unwrap();
        assert!(error.to_string().ends_with("missing`: it is not a directory"), "{error}");
    }
}
