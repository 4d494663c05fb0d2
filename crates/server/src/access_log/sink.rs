//! Targets of access logs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thruway_net::{Admitted, LogLimit, LogTarget};

/// Target of an access log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessLogTarget {
    /// A file to which the log appends lines. A new file gets mode 0640, reduced by the umask of the process,
    /// because log lines may contain personal data. If log rotation has moved the file away, the log creates
    /// a new file before it writes the next lines, or when it is [reopened](crate::AccessLog::reopen).
    File(PathBuf),
    /// Standard output.
    Stdout,
}

impl AccessLogTarget {
    /// Opens the target, for [`AccessLog::replace`](crate::AccessLog::replace).
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(&self) -> io::Result<OpenTarget> {
        OpenTarget::open(self)
    }
}

/// An open target of an access log.
#[derive(Debug)]
pub struct OpenTarget(Sink);

#[derive(Debug)]
enum Sink {
    File { path: PathBuf, file: File },
    Stdout,
}

impl OpenTarget {
    pub(super) fn open(target: &AccessLogTarget) -> io::Result<Self> {
        Ok(Self(match target {
            AccessLogTarget::File(path) => Sink::File { path: path.clone(), file: append_to(path)? },
            AccessLogTarget::Stdout => Sink::Stdout,
        }))
    }

    /// Creates a new file if the current file was moved away.
    fn follow_path(&mut self) {
        if let Sink::File { path, file } = &mut self.0 {
            reopen_if_moved(path, file);
        }
    }
}

impl LogTarget for OpenTarget {
    fn reopen(&mut self) {
        self.follow_path();
        tracing::info!("access log reopened");
    }

    /// Writes `bytes`. If the write fails, the bytes are lost, and the error is logged.
    fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.follow_path();
        let outcome = match &mut self.0 {
            Sink::File { file, .. } => file.write_all(bytes),
            Sink::Stdout => io::stdout().lock().write_all(bytes),
        };
        if let Err(error) = outcome {
            log_failure(&error, "cannot write the access log");
        }
    }

    fn report_dropped(&mut self, lines: u64) {
        tracing::warn!(lines, "the access log is too slow: lines were dropped");
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(MODE).open(path)
}

/// Mode of a new log file: the owner may read and write, the group may read. Other users may not read it,
/// because log lines contain addresses, user names and query strings.
const MODE: u32 = 0o640;

/// Creates a new file at `path` if `path` no longer refers to the open file.
fn reopen_if_moved(path: &Path, file: &mut File) {
    let is_same = match (std::fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(open)) => (there.dev(), there.ino()) == (open.dev(), open.ino()),
        _ => false,
    };
    if is_same {
        return;
    }
    match append_to(path) {
        Ok(new) => *file = new,
        Err(error) => {
            log_failure(
                &error,
                &format!("cannot reopen the access log `{}`, keeping the old file", path.display()),
            );
        }
    }
}

/// Logs a failure of the access log, with a limited rate, because under load a write could fail many times
/// per second.
#[cold]
fn log_failure(error: &io::Error, action: &str) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, suppressed, "{action}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new log file was once readable by every user of the machine, also after a rotation.
    #[test]
    fn new_or_rotated_log_file_is_not_readable_by_other_users() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        let mut target = OpenTarget::open(&AccessLogTarget::File(path.clone())).unwrap();
        let first = mode();
        std::fs::rename(&path, directory.path().join("access.log.1")).unwrap();
        target.reopen();
        for mode in [first, mode()] {
            assert_eq!(mode & 0o137, 0, "{mode:o}");
            assert_eq!(mode & 0o600, 0o600, "{mode:o}");
        }
    }
}
