//! The state that the admin listener reports and changes.

use std::time::{Duration, SystemTime};

use thruway_net::Clock;
use thruway_server::{DrainHandle, ListenAddr, LiveServer, RunningServer};

use crate::access_log::LiveLog;
use crate::changes::Changes;
use crate::fleet::FleetMembership;
use crate::mcp::audit_logs::AuditLogs;
use crate::reload::SharedReloader;
use crate::running_state::{RunningConfig, RunningState};
use crate::streams::Listening;
use crate::tls::TlsManager;

/// State of the running service, for the admin listener and for [`DaemonHandle`](crate::DaemonHandle).
pub(crate) struct ServiceState {
    /// Time at which the service started, on the system clock.
    pub(super) started: Duration,
    /// Date and time at which the service started.
    pub(super) started_at: SystemTime,
    pub(super) live: LiveServer,
    pub(super) server: DrainHandle,
    pub(super) running_state: RunningState,
    pub(super) reloader: SharedReloader,
    pub(super) tls_manager: TlsManager,
    pub(super) changes: Changes,
    pub(super) log: LiveLog,
    pub(super) audit_logs: AuditLogs,
    fleet: FleetMembership,
}

impl ServiceState {
    pub(crate) fn new(
        server: &RunningServer,
        running_state: RunningState,
        reloader: SharedReloader,
        tls_manager: TlsManager,
        changes: Changes,
        log: LiveLog,
        audit_logs: AuditLogs,
    ) -> Self {
        Self {
            started: Clock::system().now_exact(),
            started_at: Clock::system().time_of_day_exact(),
            live: server.live(),
            server: server.drain_handle(),
            running_state,
            reloader,
            tls_manager,
            changes,
            log,
            audit_logs,
            fleet: FleetMembership::default(),
        }
    }

    /// Adds the membership of this process in a fleet.
    pub(crate) fn in_fleet(self, fleet: FleetMembership) -> Self {
        Self { fleet, ..self }
    }

    /// Returns the membership of this process in a fleet.
    pub(crate) const fn fleet(&self) -> &FleetMembership {
        &self.fleet
    }

    /// Returns the reloader, which other threads use to reload the config.
    pub(crate) const fn reloader(&self) -> &SharedReloader {
        &self.reloader
    }

    /// Returns the address and the protocol of each listener, in the order of the config.
    pub(crate) fn listeners(&self) -> Vec<(ListenAddr, &'static str)> {
        let protocols = self.running_state.load().protocols.clone();
        self.live.addresses().into_iter().zip(protocols).collect()
    }

    /// Begins the graceful shutdown of the server and of the MCP endpoints.
    pub(crate) fn drain(&self) {
        let within = self.live.config().timeouts.drain;
        self.fleet.drain();
        let hold = self.server.drain_and_hold(within);
        self.reloader.drain_mcp_endpoints(within, self.server.clone(), hold);
    }

    /// Returns the address and the forwarder of each listener that forwards TCP connections.
    pub(super) fn tcp_listeners<'r>(
        &self,
        running: &'r RunningConfig,
    ) -> impl Iterator<Item = (String, &'r Listening)> {
        let addresses = self.live.addresses();
        let address = move |place: usize| addresses.get(place).map(ToString::to_string);
        running.streams.iter().filter_map(move |listening| Some((address(listening.listener)?, listening)))
    }
}
