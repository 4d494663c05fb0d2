//! One server of an upstream: its config, load and state.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use thruway_client::UpstreamAddr;
use thruway_telemetry::AttemptTarget;

use super::config::{ServerConfig, UpstreamConfig};
use super::health::admin_state::AdminState;
use super::health::ejection::{Admission, EjectionConfig, milliseconds};
use super::health::server_health::ServerHealth;
use super::selection::balance_config::hash;
use super::selection::sticky::SetCookie;
use super::statistics::ServerStatistics;

/// A server of an upstream.
#[derive(Debug)]
pub(crate) struct Server {
    /// Id of the server. The id is unique in this process. It is not reused after the server is removed.
    pub(crate) number: usize,
    pub(crate) address: UpstreamAddr,
    /// The address of the server, for access logs.
    pub(crate) label: Arc<str>,
    /// The server as a part of traces.
    pub(crate) target: Arc<AttemptTarget>,
    /// Index of the server in the config.
    pub(crate) origin: usize,
    pub(crate) weight: u32,
    pub(crate) is_backup: bool,
    /// Seed for the hash scores of the server. The seed is the same in every process.
    pub(crate) seed: u64,
    /// Token of the server in sticky cookies.
    pub(crate) token: u64,
    pub(crate) set_cookie: Option<SetCookie>,
    /// Maximum number of requests in flight. `usize::MAX` means no limit.
    requests_max: usize,
    ejection_config: EjectionConfig,
    /// Duration of a slow start in milliseconds. `None` if recovered servers get all their traffic at once.
    slow_start: Option<NonZeroU64>,
    /// State that survives a reload of the config.
    pub(crate) state: Arc<RetainedState>,
    /// `true` if the newest connection to the server has reached a listener of this process, so that requests
    /// could loop.
    is_own_listener: AtomicBool,
    /// `true` after a loop through this server was logged.
    has_logged_loop: AtomicBool,
}

/// State of a server that survives a reload of the config. For example, a request that began before the
/// reload stays counted until it ends.
#[derive(Debug, Default)]
pub(crate) struct RetainedState {
    pub(crate) health: ServerHealth,
    pub(crate) statistics: ServerStatistics,
    in_flight: AtomicUsize,
    chosen: AtomicU8,
}

/// HTTP version that the server has chosen with ALPN on its newest connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub(crate) enum ChosenVersion {
    /// The server has not chosen a version yet.
    #[default]
    NotYet,
    Http1,
    Http2,
}

impl Server {
    /// Returns a server at `address` with new state. `origin` is the index of the server in the config.
    pub(crate) fn new(upstream: &UpstreamConfig, origin: usize, address: UpstreamAddr) -> Self {
        Self::known(upstream, origin, address, Arc::default())
    }

