//! The running service: listeners, routes, upstreams, access log and admin listener.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thruway_gateway::ListenerRoutes;
use thruway_server::{
    AccessLog, ListenAddr, ReloadSignal, ReopenSignal, RunningServer, Server, ServerError,
    TerminationSignals, raise_descriptor_limit,
};
use thruway_store::Store;
use thruway_telemetry::Tracer;

use crate::access_log::LiveLog;
use crate::admin::{self, ServiceState};
use crate::changes::Changes;
use crate::config::references::check_references;
use crate::config::{Config, ConfigSource, Failure};
use crate::fleet::FleetMembership;
use crate::live_store::LiveStore;
use crate::mcp::audit_logs::AuditLogs;
use crate::program_log;
use crate::reload::{Reloader, SharedReloader};
use crate::routes::{self, Parts};
use crate::running_state::RunningState;
use crate::streams::Streams;
use crate::telemetry::LiveTelemetry;
use crate::tls::{TlsManager, issue_internal};

/// A running service, which already accepts connections. Dropping the `Daemon` does not stop the service.
/// To stop the service, call [`drain`](Self::drain) and [`join`](Self::join), or call [`run`](Self::run).
pub struct Daemon {
    server: RunningServer,
    admin_server: Option<RunningServer>,
    handle: DaemonHandle,
    log: LiveLog,
    telemetry: LiveTelemetry,
    audit_logs: AuditLogs,
    has_file: bool,
    /// `true` if the admin listener has TLS.
    is_admin_tls: bool,
}

/// Handle with which any thread can reload, shut down (drain) and inspect a [`Daemon`]. Clones control the
/// same daemon.
#[derive(Clone)]
pub struct DaemonHandle(Arc<ServiceState>);

/// A listener that accepts connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningListener {
    /// Address of the listener. If the config has port 0, the address contains the port that the system
    /// chose.
    pub address: ListenAddr,
    /// Protocol of the listener: `http`, `https` or `tcp`.
    pub protocol: &'static str,
}

/// The outcome of the graceful shutdown (drain) of a [`Daemon`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All connections ended before the drain timeout.
    Clean,
    /// Some connections were still open at the drain timeout and were cut off.
    CutOff,
}

/// The signals that control a daemon: `SIGTERM` and `SIGINT` shut it down gracefully, `SIGHUP` reloads its
/// config file, and `SIGUSR1` reopens its access log and audit logs. Call [`take_over`](Self::take_over)
/// before the daemon starts. Until then, the signals have their default effect.
pub struct Signals {
    termination: TerminationSignals,
    reopen: ReopenSignal,
    reload: Option<ReloadSignal>,
}

impl Signals {
    /// Installs the signal handlers. If `reload` is `false`, `SIGHUP` keeps its default effect.
    ///
    /// # Errors
    /// Returns an error if the system refuses a signal handler.
    pub fn take_over(reload: bool) -> Result<Self, Failure> {
        let termination = TerminationSignals::take_over().map_err(ServerError::from)?;
        let reopen = ReopenSignal::take_over().map_err(ServerError::from)?;
        let reload = if reload { Some(ReloadSignal::take_over().map_err(ServerError::from)?) } else { None };
        Ok(Self { termination, reopen, reload })
    }
}

