//! Opens, reopens and closes the audit logs of MCP endpoints.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_mcp_sdk::AuditLog;
use thruway_server::{AccessLogTarget, DroppedLines};

use crate::config::{Config, Failure};

/// The open audit logs. Endpoints with the same target share a log. Clones share the logs.
#[derive(Clone, Default)]
pub(crate) struct AuditLogs(Arc<Mutex<OpenLogs>>);

#[derive(Default)]
struct OpenLogs {
    /// The open logs, each with its target.
    logs: Vec<(AccessLogTarget, AuditLog)>,
    /// Lines that closed logs have dropped.
    dropped_before: DroppedLines,
}

impl AuditLogs {
    /// Opens the audit logs of `config` that are not open yet.
    ///
    /// # Errors
    /// A log file cannot be opened, or the operating system refuses to create a thread.
    pub(crate) fn open(&self, config: &Config) -> Result<(), Failure> {
        for (endpoint, target) in targets(config) {
            if self.log(target).is_some() {
                continue;
            }
            let log = target.open().and_then(|target| AuditLog::start(target.named("audit log")));
            let log = log.map_err(|error| failure(config, endpoint, &error))?;
            self.lock().logs.push((target.clone(), log));
        }
        Ok(())
    }

    /// Returns the open log with this target.
    pub(super) fn log(&self, target: &AccessLogTarget) -> Option<AuditLog> {
        self.lock().logs.iter().find(|(other, _)| other == target).map(|(_, log)| log.clone())
    }

    /// Closes the logs that no endpoint of `config` uses. A log stays open until the last call of its previous
    /// endpoint has ended.
    pub(crate) fn close_unused(&self, config: &Config) {
        let OpenLogs { logs, dropped_before } = &mut *self.lock();
        for (_, log) in logs.extract_if(.., |(open, _)| !targets(config).any(|(_, target)| target == open)) {
            *dropped_before = sum(*dropped_before, log.dropped());
        }
    }

    /// Returns the numbers of lines that the logs have not written since the start. Lines that a log drops after
    /// its endpoint has ended do not count.
    pub(crate) fn dropped(&self) -> DroppedLines {
        let open = self.lock();
        open.logs.iter().fold(open.dropped_before, |lines, (_, log)| sum(lines, log.dropped()))
    }

    /// Opens the log files again, after log rotation has moved them away.
    pub(crate) fn reopen(&self) {
        self.lock().logs.iter().for_each(|(_, log)| log.reopen());
    }

    /// Writes the remaining lines of all logs.
    pub(super) fn finish(&self) {
        self.lock().logs.iter().for_each(|(_, log)| {
            log.finish();
        });
    }

    fn lock(&self) -> MutexGuard<'_, OpenLogs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn sum(one: DroppedLines, other: DroppedLines) -> DroppedLines {
    DroppedLines {
        buffer_full: one.buffer_full + other.buffer_full,
        target_failed: one.target_failed + other.target_failed,
    }
}

/// Checks that the directories of the audit logs are readable. Does not create the log files.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    for (endpoint, target) in targets(config) {
        let AccessLogTarget::File(path) = target else { continue };
        let directory = path.parent().filter(|directory| *directory != Path::new(""));
        std::fs::read_dir(directory.unwrap_or(Path::new(".")))
            .map_err(|error| failure(config, endpoint, &error))?;
    }
    Ok(())
}

/// Returns each endpoint with an audit log, and the target of the log.
fn targets(config: &Config) -> impl Iterator<Item = (&str, &AccessLogTarget)> {
    let endpoints = config.mcp.endpoints.iter();
    endpoints.filter_map(|(name, endpoint)| Some((name.as_str(), endpoint.audit.as_ref()?)))
}

fn failure(config: &Config, endpoint: &str, error: &io::Error) -> Failure {
    let failure = config.failure_at_mcp_endpoint(endpoint, format!("cannot open the audit log: {error}"));
    // Other errors contain the next step.
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => failure.with_hint(FILE_HINT),
        _ => failure,
    }
}

const FILE_HINT: &str =
    "the directory must exist, and the user of this process needs permission to write the file";
