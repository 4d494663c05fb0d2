//! Upstreams: servers that answer the same requests, and which of them is next.
//!
//! ```text
//! RequestKey ─▶ Servers::select: the first tier that is not empty ─▶ Balance::pick ─▶ Lease
//! Lease: responded / failed ─▶ Server: how it is doing, which the next selection looks at
//! ```
//! How servers are doing is in atomics that all workers share; nothing is locked on the path of a request.

// the upstream, its servers, and requests for them
mod config;
mod address;
mod server;
mod request_key;
mod server_slot;
mod retry_budget;
mod background;

// the four parts
mod membership;
mod health;
mod selection;
mod connections;

// metrics and status
mod status;
mod counts;
mod response_times;

#[cfg(test)]
mod scene;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use thruway_client::Resolve;
use thruway_net::Clock;

pub use address::{InvalidServerAddr, ServerAddr};
pub use config::{ResolverConfig, ServerConfig, UpstreamConfig, UpstreamTls};
pub(crate) use connections::exchange::{Exchange, Turn, Upgraded};
pub(crate) use connections::open::{Acquired, Purpose, open_within};
pub(crate) use connections::pool::{acquire, connect, release};
pub use connections::queue::QueueConfig;
pub(crate) use connections::shared::NotOpened;
pub use connections::waiting::WaitingCounts;
pub use health::admin_state::Standing;
pub use health::checks::{CheckConfig, CheckKind};
pub use health::ejection::EjectionConfig;
pub use health::status_range::{InvalidStatusRange, StatusRange};
pub use membership::dns::{FirstLookup, ServerLookup, look_up_servers};
pub use request_key::HashBy;
pub(crate) use request_key::RequestKey;
pub use response_times::ResponseCounts;
pub use retry_budget::RetryBudget;
pub use selection::balance::Balance;
pub(crate) use selection::random;
pub use selection::sticky::Sticky;
pub(crate) use server::Server;
pub(crate) use server_slot::Lease;
pub use status::{ServerState, ServerStatus};

use connections::idle::IdleCounts;
use connections::limits::Connections;
use connections::queue::Queue;
use health::checks;
use health::ejection::{Admission, milliseconds};
use membership::dns;
use membership::removed::Departed;
use selection::select::{Selected, Servers};

/// Servers that answer the same requests. Shared by all workers.
#[derive(Debug)]
pub struct Upstream {
    /// Tells the connections to this upstream from those to others, also to one of the same name before a reload.
    pub(crate) id: u64,
    pub(crate) config: UpstreamConfig,
    servers: ArcSwap<Servers>,
    /// Whose turn it is.
    turn: AtomicUsize,
    ongoing: Arc<Ongoing>,
    /// Whether another has taken its place: it answers what it has begun, and is looked after no more.
    is_replaced: AtomicBool,
    /// Its name, for records of requests.
    pub(crate) label: Arc<str>,
}

/// What goes on when the config of an upstream changes.
#[derive(Debug, Default)]
struct Ongoing {
    queue: Queue,
    /// The upstream in whose place no other is; none as long as there was one only.
    present: Mutex<Weak<Upstream>>,
    retries: retry_budget::Balance,
    counts: counts::UpstreamCounts,
    /// Requests that all servers together are answering, if there is a limit to that.
    in_flight: AtomicUsize,
    idle: IdleCounts,
    connections: Connections,
    responses: response_times::ResponseTimes,
    departed: Departed,
}

/// Why nobody gets a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unavailable {
    /// No server that may get it has room.
    Busy,
    /// There is no server.
    Nobody,
}

impl Upstream {
    /// The upstream that `config` describes. Nothing is connected yet.
    pub fn new(config: UpstreamConfig) -> Self {
        let servers =
            config.servers.iter().enumerate().filter_map(|(origin, server)| match &server.address {
                ServerAddr::Address(address) => Some(Arc::new(Server::new(&config, origin, address.clone()))),
                ServerAddr::Name { .. } => None,
            });
        let servers = servers.collect();
        Self::with(config, servers, Arc::default())
    }