impl Daemon {
    /// Starts a service with the config file at `path`.
    ///
    /// # Errors
    /// Returns an error if the file is missing, unreadable or invalid, or if an address is in use. Each
    /// [finding](Failure::findings) contains the file, the line and a hint, if they are known.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Failure> {
        Self::from_source(ConfigSource::file(path))
    }

    /// Starts a service with a config that the program built. To replace the config later, use
    /// [`reload_with`](Self::reload_with). [`reload`](Self::reload) fails, because there is no config file.
    ///
    /// # Errors
    /// Returns an error if the config lacks a listener or a route, repeats an address, names an unknown
    /// upstream or policy, or has an upstream without servers. Also returns an error if an address is in
    /// use.
    pub fn from_config(config: Config) -> Result<Self, Failure> {
        check_references(&config)?;
        Self::start(config, None, None)
    }

    /// Starts a service with the config that `source` loads.
    ///
    /// # Errors
    /// Returns the same errors as [`from_file`](Self::from_file).
    pub fn from_source(source: ConfigSource) -> Result<Self, Failure> {
        Self::start(source.load()?, Some(source), None)
    }

    /// Starts a service as [`from_source`](Self::from_source) does. The service shares `store` with other services in
    /// this process. For tests of fleets.
    ///
    /// # Errors
    /// Returns the same errors as [`from_file`](Self::from_file).
    #[doc(hidden)]
    pub fn with_store(source: ConfigSource, store: Store) -> Result<Self, Failure> {
        Self::start(source.load()?, Some(source), Some(store))
    }

    fn start(config: Config, source: Option<ConfigSource>, store: Option<Store>) -> Result<Self, Failure> {
        program_log::set_json(config.logs_json);
        let store = LiveStore::start(&config, store)?;
        let tls_manager = TlsManager::new(store.secrets());
        raise_descriptor_limit();
        let (routes, mut parts) = routes::build(&config, &Parts::with_store(&config, store))?;
        let log = LiveLog::default();
        let access_log = log.replace(log.open(&config)?);
        let telemetry = LiveTelemetry::default();
        let tracer = telemetry.replace(&config)?;
        let audit_logs = parts.mcp().audit_logs().clone();
        audit_logs.open(&config)?;
        parts.start(&config);
        let membership = FleetMembership::join(parts.mcp().fleet(), &config, parts.store())?;
        let streams = Streams::new(&config, &parts, &Streams::default());
        let running_state = RunningState::new(&config, &parts, &streams, telemetry.clone());
        issue_internal(&config)?;
        let server = start_server(&config, routes, &streams, access_log.as_ref(), tracer.as_ref())?;
        tls_manager.follow(&config, &parts);
        tls_manager.watch();
        let (admin_config, changes) = (config.admin.clone(), Changes::default());
        let is_admin_tls = admin_config.as_ref().is_some_and(|admin| admin.tls.is_some());
        let has_file = source.as_ref().is_some_and(ConfigSource::has_file);
        let reloader = SharedReloader::new(Reloader {
            source,
            started: config,
            server: server.live(),
            log: log.clone(),
            is_logged: access_log.is_some(),
            telemetry: telemetry.clone(),
            is_traced: tracer.is_some(),
            parts,
            streams,
            running_state: running_state.clone(),
            tls_manager: tls_manager.clone(),
            changes: changes.clone(),
        });
        let (live_log, live_audit_logs) = (log.clone(), audit_logs.clone());
        let state = ServiceState::new(
            &server,
            running_state,
            reloader,
            tls_manager,
            changes,
            live_log,
            live_audit_logs,
        );
        let state = Arc::new(state.in_fleet(membership));
        let service = Arc::downgrade(&state);
        telemetry.set_metrics_source(Box::new(move || Some(admin::collected_metrics(&*service.upgrade()?))));
        let admin_server = match admin_config.map(|config| admin::start(&state, &config)).transpose() {
            Ok(admin_server) => admin_server,
            // The server already accepts connections. It must stop, because the caller gets an error
            // instead of a `Daemon`.
            Err(error) => {
                server.drain_handle().drain(Duration::ZERO);
                server.join();
                log.finish();
                telemetry.finish();
                return Err(error.into());
            }
        };
        let handle = DaemonHandle(state);
        Ok(Self { server, admin_server, handle, log, telemetry, audit_logs, has_file, is_admin_tls })
    }

    /// Returns the listeners, in the order of the config.
    pub fn listeners(&self) -> Vec<RunningListener> {
        self.handle.listeners()
    }

    /// Returns the addresses of the admin listener. The list is empty if the config has no admin listener.
    pub fn admin_addresses(&self) -> &[ListenAddr] {
        self.admin_server.as_ref().map_or(&[], RunningServer::addresses)
    }

    /// Returns the admin listener, with the protocol `http` or `https`. The list is empty if the config has
    /// no admin listener.
    pub fn admin_listeners(&self) -> Vec<RunningListener> {
        let protocol = if self.is_admin_tls { "https" } else { "http" };
        let addresses = self.admin_addresses().iter().cloned();
        addresses.map(|address| RunningListener { address, protocol }).collect()
    }

    /// Returns a handle that controls this daemon from other threads.
    pub fn handle(&self) -> DaemonHandle {
        self.handle.clone()
    }

    /// Reads the config file again and replaces the running config. See [`DaemonHandle::reload`].
    ///
    /// # Errors
    /// Returns the same errors as [`DaemonHandle::reload`].
    pub fn reload(&self) -> Result<(), Failure> {
        self.handle.reload()
    }

    /// Replaces the running config with `config`. See [`DaemonHandle::reload_with`].
    ///
    /// # Errors
    /// Returns the same errors as [`DaemonHandle::reload_with`].
    pub fn reload_with(&self, config: Config) -> Result<(), Failure> {
        self.handle.reload_with(config)
    }

    /// Begins the graceful shutdown. See [`DaemonHandle::drain`].
    pub fn drain(&self) {
        self.handle.drain();
    }

    /// Serves requests until a [signal](Signals) or a call of [`drain`](Self::drain) begins the graceful
    /// shutdown. Returns when the last connection has ended.
    ///
    /// # Errors
    /// Returns an error if the system refuses a signal handler.
    pub fn run(self) -> Result<Ended, Failure> {
        let signals = Signals::take_over(self.has_file)?;
        Ok(self.run_until(signals))
    }

    /// Serves requests until one of `signals` or a call of [`drain`](Self::drain) begins the graceful
    /// shutdown. Returns when the last connection has ended.
    pub fn run_until(self, signals: Signals) -> Ended {
        self.log.clone().reopen_at(signals.reopen, self.audit_logs.clone());
        if let Some(reload) = signals.reload {
            self.handle.0.reloader().reload_at(reload);
        }
        let state = Arc::downgrade(&self.handle.0);
        let drain = move || state.upgrade().into_iter().for_each(|state| state.drain());
        let loads = self.server.run_until_with(signals.termination, drain);
        end(&loads, self.admin_server, &self.handle, &self.log, &self.telemetry)
    }

    /// Waits until another thread has called [`DaemonHandle::drain`] and the last connection has ended.
    pub fn join(self) -> Ended {
        let loads = self.server.join();
        end(&loads, self.admin_server, &self.handle, &self.log, &self.telemetry)
    }
}

