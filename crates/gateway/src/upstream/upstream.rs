//! An upstream and its four parts: membership, health, selection and connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use thruway_net::{Clock, Worker};

use super::config::UpstreamConfig;
use super::connections::limits::{Connections, Permit};
use super::health::ejection::milliseconds;
use super::health::monitor::HealthMonitor;
use super::membership::members::Membership;
use super::retry_budget::BudgetBalance;
use super::selection::balance_config::Balance;
use super::selection::select::Selection;
use super::server::Server;
use super::statistics::UpstreamStatistics;

/// Servers that answer the same requests. Shared by all workers.
#[derive(Debug)]
pub struct Upstream {
    /// Distinguishes connections to this upstream from others, also from an upstream of the same name before
    /// a reload.
    pub(crate) id: u64,
    pub(crate) config: UpstreamConfig,
    /// Its name, for access logs.
    pub(crate) label: Arc<str>,
    pub(crate) members: Membership,
    pub(crate) health: HealthMonitor,
    pub(crate) selection: Selection,
    // The following fields outlive a reload.
    pub(crate) connections: Arc<Connections>,
    pub(crate) retries: Arc<BudgetBalance>,
    pub(crate) statistics: Arc<UpstreamStatistics>,
    /// The newest upstream after reloads. Empty before the first reload.
    pub(crate) successor: Arc<Mutex<Weak<Upstream>>>,
    /// `true` after another upstream has replaced this one. It completes its requests, and its background
    /// tasks end.
    pub(crate) is_replaced: AtomicBool,
}

impl Upstream {
    /// Returns the upstream of `config`, without connections.
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

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns its config.
    pub const fn config(&self) -> &UpstreamConfig {
        &self.config
    }

    /// Returns the host of `server` in a URI, as in the config.
    pub(crate) fn host_of(&self, server: &Server) -> String {
        self.config.servers.get(server.origin).map(|config| config.address.host()).unwrap_or_default()
    }

    /// Counts a request for the retry budget.
    pub(crate) fn count_request(&self, now: Duration) {
        self.retries.deposit(self.config.retry_budget, milliseconds(now));
    }

    /// Returns `true` if a request that has tried `tried` servers may try another one. Counts the retry.
    pub(crate) fn allows_retry(&self, tried: usize, clock: &Clock) -> bool {
        tried < self.config.retries_max as usize
            && self.retries.withdraw(self.config.retry_budget, milliseconds(clock.now()))
    }

    /// `true` if connections are limited.
    #[inline]
    pub(crate) const fn limits_connections(&self) -> bool {
        self.config.connections_max > 0
    }

    /// Returns a permit to open a connection for `worker`, if connections are limited and the limit is not
    /// reached.
    pub(crate) fn permit(&self, worker: &Worker) -> Option<Permit> {
        self.connections.permit(worker, self.config.connections_max)
    }

    /// Notes that a connection of `worker` is idle, or has a free stream. Connections of a config without a
    /// limit can be awaited after a reload to a config with one.
    #[inline]
    pub(crate) fn notify_free_connection(&self, worker: &Worker) {
        if self.limits_connections() || self.is_replaced() {
            self.connections.notify_free(worker);
        }
    }

    /// `true` if another upstream has replaced this one.
    #[inline]
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    /// Returns the time. It is exact only if response times are measured.
    pub(crate) fn now(&self, clock: &Clock) -> Duration {
        if self.health.measures_latency() { clock.now_exact() } else { clock.now() }
    }
}
