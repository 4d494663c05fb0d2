//! Opens, replaces and reopens the access log of the daemon.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use thruway_server::{AccessLog, AccessLogLines, AccessLogTarget, DroppedLines, OpenTarget, ReopenSignal};

use crate::config::{AccessLogConfig, Config, Failure};
use crate::mcp::audit_logs::AuditLogs;

/// The access log. `None` until a config enables the access log. If a later config disables the access log,
/// the log stays open, because the next config may enable it again. Clones share the log.
#[derive(Clone, Default)]
pub(crate) struct LiveLog(Arc<Mutex<Option<CurrentAccessLog>>>);

/// An open access log, with its line settings and its target.
pub(crate) struct CurrentAccessLog {
    log: AccessLog,
    settings: (AccessLogLines, AccessLogTarget),
}

/// Difference between the access log of a new config and the current access log. If the target differs, the
/// new target is already open.
pub(crate) enum LogChange {
    /// The new config has no access log.
    Disabled,
    /// The new config has the same access log.
    Same,
    Replaced((AccessLogLines, AccessLogTarget), OpenTarget),
    First(CurrentAccessLog),
}

impl LiveLog {
    /// Opens the access log of `config`. Lines are written only after [`replace`](Self::replace).
    pub(crate) fn open(&self, config: &Config) -> Result<LogChange, Failure> {
        let Some(wanted) = &config.access_log else { return Ok(LogChange::Disabled) };
        let settings = (wanted.lines.clone(), wanted.target.clone());
        let opened = match &*self.lock() {
            Some(current) if current.settings == settings => return Ok(LogChange::Same),
            Some(_) => wanted.target.open().map(|target| LogChange::Replaced(settings, target)),
            None => AccessLog::start(wanted.lines.clone(), &wanted.target)
                .map(|log| LogChange::First(CurrentAccessLog { log, settings })),
        };
        opened.map_err(|error| failure(config, wanted, &error))
    }

    /// Applies `wanted`. Returns the access log, or `None` if the config disables it.
    pub(crate) fn replace(&self, wanted: LogChange) -> Option<AccessLog> {
        let mut log = self.lock();
        match (wanted, &mut *log) {
            (LogChange::Disabled, _) => return None,
            (LogChange::First(first), log) => *log = Some(first),
            (LogChange::Replaced(settings, target), Some(current)) => {
                current.log.replace(settings.0.clone(), target);
                current.settings = settings;
            }
            // Users of nginx expect that a reload also reopens the log file.
            (LogChange::Same, Some(current)) => current.log.reopen(),
            (LogChange::Same | LogChange::Replaced(..), _) => {}
        }
        log.as_ref().map(|current| current.log.clone())
    }

    /// Opens the log file and the files of `audit_logs` again whenever `signal` arrives. The process handles the signal even if the config
    /// has no access log. Otherwise, the signal would end the process.
    pub(crate) fn reopen_at(self, mut signal: ReopenSignal, audit_logs: AuditLogs) {
        thread::spawn(move || {
            loop {
                signal.wait();
                self.lock().iter().for_each(|current| current.log.reopen());
                audit_logs.reopen();
            }
        });
    }

    /// Returns the numbers of lines that the log has not written since its start.
    pub(crate) fn dropped(&self) -> DroppedLines {
        self.lock().as_ref().map(|current| current.log.dropped()).unwrap_or_default()
    }

    /// Writes the remaining lines of the log.
    pub(crate) fn finish(&self) {
        self.lock().iter().for_each(|current| {
            current.log.finish();
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<CurrentAccessLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that the directory of the access log is readable, and that the path is no directory. Does not create the
/// log file.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    let Some(log) = &config.access_log else { return Ok(()) };
    let AccessLogTarget::File(path) = &log.target else { return Ok(()) };
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    std::fs::read_dir(directory.unwrap_or(Path::new("."))).map_err(|error| failure(config, log, &error))?;
    if path.is_dir() {
        return Err(failure(config, log, &io::ErrorKind::IsADirectory.into()));
    }
    Ok(())
}

fn failure(config: &Config, log: &AccessLogConfig, error: &io::Error) -> Failure {
    let failure = config.failure_at(&log.span, format!("cannot write the access log: {error}"));
    // Other errors contain the next step.
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => failure.with_hint(FILE_HINT),
        _ => failure,
    }
}

const FILE_HINT: &str =
    "the directory must exist, and the user of this process needs permission to write the file";