impl DaemonHandle {
    /// Reads the config file again and replaces the running config. If this fails, the running config is
    /// unchanged. Waits until the server names in new upstreams have been looked up.
    ///
    /// # Errors
    /// Returns an error if the file is missing, unreadable or invalid, if an address is in use, or if the
    /// daemon has no config file.
    pub fn reload(&self) -> Result<(), Failure> {
        self.0.reloader().reload()
    }

    /// Replaces the running config with `config`. If this fails, the running config is unchanged. If the
    /// daemon was started from a file, the next [`reload`](Self::reload) reads the file again and discards
    /// `config`.
    ///
    /// # Errors
    /// Returns the same errors as [`Daemon::from_config`].
    pub fn reload_with(&self, config: Config) -> Result<(), Failure> {
        self.0.reloader().reload_with(config)
    }

    /// Returns the listeners, in the order of the config.
    pub fn listeners(&self) -> Vec<RunningListener> {
        let listeners = self.0.listeners().into_iter();
        listeners.map(|(address, protocol)| RunningListener { address, protocol }).collect()
    }

    /// Begins the graceful shutdown: the daemon accepts no new connections, and completes the accepted
    /// requests.
    pub fn drain(&self) {
        self.0.drain();
    }

    /// Returns the JSON document of `GET /status`: listeners, routes, upstreams and certificates.
    pub fn status(&self) -> serde_json::Value {
        admin::status(&self.0)
    }

    /// Returns the metrics in the text format of Prometheus, as `GET /metrics` does.
    pub fn metrics(&self) -> String {
        admin::metrics(&self.0)
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("listeners", &self.listeners()).finish_non_exhaustive()
    }
}

fn start_server(
    config: &Config,
    routes: ListenerRoutes,
    streams: &Streams,
    log: Option<&AccessLog>,
    tracer: Option<&Arc<Tracer>>,
) -> Result<RunningServer, ServerError> {
    let mut server = Server::new(routes).config(config.server.clone()).batch_sends(config.batch_sends);
    for listener in streams.listeners(config) {
        server = server.listen_on(listener);
    }
    if let Some(workers) = config.workers {
        server = server.workers(workers);
    }
    if let Some(connections) = config.connections_max {
        server = server.connections_max(connections);
    }
    if let Some(log) = log {
        server = server.record(log.clone());
    }
    if let Some(tracer) = tracer {
        server = server.trace(tracer);
    }
    server.start()
}

/// Stops the MCP endpoints, the admin listener, the access log and the tracing after the server has ended.
fn end(
    loads: &[thruway_server::WorkerLoad],
    admin: Option<RunningServer>,
    handle: &DaemonHandle,
    log: &LiveLog,
    telemetry: &LiveTelemetry,
) -> Ended {
    handle.0.fleet().leave();
    handle.0.reloader().end_mcp_endpoints(MCP_CLOSE_TIME);
    handle.0.fleet().end();
    if let Some(admin) = admin {
        admin.drain();
        admin.join();
    }
    log.finish();
    telemetry.finish();
    let is_clean = loads.iter().all(|load| load.connections == 0);
    if is_clean { Ended::Clean } else { Ended::CutOff }
}

/// Time for MCP servers to end if the drain time was not enough.
const MCP_CLOSE_TIME: Duration = Duration::from_secs(2);

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let failure = Self::new(error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
