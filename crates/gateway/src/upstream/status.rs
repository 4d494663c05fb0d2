//! How the servers of an upstream are, for those who operate the gateway.

use std::sync::Arc;

use thruway_client::UpstreamAddr;
use thruway_net::Clock;

use crate::upstream::health::ejection::milliseconds;
use crate::upstream::server::Server;
use crate::upstream::{ResponseCounts, Standing, Upstream};

/// How a server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerStatus {
    /// Where it is.
    pub address: UpstreamAddr,
    /// How many requests it gets, in relation to the others.
    pub weight: u32,
    /// Whether it gets requests only if no other may.
    pub is_backup: bool,
    /// Whether it gets requests.
    pub state: ServerState,
    /// How many requests it is answering.
    pub in_flight: usize,
    /// Requests that were sent on connections opened for them, so far.
    pub connections_opened: u64,
    /// Requests that were sent on connections that others had used before, so far.
    pub connections_reused: u64,
    /// Requests that have failed there so far, by their reasons' names in `Proxy-Status`; those that have occurred.
    pub failures: Vec<(&'static str, u64)>,
    /// How long it has taken to answer, from when it got the last of a request, if that was [timed](crate::Forward::timed).
    pub responses: ResponseCounts,
}

/// Whether a server gets requests, or else why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerState {
    /// It has asked to be left alone for a while, with `Retry-After`.
    AsksToWait,
    /// Checks have found it down.
    CheckFailing,
    /// It was [disabled](Standing::Disabled).
    Disabled,
    /// It is being [drained](Standing::Draining).
    Draining,
    /// Too many requests have failed there, and its time is not over.
    Ejected,
    /// It gets requests.
    Up,
}

impl ServerState {
    /// Each of them.
    pub const ALL: [Self; 6] =
        [Self::AsksToWait, Self::CheckFailing, Self::Disabled, Self::Draining, Self::Ejected, Self::Up];

    /// What it is called.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AsksToWait => "asks_to_wait",
            Self::CheckFailing => "check_failing",
            Self::Disabled => "disabled",
            Self::Draining => "draining",
            Self::Ejected => "ejected",
            Self::Up => "up",
        }
    }
}

impl Upstream {
    /// How its servers are, in the order of the config.
    pub fn server_statuses(&self) -> Vec<ServerStatus> {
        let now = milliseconds(Clock::system().now());
        self.servers.load().list.iter().map(|server| server.status(now)).collect()
    }

    /// Whether there is a server at all that requests may be sent to, however it is: names have been resolved, and not
    /// everything is [disabled](Standing::Disabled).
    pub fn has_server(&self) -> bool {
        self.servers.load().list.iter().any(|server| server.takes_new_clients())
    }

    /// Returns `true` if a server gets requests from new clients and is healthy: its checks do not fail, and
    /// it is neither ejected nor [disabled](Standing::Disabled) nor [draining](Standing::Draining). Before
    /// the first check has ended, a server is healthy.
    pub fn has_healthy_server(&self) -> bool {
        let now = milliseconds(Clock::system().now());
        let is_healthy = |server: &Arc<Server>| {
            server.takes_new_clients() && !server.is_down() && server.condition.ejection.is_over(now)
        };
        self.servers.load().list.iter().any(is_healthy)
    }

    /// Says whether the server at `address` may get requests, until it is said otherwise or its address is gone, for ten minutes if a name has it no longer. Whether there is
    /// such a server.
    pub fn set_standing(&self, address: &UpstreamAddr, standing: Standing) -> bool {
        let servers = self.servers.load();
        let mut is_there = false;
        for server in servers.list.iter().filter(|server| server.address == *address) {
            server.condition.standing.set(standing);
            is_there = true;
        }
        is_there
    }

    /// Has servers stand as those of the same address in `other` do.
    pub fn keep_standings_of(&self, other: &Self) {
        let standing = |server: &&Arc<Server>| server.condition.standing.get() != Standing::Enabled;
        for server in other.servers.load().list.iter().filter(standing) {
            self.set_standing(&server.address, server.condition.standing.get());
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
            in_flight: self.in_flight(),
            connections_opened: self.condition.counts.opened(),
            connections_reused: self.condition.counts.reused(),
            failures: self.condition.counts.failures(),
            responses: self.response_counts(),
        }
    }

    fn state(&self, now: u64) -> ServerState {
        match self.condition.standing.get() {
            Standing::Disabled => ServerState::Disabled,
            Standing::Draining => ServerState::Draining,
            Standing::Enabled if self.is_down() => ServerState::CheckFailing,
            Standing::Enabled if !self.condition.ejection.is_over(now) => ServerState::Ejected,
            Standing::Enabled if self.is_available(now) => ServerState::Up,
            Standing::Enabled => ServerState::AsksToWait,
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
    fn what_operators_say_is_shown_before_what_checks_find() {
        let upstream = upstream(3);
        upstream.servers.load().list.iter().take(2).for_each(|server| server.set_down(true));
        assert!(upstream.set_standing(&address(1), Standing::Draining));
        assert!(!upstream.set_standing(&address(4), Standing::Draining));
        assert_eq!(states(&upstream), [ServerState::Draining, ServerState::CheckFailing, ServerState::Up]);
    }

    #[test]
    fn an_upstream_whose_servers_fail_or_are_disabled_has_no_healthy_one() {
        let upstream = upstream(2);
        assert!(upstream.has_healthy_server(), "nothing is known yet");
        upstream.servers.load().list[0].set_down(true);
        assert!(upstream.has_healthy_server());
        assert!(upstream.set_standing(&address(2), Standing::Disabled));
        assert!(!upstream.has_healthy_server() && upstream.has_server());
        upstream.servers.load().list[0].set_down(false);
        assert!(upstream.has_healthy_server());
    }

    #[test]
    fn what_operators_say_outlives_a_change_of_the_config() {
        let (before, after) = (upstream(2), upstream(3));
        before.set_standing(&address(2), Standing::Disabled);
        after.keep_standings_of(&before);
        assert_eq!(states(&after), [ServerState::Up, ServerState::Disabled, ServerState::Up]);
    }
}
