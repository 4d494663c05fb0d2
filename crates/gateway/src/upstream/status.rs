//! Status of an upstream and its servers, for operators.

use std::sync::Arc;

use thruway_client::UpstreamAddr;
use thruway_net::Clock;

use super::connections::queue::WaitingCounts;
use super::health::admin_state::AdminState;
use super::health::ejection::milliseconds;
use super::health::server_health::StateChange;
use super::server::Server;
use super::statistics::ResponseCounts;
use super::upstream::Upstream;
use crate::{ClientAttributes, RequestDurations};

/// Status of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerStatus {
    /// Address of the server.
    pub address: UpstreamAddr,
    /// Weight of the server, which is its relative share of requests.
    pub weight: u32,
    /// `true` for a backup server.
    pub is_backup: bool,
    /// State of the server.
    pub state: ServerState,
    /// Share of its normal traffic that the server gets during its slow start, in percent. `None` if no slow
    /// start is in progress.
    pub slow_start_percent: Option<u64>,
    /// Time and reason of the last change of the state. `None` if the state has never changed.
    pub changed: Option<StateChange>,
    /// Number of requests in flight.
    pub in_flight: usize,
    /// Number of requests that were sent on new connections.
    pub connections_opened: u64,
    /// Number of requests that were sent on reused connections.
    pub connections_reused: u64,
    /// Number of failed requests for each error name in `Proxy-Status`. Error names with no failures are left
    /// out.
    pub failures: Vec<(&'static str, u64)>,
    /// Times from the end of the request to the head of the response, grouped by method and status. The list
    /// is empty if response times are not [recorded](crate::Forward::timed).
    pub durations: Vec<RequestDurations<ClientAttributes>>,
}

/// State of a server. The state shows why the server gets requests, or why it gets no requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerState {
    /// The health checks of the server fail.
    CheckFailing,
    /// The operator has [disabled](AdminState::Disabled) the server.
    Disabled,
    /// The server is [draining](AdminState::Draining).
    Draining,
    /// The server is ejected after failures.
    Ejected,
    /// The server has requested a pause with `Retry-After`.
    RetryAfter,
    /// The server gets requests.
    Up,
}

impl ServerState {
    /// All states of servers.
    pub const ALL: [Self; 6] =
        [Self::CheckFailing, Self::Disabled, Self::Draining, Self::Ejected, Self::RetryAfter, Self::Up];

    /// Returns the name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CheckFailing => "check_failing",
            Self::Disabled => "disabled",
            Self::Draining => "draining",
            Self::Ejected => "ejected",
            Self::RetryAfter => "retry_after",
            Self::Up => "up",
        }
    }
}

impl Upstream {
    /// Returns the number of requests that wait for a server or a connection.
    pub fn waiting(&self) -> usize {
        self.connections.waiting()
    }

    /// Returns the maximum number of requests in the queue.
    pub fn waiting_max(&self) -> usize {
        self.config.queue.length_max
    }

    /// Returns the number of requests that have waited, and their waiting times.
    pub fn waiting_counts(&self) -> WaitingCounts {
        self.connections.waiting_counts()
    }

    /// Returns the number of idle connections. Shared HTTP/2 connections do not count.
    pub fn idle_connections(&self) -> usize {
        self.connections.idle.sum()
    }

    /// Returns the number of open connections, without the connections of health checks.
    pub fn open_connections(&self) -> usize {
        self.connections.open()
    }

    /// Returns the number of retries. A retry uses another server or another connection.
    pub fn retries(&self) -> u64 {
        self.statistics.retries()
    }

    /// Returns the number of requests that got no server, for each error name in `Proxy-Status`. Error names
    /// with no failures are left out.
    pub fn failures(&self) -> Vec<(&'static str, u64)> {
        self.statistics.failures()
    }

    /// Returns the response times of the upstream. All counts are 0 if response times are not
    /// [recorded](crate::Forward::timed).
    pub fn response_counts(&self) -> ResponseCounts {
        self.statistics.responses.counts()
    }

    /// Returns the status of each server of the upstream, in the order of the config.
    pub fn server_statuses(&self) -> Vec<ServerStatus> {
        let now = milliseconds(Clock::system().now());
        self.members.load().list.iter().map(|server| server.status(now)).collect()
    }

    /// Returns address, state and last change of each server. This method is cheaper than
    /// [`server_statuses`](Self::server_statuses).
    pub fn server_states(&self) -> Vec<(UpstreamAddr, ServerState, Option<StateChange>)> {
        let now = milliseconds(Clock::system().now());
        let state =
            |server: &Arc<Server>| (server.address.clone(), server.state(now), server.health().last_change());
        self.members.load().list.iter().map(state).collect()
    }

