//! The access log of a config.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use thruway_server::{AccessLog, AccessLogLines, AccessLogTarget, OpenTarget, ReopenSignal};

use crate::config::{AccessLogConfig, Config, Failure};

/// The access log, if any. It is kept when a config disables it, because a later config may enable it again.
/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct LiveLog(Arc<Mutex<Option<CurrentAccessLog>>>);

/// The log, and what it writes where.
pub(crate) struct CurrentAccessLog {
    log: AccessLog,
    what: (AccessLogLines, AccessLogTarget),
}

/// The access log of a config, after its file was opened.
pub(crate) enum Wanted {
    Nothing,
    /// The current log stays.
    Same,
    Other((AccessLogLines, AccessLogTarget), OpenTarget),
    First(CurrentAccessLog),
}

impl LiveLog {
    /// Opens what `config` wants. Nothing is written to it yet.
    pub(crate) fn open(&self, config: &Config) -> Result<Wanted, Failure> {
        let Some(wanted) = &config.access_log else { return Ok(Wanted::Nothing) };
        let what = (wanted.lines.clone(), wanted.target.clone());
        let opened = match &*self.lock() {
            Some(current) if current.what == what => return Ok(Wanted::Same),
            Some(_) => wanted.target.open().map(|target| Wanted::Other(what, target)),
            None => AccessLog::start(wanted.lines.clone(), &wanted.target)
                .map(|log| Wanted::First(CurrentAccessLog { log, what })),
        };
        opened.map_err(|error| failure(config, wanted, &error))
    }

    /// Applies `wanted`. Returns the log, unless it is disabled.
    pub(crate) fn replace(&self, wanted: Wanted) -> Option<AccessLog> {
        let mut log = self.lock();
        match (wanted, &mut *log) {
            (Wanted::Nothing, _) => return None,
            (Wanted::First(first), log) => *log = Some(first),
            (Wanted::Other(what, target), Some(current)) => {
                current.log.replace(what.0.clone(), target);
                current.what = what;
            }
            (Wanted::Same | Wanted::Other(..), _) => {}
        }
        log.as_ref().map(|current| current.log.clone())
    }

    /// Opens the log again whenever `signal` arrives. Without a log too, the signal must not end the process.
    pub(crate) fn reopen_at(self, mut signal: ReopenSignal) {
        thread::spawn(move || {
            loop {
                signal.wait();
                self.lock().iter().for_each(|current| current.log.reopen());
            }
        });
    }

    /// Writes what is left.
    pub(crate) fn finish(&self) {
        self.lock().iter().for_each(|current| {
            current.log.finish();
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<CurrentAccessLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that the access log can be written, without creating a file.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    let Some(log) = &config.access_log else { return Ok(()) };
    let AccessLogTarget::File(path) = &log.target else { return Ok(()) };
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    std::fs::read_dir(directory.unwrap_or(Path::new("."))).map_err(|error| failure(config, log, &error))?;
    Ok(())
}

fn failure(config: &Config, log: &AccessLogConfig, error: &io::Error) -> Failure {
    config
        .failure_at(&log.span, format!("cannot write the access log: {error}"))
        .with_hint("the directory must exist, and this user needs permission to write the file")
}
