//! Replaces the config of a running server. If a reload fails, the server keeps the whole previous config.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use thruway_net::Clock;
use thruway_server::{DrainHandle, LiveServer, Recorder, ReloadSignal, ServerError, WorkersHold};
use thruway_telemetry::Tracer;

use crate::access_log::{LiveLog, LogChange};
use crate::changes::{ChangeKind, Changes};
use crate::config::references::check_references;
use crate::config::{Config, ConfigSource, Failure};
use crate::program_log;
use crate::routes::{self, Parts};
use crate::running_state::RunningState;
use crate::streams::Streams;
use crate::telemetry::LiveTelemetry;
use crate::tls::{TlsManager, issue_internal};

/// The running config, and the components that a reload changes.
pub(crate) struct Reloader {
    /// Source of the config at a reload. `None` if the embedding program built the config.
    pub(crate) source: Option<ConfigSource>,
    /// The config with which the server started. For some keys, such as `workers`, the values in this config
    /// stay in effect after a reload.
    pub(crate) started: Config,
    pub(crate) server: LiveServer,
    pub(crate) log: LiveLog,
    /// `true` if the access log is enabled.
    pub(crate) is_logged: bool,
    pub(crate) telemetry: LiveTelemetry,
    /// `true` if tracing is enabled.
    pub(crate) is_traced: bool,
    pub(crate) parts: Parts,
    pub(crate) streams: Streams,
    /// State that the admin listener reads.
    pub(crate) running_state: RunningState,
    /// TLS acceptors and connectors.
    pub(crate) tls_manager: TlsManager,
    /// The list of recent changes, for `/status`.
    pub(crate) changes: Changes,
}

/// A [`Reloader`] that several threads share. Only one reload runs at a time.
#[derive(Clone)]
pub(crate) struct SharedReloader(Arc<Mutex<Reloader>>);

impl SharedReloader {
    pub(crate) fn new(reloader: Reloader) -> Self {
        Self(Arc::new(Mutex::new(reloader)))
    }

    /// Reloads the config at each `signal`, until the daemon has ended. If several signals arrive during a
    /// reload, they cause only one more reload.
    pub(crate) fn reload_at(&self, mut signal: ReloadSignal) {
        let reloader = Arc::downgrade(&self.0);
        thread::spawn(move || {
            loop {
                signal.wait();
                let Some(reloader) = reloader.upgrade() else { return };
                // `reload` has logged the outcome.
                let _ = Self(reloader).reload();
            }
        });
    }

    /// Reads the config again, replaces the running config, and logs the outcome. Waits until the server
    /// names in new upstreams have been looked up.
    pub(crate) fn reload(&self) -> Result<(), Failure> {
        self.log_outcome(|reloader| {
            let config = reloader.source()?.load()?;
            reloader.replace(config)
        })
    }

    /// Replaces the running config with `config`, and logs the outcome. Waits as [`reload`](Self::reload)
    /// does.
    pub(crate) fn reload_with(&self, config: Config) -> Result<(), Failure> {
        self.log_outcome(|reloader| {
            check_references(&config)?;
            reloader.replace(config)
        })
    }

    /// Begins to end the MCP endpoints and their child processes. The workers run until the endpoints have
    /// ended, because the workers close their connections to MCP servers. The calls of the endpoints have the
    /// drain time `within` to end, without the time that the child processes need.
    pub(crate) fn drain_mcp_endpoints(&self, within: Duration, clients: DrainHandle, hold: WorkersHold) {
        let within_of_calls = within.saturating_sub(MCP_CLOSE_TIME).max(within / 2);
        let reloader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reloader.parts.mcp().begin_drain(within_of_calls, clients, hold);
    }

    /// Ends the MCP endpoints and their child processes. Their calls have the time `within` to end.
    pub(crate) fn end_mcp_endpoints(&self, within: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).parts.mcp().end(within);
    }

    fn log_outcome(&self, reload: impl FnOnce(&mut Reloader) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut reloader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = reload(&mut reloader);
        let (changes, now) = (&reloader.changes, Clock::system().time_of_day());
        match &outcome {
            Ok(()) => {
                changes.add(now, ChangeKind::Reload, "config reloaded".to_owned());
                tracing::info!("config reloaded");
            }
            Err(failure) => {
                changes.add(now, ChangeKind::ReloadFailed, failure.to_string());
                tracing::error!("reload failed, keeping the previous config\n{failure}");
            }
        }
        outcome
    }
}

impl Reloader {
    fn source(&self) -> Result<&ConfigSource, Failure> {
        const MESSAGE: &str = "this service has no config file";
        match &self.source {
            None => Err(Failure::new(MESSAGE).with_hint("pass a config to `reload_with`")),
            Some(source) if source.has_file() => Ok(source),
            Some(_) => Err(Failure::new(MESSAGE)
                .with_hint("start the service with a config file, so that it can reload the file")),
        }
    }

    fn replace(&mut self, mut config: Config) -> Result<(), Failure> {
        let fixed: Vec<_> = self.started.fixed_changes(&config).collect();
        config.keep_admin_listener_of(&self.started);
        config.keep_shared_store_of(&self.started);
        self.tls_manager.reuse_acceptors(&mut config);
        let (routes, mut parts) = routes::build(&config, &self.parts)?;
        let streams = Streams::new(&config, &parts, &self.streams);
        let log = self.log.open(&config)?;
        parts.mcp().audit_logs().open(&config)?;
        let listeners = self.server.bind(streams.listeners(&config)).map_err(ServerError::from)?;
        issue_internal(&config)?;
        let tracer = self.telemetry.replace(&config)?;
        // The following steps cannot fail.
        program_log::set_json(config.logs_json);
        parts.start(&config);
        parts.keep_admin_states_of(&self.parts);
        streams.follow(&parts);
        self.write_to(log);
        self.trace_with(tracer.as_ref());
        // Replaces the listeners before the routes, because listeners enforce the rules for client
        // certificates: a listener responds 421 to a request for a host of another listener with different
        // rules. In the other order, a new route could respond to such a request.
        self.server.replace(config.server.clone(), listeners);
        self.server.replace_handler(routes);
        self.server.set_connections_max(config.connections_max);
        self.running_state.replace(&config, &parts, &streams);
        self.tls_manager.follow(&config, &parts);
        self.parts.mcp().drain_removed(parts.mcp(), config.server.timeouts.drain);
        parts.mcp().audit_logs().close_unused(&config);
        (self.parts, self.streams) = (parts, streams);
        for key in fixed {
            tracing::warn!("`{key}` has changed: restart the process to apply the change");
        }
        Ok(())
    }
    /// Starts, replaces or stops the access log. The workers need a new recorder only if logging starts or
    /// stops.
    fn write_to(&mut self, log: LogChange) {
        let log = self.log.replace(log);
        if log.is_some() != self.is_logged {
            self.is_logged = log.is_some();
            let recorder = log.map(|log| Arc::new(log) as Arc<dyn Recorder>);
            self.server.record(recorder.as_ref());
        }
    }

    /// Starts or stops tracing. The workers need a change only if tracing starts or stops, because all other
    /// settings are part of the tracer.
    fn trace_with(&mut self, tracer: Option<&Arc<Tracer>>) {
        if tracer.is_some() != self.is_traced {
            self.is_traced = tracer.is_some();
            self.server.trace(tracer);
        }
    }
}

/// Part of the drain time in which MCP endpoints close the connections to their servers. A child process gets
/// SIGTERM after two seconds, and SIGKILL after two more seconds.
const MCP_CLOSE_TIME: Duration = Duration::from_secs(5);