    /// Returns `true` if at least one server may get requests from new clients when it is healthy. Such a
    /// server has a weight above 0 and is [enabled](AdminState::Enabled). A host name without addresses has
    /// no servers.
    pub fn has_server(&self) -> bool {
        self.members.load().list.iter().any(|server| server.takes_new_clients())
    }

    /// Returns `true` if at least one server gets requests from new clients and is healthy. A healthy
    /// server passes its health checks, and is neither ejected nor [disabled](AdminState::Disabled) nor
    /// [draining](AdminState::Draining). Before its first health check has ended, a server counts as
    /// healthy.
    pub fn has_healthy_server(&self) -> bool {
        let now = milliseconds(Clock::system().now());
        let is_healthy = |server: &Arc<Server>| {
            server.takes_new_clients() && !server.health().is_down() && server.health().ejection.is_over(now)
        };
        self.members.load().list.iter().any(is_healthy)
    }

    /// Sets the admin state of the server at `address`. Returns `false` if no server has this address. The
    /// state lasts until the next change. If a reload removes the address from the config, the state is lost
    /// at once. If DNS no longer returns the address, the state is lost after ten minutes.
    pub fn set_admin_state(&self, address: &UpstreamAddr, state: AdminState) -> bool {
        let servers = self.members.load();
        let now = milliseconds(Clock::system().now());
        let mut is_there = false;
        for server in servers.list.iter().filter(|server| server.address == *address) {
            if server.health().admin_state() != state {
                server.health().note_admin_change(now, "changed by the operator".to_owned());
            }
            server.health().set_admin_state(state);
            is_there = true;
        }
        is_there
    }

    /// Copies admin states from `other`. A server of this upstream gets the admin state of the server in
    /// `other` with the same address.
    pub fn keep_admin_states_of(&self, other: &Self) {
        let is_set = |server: &&Arc<Server>| server.health().admin_state() != AdminState::Enabled;
        for server in other.members.load().list.iter().filter(is_set) {
            self.set_admin_state(&server.address, server.health().admin_state());
            let servers = self.members.load();
            for own in servers.list.iter().filter(|own| own.address == server.address) {
                own.health().keep_admin_change_of(server.health());
            }
        }
    }
}

impl Server {
    fn status(&self, now: u64) -> ServerStatus {
        ServerStatus {
            address: self.address.clone(),
            weight: self.weight,
            is_backup: self.is_backup,
            state: self.state(now),
            slow_start_percent: Some(self.percent_wanted(now)).filter(|percent| *percent < 100),
            changed: self.health().last_change(),
            in_flight: self.in_flight(),
            connections_opened: self.statistics().opened(),
            connections_reused: self.statistics().reused(),
            failures: self.statistics().failures(),
            durations: self.statistics().durations(),
        }
    }

    fn state(&self, now: u64) -> ServerState {
        match self.health().admin_state() {
            AdminState::Disabled => ServerState::Disabled,
            AdminState::Draining => ServerState::Draining,
            AdminState::Enabled if self.health().is_down() => ServerState::CheckFailing,
            AdminState::Enabled if !self.health().ejection.is_over(now) => ServerState::Ejected,
            AdminState::Enabled if self.is_available(now) => ServerState::Up,
            AdminState::Enabled => ServerState::RetryAfter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamConfig;
    use crate::upstream::scene::address;

    fn upstream(servers: usize) -> Upstream {
        Upstream::new(UpstreamConfig::new("a", (1..=servers).map(address)))
    }

    fn states(upstream: &Upstream) -> Vec<ServerState> {
        upstream.server_statuses().iter().map(|server| server.state).collect()
    }

    #[test]
    fn admin_state_is_shown_before_check_result() {
        let upstream = upstream(3);
        upstream.members.load().list.iter().take(2).for_each(|server| server.health().set_down(true));
        assert!(upstream.set_admin_state(&address(1), AdminState::Draining));
        assert!(!upstream.set_admin_state(&address(4), AdminState::Draining));
        assert_eq!(states(&upstream), [ServerState::Draining, ServerState::CheckFailing, ServerState::Up]);
    }

    #[test]
    fn upstream_with_only_failing_or_disabled_servers_is_unhealthy() {
        let upstream = upstream(2);
        assert!(upstream.has_healthy_server(), "nothing is known yet");
        upstream.members.load().list[0].health().set_down(true);
        assert!(upstream.has_healthy_server());
        assert!(upstream.set_admin_state(&address(2), AdminState::Disabled));
        assert!(!upstream.has_healthy_server() && upstream.has_server());
        upstream.members.load().list[0].health().set_down(false);
        assert!(upstream.has_healthy_server());
    }

    #[test]
    fn admin_state_survives_a_reload() {
        let (before, after) = (upstream(2), upstream(3));
        before.set_admin_state(&address(2), AdminState::Disabled);
        after.keep_admin_states_of(&before);
        assert_eq!(states(&after), [ServerState::Up, ServerState::Disabled, ServerState::Up]);
    }
}