    /// Returns a server at `address` that continues with the existing `state`.
    pub(crate) fn known(
        upstream: &UpstreamConfig,
        origin: usize,
        address: UpstreamAddr,
        state: Arc<RetainedState>,
    ) -> Self {
        static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
        let config = &upstream.servers[origin];
        let sticky = upstream.sticky.as_ref();
        let token = sticky.map_or(0, |sticky| sticky.token_of(&upstream.name, &address));
        Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            origin,
            weight: config.weight.min(ServerConfig::WEIGHT_MAX),
            is_backup: config.is_backup,
            label: address.to_string().into(),
            target: AttemptTarget::new(
                &upstream.name,
                &address.to_string(),
                if upstream.tls.is_some() { "https" } else { "http" },
            )
            .into(),
            seed: hash(address.to_string().as_bytes()),
            token,
            set_cookie: sticky.map(|sticky| sticky.set_cookie(token)),
            requests_max: if config.requests_max == 0 { usize::MAX } else { config.requests_max },
            ejection_config: upstream.ejection.clone(),
            slow_start: NonZeroU64::new(milliseconds(upstream.slow_start)),
            state,
            address,
            is_own_listener: AtomicBool::new(false),
            has_logged_loop: AtomicBool::new(false),
        }
    }

    /// Records whether a new connection to the server has reached a listener of this process.
    pub(crate) fn set_own_listener(&self, is_own_listener: bool) {
        if self.is_own_listener() != is_own_listener {
            self.is_own_listener.store(is_own_listener, Ordering::SeqCst);
        }
    }

    /// Returns `true` if the server is a listener of this process. Before the first connection to the server,
    /// the result is always `false`.
    #[inline]
    pub(crate) fn is_own_listener(&self) -> bool {
        self.is_own_listener.load(Ordering::SeqCst)
    }

    /// Logs the first request loop through this server. Does not log further loops, because clients can cause
    /// any number of them.
    #[cold]
    pub(crate) fn log_loop(&self, upstream: &str) {
        if !self.has_logged_loop.swap(true, Ordering::Relaxed) {
            tracing::error!(
                upstream,
                server = %self.address,
                "rejecting a request to prevent a loop: the server is a listener of this gateway, and the request came from this gateway"
            );
        }
    }

    /// Returns the number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.state.in_flight.load(Ordering::Relaxed)
    }

    /// Returns `true` if the server has capacity for one more request.
    #[inline]
    pub(crate) fn has_capacity(&self) -> bool {
        self.state.in_flight.load(Ordering::SeqCst) < self.requests_max
    }

    /// Counts a request as in flight until [`end`](Self::end) is called. Does not count a refused request.
    pub(crate) fn begin(&self, now: u64) -> Admission {
        // The counter has the ordering `SeqCst`, like the counters of the queue, so that a waiting request
        // cannot miss free capacity.
        let before = self.state.in_flight.fetch_add(1, Ordering::SeqCst);
        let admission = if before < self.requests_max {
            self.state.health.ejection.admit(&self.ejection_config, now)
        } else {
            Admission::Refused
        };
        if admission == Admission::Refused {
            self.end();
        }
        admission
    }

    /// Ends a request in flight.
    pub(crate) fn end(&self) {
        self.state.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns `true` if the health of the server allows requests.
    #[inline]
    pub(crate) fn is_available(&self, now: u64) -> bool {
        self.state.health.is_available(now)
    }

    /// Returns `true` if the server gets requests from new clients when it is healthy. New clients have no
    /// sticky cookie.
    #[inline]
    pub(crate) fn takes_new_clients(&self) -> bool {
        self.weight > 0 && self.state.health.admin_state() == AdminState::Enabled
    }

    /// Returns the share of its normal traffic that the server gets during its slow start, in percent.
    #[inline]
    pub(crate) fn percent_wanted(&self, now: u64) -> u64 {
        self.slow_start.map_or(100, |slow_start| self.state.health.percent_wanted(slow_start, now))
    }

    #[inline]
    pub(crate) fn health(&self) -> &ServerHealth {
        &self.state.health
    }

    #[inline]
    pub(crate) fn statistics(&self) -> &ServerStatistics {
        &self.state.statistics
    }

    /// Returns the HTTP version that the server has chosen on its newest connection.
    pub(crate) fn chosen_version(&self) -> ChosenVersion {
        match self.state.chosen.load(Ordering::Relaxed) {
            HTTP1 => ChosenVersion::Http1,
            HTTP2 => ChosenVersion::Http2,
            _ => ChosenVersion::NotYet,
        }
    }

    pub(crate) fn set_chosen_version(&self, version: ChosenVersion) {
        self.state.chosen.store(version as u8, Ordering::Relaxed);
    }
}

const HTTP1: u8 = ChosenVersion::Http1 as u8;
const HTTP2: u8 = ChosenVersion::Http2 as u8;

#[cfg(test)]
impl Server {
    pub(crate) fn begin_for_test(&self) {
        self.state.in_flight.fetch_add(1, Ordering::Relaxed);
    }
}
