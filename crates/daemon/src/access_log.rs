//! Opens, replaces and reopens the access log of the daemon.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use thruway_server::{AccessLog, AccessLogLines, AccessLogTarget, OpenTarget, ReopenSignal};

use crate::config::{AccessLogConfig, Config, Failure};

/// The access log. `None` until a config enables the access log. If a later config disables the access log,
/// the log stays open, because the next config may enable it again. Clones share the log.
#[derive(Clone, Default)]
pub(crate) struct LiveLog(Arc<Mutex<Option<CurrentAccessLog>>>);

/// An open access log, with its line settings and its target.
pub(crate) struct CurrentAccessLog {
    log: AccessLog,
    what: (AccessLogLines, AccessLogTarget),
}

/// Difference between the access log of a new config and the current access log. If the target differs, the
/// new target is already open.
pub(crate) enum Wanted {
    Nothing,
    /// The new config has the same access log.
    Same,
    Other((AccessLogLines, AccessLogTarget), OpenTarget),
    First(CurrentAccessLog),
}

impl LiveLog {
    /// Opens the access log of `config`, but writes no lines yet.
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

    /// Applies `wanted`. Returns the access log, or `None` if the config disables it.
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

    /// Opens the log file again whenever `signal` arrives. Waits for the signal even if the config has no
    /// access log, because the signal would otherwise end the process.
    pub(crate) fn reopen_at(self, mut signal: ReopenSignal) {
        thread::spawn(move || {
            loop {
                signal.wait();
                self.lock().iter().for_each(|current| current.log.reopen());
            }
        });
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

/// Checks that the directory of the access log is readable. Creates no file.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    let Some(log) = &config.access_log else { return Ok(()) };
    let AccessLogTarget::File(path) = &log.target else { return Ok(()) };
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    std::fs::read_dir(directory.unwrap_or(Path::new("."))).map_err(|error| failure(config, log, &error))?;
    Ok(())
}

fn failure(config: &Config, log: &AccessLogConfig, error: &io::Error) -> Failure {
    config.failure_at(&log.span, format!("cannot write the access log: {error}")).with_hint(
        "the directory must exist, and the user of this process needs permission to write the file",
    )
}