    fn with(config: UpstreamConfig, servers: Vec<Arc<Server>>, ongoing: Arc<Ongoing>) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            servers: ArcSwap::from_pointee(Servers::new(servers)),
            turn: AtomicUsize::new(0),
            ongoing,
            is_replaced: AtomicBool::new(false),
            label: config.name.as_str().into(),
            config,
        }
    }

    /// Begins to look after the servers, beside the requests: [checks](UpstreamConfig::check) of how they are, and lookups of
    /// names, before the first of which there are no servers behind them. That ends when the upstream is dropped. To be called
    /// once.
    pub fn start(self: &Arc<Self>) -> FirstLookup {
        self.start_with(self.config.resolver.resolver())
    }

    /// The same, with another way to look up names.
    pub fn start_with(self: &Arc<Self>, resolver: Arc<dyn Resolve>) -> FirstLookup {
        self.servers.load().list.iter().for_each(|server| checks::start(self, server));
        dns::start(self, resolver)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// How it was made.
    pub const fn config(&self) -> &UpstreamConfig {
        &self.config
    }

    /// What `server` is called in a URI: as the config has it.
    pub(crate) fn host_of(&self, server: &Server) -> String {
        self.config.servers.get(server.origin).map(|config| config.address.host()).unwrap_or_default()
    }

    /// How many requests wait for a server that has room, or for a connection.
    pub fn waiting(&self) -> usize {
        self.ongoing.queue.len() + self.ongoing.connections.waiting()
    }

    /// How many requests have waited so far, and for how long.
    pub fn waiting_counts(&self) -> WaitingCounts {
        self.ongoing.queue.counts().plus(self.ongoing.connections.waiting_counts())
    }

    /// How many connections to its servers wait to be used again. Those of HTTP/2, which requests share, are not among them.
    pub fn idle_connections(&self) -> usize {
        self.ongoing.idle.sum()
    }

    /// Counts one more request that its servers are answering, until it [ends](Self::end), if there is a limit. Whether there is room for it.
    #[inline]
    fn begin(&self) -> bool {
        if self.config.requests_max == 0 {
            return true;
        }
        // What is counted is in one order with what waits in the queue.
        let has_room = self.ongoing.in_flight.fetch_add(1, Ordering::SeqCst) < self.config.requests_max;
        if !has_room {
            self.end();
        }
        has_room
    }

    /// One request less.
    #[inline]
    fn end(&self) {
        if self.config.requests_max > 0 {
            self.ongoing.in_flight.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn try_lease(
        self: &Arc<Self>,
        key: &RequestKey,
        tried: &[usize],
        clock: &Clock,
    ) -> Result<Lease, Unavailable> {
        let servers = self.servers.load();
        if !self.begin() {
            return Err(if servers.list.is_empty() { Unavailable::Nobody } else { Unavailable::Busy });
        }
        let now = self.now(clock);
        let unavailable =
            match servers.select(&self.config.balance, &self.turn, key, tried, milliseconds(now)) {
                Selected::Server(server, admission) => {
                    return Ok(Lease::new(self.clone(), server.clone(), admission, key, now));
                }
                Selected::Busy => Unavailable::Busy,
                Selected::Nobody => Unavailable::Nobody,
            };
        self.end();
        Err(unavailable)
    }

    /// The same server once more, if it may get the request.
    pub(crate) fn lease_again(
        self: &Arc<Self>,
        key: &RequestKey,
        server: Arc<Server>,
        clock: &Clock,
    ) -> Option<Lease> {
        if !self.begin() {
            return None;
        }
        let now = self.now(clock);
        match server.begin(milliseconds(now)) {
            Admission::Refused => {
                self.end();
                None
            }
            admission => Some(Lease::new(self.clone(), server, admission, key, now)),
        }
    }

    /// Notes that there is one more request.
    pub(crate) fn count_request(&self, now: Duration) {
        self.ongoing.retries.deposit(self.config.retry_budget, milliseconds(now));
    }

    /// Whether a request that `tried` so many servers may try one more. If so, that is noted.
    pub(crate) fn allows_retry(&self, tried: usize, clock: &Clock) -> bool {
        tried < self.config.retries_max as usize
            && self.ongoing.retries.withdraw(self.config.retry_budget, milliseconds(clock.now()))
    }

    /// Puts `server` out if it may be spared.
    fn eject(&self, server: &Server, admission: Admission, now: u64) {
        let config = &self.config.ejection;
        let (out, total) = self.servers.load().out_of(now);
        if admission != Admission::Trial && !config.allows_one_more(out, total) {
            return;
        }
        if let Some(milliseconds) =
            server.condition.ejection.eject(config, admission, server.back_since(), now)
        {
            let (upstream, address) = (self.name(), &server.address);
            server.condition.note_setback();
            tracing::warn!(upstream, server = %address, milliseconds, "a server fails and is left alone");
        }
    }

    /// Lets `server` have its share again.
    fn come_back(&self, server: &Server, now: u64) {
        server.come_back(now);
        tracing::info!(upstream = self.name(), server = %server.address, "a server is back");
    }

    /// The time, as exact as it must be: only response times must be.
    fn now(&self, clock: &Clock) -> Duration {
        if matches!(self.config.balance, Balance::PeakEwma) { clock.now_exact() } else { clock.now() }
    }
}
