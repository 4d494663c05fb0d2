//! Active health checks: requests that the gateway sends to servers at regular intervals.
//!
//! ```text
//! start ─▶ a task for each server: probe, or a result of another gateway ─▶ Tally ─▶ Server::set_down ─▶ select
//! ```

pub(crate) mod config;
mod probe;
mod tally;

use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_net::Clock;
use tokio::time::{Instant, timeout_at};

use crate::upstream::background;
use crate::upstream::health::ejection::milliseconds;
use crate::upstream::health::server_health::Checked;
use crate::upstream::health::sharing::HealthEvent;
use crate::upstream::server::Server;
use crate::upstream::upstream::Upstream;

use probe::{ToProbe, probe};
use tally::Tally;

/// Starts the health checks of `server`. The health checks end when the server or its upstream is dropped.
pub(crate) fn start(upstream: &Arc<Upstream>, server: &Arc<Server>) {
    if upstream.config.check.is_some() {
        let (upstream, server) = (Arc::downgrade(upstream), Arc::downgrade(server));
        background::spawn(|| run(upstream, server));
    }
}

async fn run(upstream: Weak<Upstream>, server: Weak<Server>) {
    let Some((mut tally, mut foreign)) = server
        .upgrade()
        .map(|server| (Tally::after(server.health().checked()), server.health().take_over_checks()))
    else {
        return;
    };
    let clock = Clock::system();
    // The first check begins at once.
    let mut due = Instant::now();
    loop {
        let result_of_other = timeout_at(due, foreign.next()).await.ok();
        if tally.is_up() && matches!(result_of_other, Some(Err(_))) {
            // The network of the other gateway may have failed. The own check follows when it is due.
            continue;
        }
        let Some(what) = next_probe(&upstream, &server) else { return };
        let is_foreign = result_of_other.is_some();
        let outcome = match result_of_other {
            Some(outcome) => outcome,
            None => probe(&what, &clock).await.map_err(|failure| failure.to_string()),
        };
        // The task must not keep the upstream or the server alive.
        let (Some(upstream), Some(server)) = (upstream.upgrade(), server.upgrade()) else { return };
        if upstream.is_replaced() {
            return;
        }
        if is_foreign {
            upstream.health.count_skipped_check();
        } else {
            upstream.health.share(&server, || HealthEvent::Checked(outcome.clone()));
        }
        match tally.record(outcome.is_ok(), &what.check) {
            Some(is_up) => set_up(&upstream, &server, is_up, outcome.err(), &clock),
            // The first health check of the server has succeeded.
            None if server.health().checked() == Checked::NotYet => {
                server.health().set_checked(Checked::Up);
            }
            None => {}
        }
        due = Instant::now() + with_jitter(what.check.interval);
    }
}

fn next_probe(upstream: &Weak<Upstream>, server: &Weak<Server>) -> Option<ToProbe> {
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

/// Returns `interval`, increased or decreased at random by up to a tenth.
pub(crate) fn with_jitter(interval: Duration) -> Duration {
    let per_mille = fastrand::u32(900..=1_100);
    interval * per_mille / 1_000
}

/// Records that health checks have found `server` up or down, and logs the change.
fn set_up(upstream: &Upstream, server: &Server, is_up: bool, failure: Option<String>, clock: &Clock) {
    let (upstream, address) = (upstream.name(), &server.address);
    server.health().set_down(!is_up);
    let now = milliseconds(clock.now());
    match failure {
        None => {
            server.health().end_ejection(now);
            server.health().note_health_change(now, "health checks succeed again".to_owned());
            tracing::info!(upstream, server = %address, "health checks: server up");
        }
        Some(reason) => {
            server.health().note_health_change(now, format!("health checks fail: {reason}"));
            tracing::warn!(upstream, server = %address, %reason, "health checks: server down");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_interval_varies_by_ten_percent() {
        let second = Duration::from_secs(1);
        let intervals: Vec<_> = (0..1_000).map(|_| with_jitter(second)).collect();
        let range = Duration::from_millis(900)..=Duration::from_millis(1_100);
        assert!(intervals.iter().all(|interval| range.contains(interval)));
        assert!(intervals.iter().any(|interval| *interval < second));
        assert!(intervals.iter().any(|interval| *interval > second));
    }
}
