//! An upstream and its four parts: membership, health, selection and connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use thruway_net::{Clock, Worker};
use thruway_server::StatusCode;

use super::config::UpstreamConfig;
use super::connections::limits::{Connections, Permit};
use super::health::ejection::milliseconds;
use super::health::monitor::HealthMonitor;
use super::health::sharing::{HealthEvent, HealthSharing, foreign};
use super::membership::members::Membership;
use super::retry_budget::BudgetBalance;
use super::selection::balance_config::Balance;
use super::selection::select::Selection;
use super::server::Server;
use super::statistics::UpstreamStatistics;

/// Servers that handle the same requests. All workers share the upstream.
#[derive(Debug)]
pub struct Upstream {
    /// Id of this upstream in the connection pools of the workers. A reload creates a new upstream with
    /// another id.
    pub(crate) id: u64,
    pub(crate) config: UpstreamConfig,
    /// Name of the upstream, for access logs.
    pub(crate) label: Arc<str>,
    pub(crate) members: Membership,
    pub(crate) health: HealthMonitor,
    pub(crate) selection: Selection,
    // The following fields survive a reload of the config.
    pub(crate) connections: Arc<Connections>,
    pub(crate) retries: Arc<BudgetBalance>,
    pub(crate) statistics: Arc<UpstreamStatistics>,
    /// The newest upstream that has replaced this upstream. Empty before the first reload.
    pub(crate) successor: Arc<Mutex<Weak<Upstream>>>,
    /// `true` after a reload has replaced this upstream. The requests of a replaced upstream continue, but
    /// its background tasks end.
    pub(crate) is_replaced: AtomicBool,
}

impl Upstream {
    /// Returns an upstream with the settings in `config` and without connections.
    pub fn new(config: UpstreamConfig) -> Self {
        let members = Membership::new(&config);
        Self::with(config, members)
    }

    pub(crate) fn with(config: UpstreamConfig, members: Membership) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let label: Arc<str> = config.name.as_str().into();
        let measures_latency = matches!(config.balance, Balance::PeakEwma);
        Self {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            members,
            health: HealthMonitor::new(label.clone(), config.ejection.clone(), measures_latency),
            selection: Selection::default(),
            connections: Arc::default(),
            retries: Arc::default(),
            statistics: Arc::default(),
            successor: Arc::default(),
            is_replaced: AtomicBool::new(false),
            label,
            config,
        }
    }

    /// Returns this upstream with a connection to the other gateways of a fleet. Call this method before
    /// [`start`](Self::start).
    #[must_use]
    pub fn with_health_sharing(mut self, sharing: Arc<HealthSharing>) -> Self {
        self.health.set_sharing(sharing);
        self
    }

    /// Applies news from another gateway about the server with the address `server`. Ignores servers that this
    /// upstream does not have.
    pub fn apply_health_news(&self, server: &str, event: HealthEvent) {
        let members = self.members.load();
        let Some(server) = members.list.iter().find(|known| *known.label == *server) else { return };
        let now = milliseconds(Clock::system().now());
        match event {
            HealthEvent::Checked(outcome) => {
                server.health().receive_check(outcome.map_err(|reason| foreign(&reason)));
            }
            HealthEvent::Ejected { cause } => self.health.expect_failure(server, &foreign(&cause)),
            HealthEvent::Returned => self.health.return_with_fleet(server, now),
        }
    }

    /// Returns the name of the upstream.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the config of the upstream.
    pub const fn config(&self) -> &UpstreamConfig {
        &self.config
    }

    /// Returns the host and port of `server`, as written in the config.
    pub(crate) fn host_of(&self, server: &Server) -> String {
        self.config.servers.get(server.origin).map(|config| config.address.host()).unwrap_or_default()
    }

    /// Counts a request for the retry budget.
    pub(crate) fn count_request(&self, now: Duration) {
        self.retries.deposit(self.config.retry_budget, milliseconds(now));
    }

    /// Returns `true` if a request that has failed at `tried` servers may be sent to another server. If so,
    /// also counts the retry.
    pub(crate) fn allows_retry(&self, tried: usize, clock: &Clock) -> bool {
        tried < self.config.retries_max as usize
            && self.retries.withdraw(self.config.retry_budget, milliseconds(clock.now()))
    }

    /// Returns `true` if a response with `status` causes a retry.
    pub(crate) fn retries_status(&self, status: StatusCode) -> bool {
        self.config.retry_statuses.iter().any(|range| range.contains(status))
    }

    /// Returns `true` if connections are limited.
    #[inline]
    pub(crate) const fn limits_connections(&self) -> bool {
        self.config.connections_max > 0
    }

    /// Returns a permit to open a connection for `worker`. Returns `None` if the connection limit is reached.
    /// Call this method only if connections are limited.
    pub(crate) fn permit(&self, worker: &Worker) -> Option<Permit> {
        self.connections.permit(worker, self.config.connections_max)
    }

    /// Notifies waiting requests that a connection of `worker` is idle or has a free stream. If a reload has
    /// replaced this upstream, also notifies requests of the new upstream, because they may wait for the same
    /// connections.
    #[inline]
    pub(crate) fn notify_free_connection(&self, worker: &Worker) {
        if self.limits_connections() || self.is_replaced() {
            self.connections.notify_free(worker);
        }
    }

    /// Returns `true` if another upstream has replaced this upstream.
    #[inline]
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    /// Returns the current time. If response times are measured, the time is exact. Otherwise, returns the
    /// cached time of the clock.
    pub(crate) fn now(&self, clock: &Clock) -> Duration {
        if self.health.measures_latency() { clock.now_exact() } else { clock.now() }
    }
}
