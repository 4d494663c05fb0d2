//! Servers are asked how they are, whether they have requests or not.
//!
//! ```text
//! start ─▶ a task for each server: probe ─▶ Tally ─▶ Server::set_down ─▶ select
//! ```

mod probe;
mod tally;

use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_net::Clock;

use crate::upstream::health::condition::Checked;
use crate::upstream::health::ejection::milliseconds;
use crate::upstream::health::status_range::StatusRange;
use crate::upstream::selection::random;
use crate::upstream::server::Server;
use crate::upstream::{Upstream, background};

use probe::{ProbeFailure, ToProbe, probe};
use tally::Tally;

/// How servers are asked how they are, and what is made of it. Until the first answer they are up; that one decides at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckConfig {
    /// What is asked.
    pub kind: CheckKind,
    /// From one time to the next, a tenth more or less, so that servers and gateways are not all asked at once. Default 5 s.
    pub interval: Duration,
    /// For an answer, connecting included. Default 2 s.
    pub timeout: Duration,
    /// So many good answers in a row bring a server back. Default 2.
    pub rise: u32,
    /// So many bad ones take it out. Default 3.
    pub fall: u32,
}

/// What servers are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckKind {
    /// `GET` of a path.
    Http {
        /// The path, with a query if need be.
        path: String,
        /// What `Host` says; without it, the server's address.
        host: Option<String>,
        /// Statuses that are good. Default 200 to 399.
        statuses: Vec<StatusRange>,
        /// Text that must be in the first 64 KiB of the content. Default none.
        content: Option<String>,
    },
    /// Whether a connection is accepted.
    Tcp,
}

impl CheckConfig {
    /// What `kind` asks, as often as usual.
    pub const fn new(kind: CheckKind) -> Self {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(2));
        Self { kind, interval, timeout, rise: 2, fall: 3 }
    }
}

impl CheckKind {
    /// The statuses that are good if nothing else is said.
    pub const STATUSES: StatusRange = StatusRange::new(200, 399);

    /// `GET` of `path`, where 200 to 399 are good.
    pub fn http(path: impl Into<String>) -> Self {
        Self::Http { path: path.into(), host: None, statuses: vec![Self::STATUSES], content: None }
    }
}

/// Begins to check `server`, until it or its upstream is dropped.
pub(crate) fn start(upstream: &Arc<Upstream>, server: &Arc<Server>) {
    if upstream.config.check.is_some() {
        let (upstream, server) = (Arc::downgrade(upstream), Arc::downgrade(server));
        background::spawn(|| run(upstream, server));
    }
}

async fn run(upstream: Weak<Upstream>, server: Weak<Server>) {
    let mut tally =
        server.upgrade().map(|server| Tally::after(server.condition.checked())).unwrap_or_default();
    while let Some(what) = what_to_check(&upstream, &server) {
        let outcome = probe(&what).await;
        // Nothing is kept alive only to be checked.
        let (Some(upstream), Some(server)) = (upstream.upgrade(), server.upgrade()) else { return };
        if upstream.is_replaced() {
            return;
        }
        match tally.record(outcome.is_ok(), &what.check) {
            Some(is_up) => upstream.set_up(&server, is_up, outcome.err()),
            // The first answer, which is as expected.
            None if server.condition.checked() == Checked::NotYet => {
                server.condition.set_checked(Checked::Up);
            }
            None => {}
        }
        drop((upstream, server));
        tokio::time::sleep(with_jitter(what.check.interval)).await;
    }
}

fn what_to_check(upstream: &Weak<Upstream>, server: &Weak<Server>) -> Option<ToProbe> {
    let (upstream, server) = (upstream.upgrade()?, server.upgrade()?);
    let check = upstream.config.check.clone()?;
    let configured = &upstream.config.servers[server.origin].address;
    let proxy_protocol = upstream.config.proxy_protocol;
    Some(ToProbe {
        check,
        address: server.address.clone(),
        configured: configured.clone(),
        proxy_protocol,
        tls: upstream.config.tls.clone(),
        http2: upstream.config.http2,
        negotiates_http2: upstream.config.negotiates_http2,
    })
}

/// A tenth more or less.
pub(crate) fn with_jitter(interval: Duration) -> Duration {
    let per_mille = 900 + u32::try_from(random::below(201)).unwrap_or_default();
    interval * per_mille / 1_000
}

impl Upstream {
    /// Notes that checks have found `server` up or down.
    fn set_up(&self, server: &Server, is_up: bool, failure: Option<ProbeFailure>) {
        let (upstream, address) = (self.name(), &server.address);
        server.set_down(!is_up);
        match failure {
            None => {
                server.come_back(milliseconds(Clock::system().now()));
                tracing::info!(upstream, server = %address, "a server is up");
            }
            Some(reason) => tracing::warn!(upstream, server = %address, %reason, "a server is down"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_a_tenth_more_or_less() {
        let second = Duration::from_secs(1);
        let intervals: Vec<_> = (0..1_000).map(|_| with_jitter(second)).collect();
        let range = Duration::from_millis(900)..=Duration::from_millis(1_100);
        assert!(intervals.iter().all(|interval| range.contains(interval)));
        assert!(intervals.iter().any(|interval| *interval < second));
        assert!(intervals.iter().any(|interval| *interval > second));
    }
}
