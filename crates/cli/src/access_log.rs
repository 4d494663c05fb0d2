//! The access log of a config.

use std::io;
use std::path::Path;
use std::thread;

use thruway_server::{AccessLog, AccessLogTarget, ReopenSignal};

use crate::config::{AccessLogConfig, Config, Failure};

/// Starts the access log, if the config wants one.
pub(crate) fn start(config: &Config) -> Result<Option<AccessLog>, Failure> {
    let Some(log) = &config.access_log else { return Ok(None) };
    AccessLog::start(log.format, &log.target).map(Some).map_err(|error| failure(config, log, &error))
}

/// Looks whether the access log could be started, without making a file.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    let Some(log) = &config.access_log else { return Ok(()) };
    let AccessLogTarget::File(path) = &log.target else { return Ok(()) };
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    std::fs::read_dir(directory.unwrap_or(Path::new("."))).map_err(|error| failure(config, log, &error))?;
    Ok(())
}

fn failure(config: &Config, log: &AccessLogConfig, error: &io::Error) -> Failure {
    config
        .failure_at(&log.span, format!("the access log cannot be written: {error}"))
        .with_hint("the directory must be there, and this user must be allowed to write to the file")
}

/// Opens `log` again whenever `signal` arrives. Without a log too, the signal must not end the process.
pub(crate) fn reopen_at(mut signal: ReopenSignal, log: Option<AccessLog>) {
    thread::spawn(move || {
        loop {
            signal.wait();
            if let Some(log) = &log {
                log.reopen();
            }
        }
    });
}
