//! Targets of access logs.

use std::borrow::Cow;
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

/// An open target of an access log, or of another log.
#[derive(Debug)]
pub struct OpenTarget {
    sink: Sink,
    /// The name of the log in messages.
    log: Cow<'static, str>,
}

#[derive(Debug)]
enum Sink {
    File { path: PathBuf, file: File },
    Stdout,
}

impl OpenTarget {
    pub(super) fn open(target: &AccessLogTarget) -> io::Result<Self> {
        let sink = match target {
            AccessLogTarget::File(path) => Sink::File { path: path.clone(), file: append_to(path)? },
            AccessLogTarget::Stdout => Sink::Stdout,
        };
        Ok(Self { sink, log: Cow::Borrowed("access log") })
    }

    /// Sets the name of the log in messages. Default: `access log`.
    #[must_use]
    pub fn named(self, log: impl Into<Cow<'static, str>>) -> Self {
        Self { log: log.into(), ..self }
    }

    /// Creates a new file if the current file was moved away.
    fn follow_path(&mut self) {
        if let Sink::File { path, file } = &mut self.sink {
            reopen_if_moved(path, file, &self.log);
        }
    }
}

impl LogTarget for OpenTarget {
    fn reopen(&mut self) {
        self.follow_path();
        tracing::info!("{} reopened", self.log);
    }

    /// Writes `bytes`. If the write fails, the bytes are lost, and the error is logged.
    fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.follow_path();
        let outcome = match &mut self.sink {
            Sink::File { file, .. } => file.write_all(bytes),
            Sink::Stdout => io::stdout().lock().write_all(bytes),
        };
        if let Err(error) = outcome {
            log_failure(&error, &format!("cannot write the {}", self.log));
        }
    }

    fn report_dropped(&mut self, lines: u64) {
        tracing::warn!(lines, "the {} is too slow: lines were dropped", self.log);
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(MODE).open(path)
}

/// Mode of a new log file: the owner may read and write, the group may read. Other users may not read it,
/// because log lines contain addresses, user names and query strings.
const MODE: u32 = 0o640;

/// Creates a new file at `path` if `path` no longer refers to the open file. `log` is the name of the log.
fn reopen_if_moved(path: &Path, file: &mut File, log: &str) {
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
                &format!("cannot reopen the {log} `{}`, keeping the old file", path.display()),
            );
        }
    }
}

/// Logs a failure of a log, with a limited rate, because under load a write could fail many times
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
