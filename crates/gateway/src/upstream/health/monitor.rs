//! Evaluates the results of requests: ejects servers, ends ejections, and measures response times.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::Clock;
use thruway_server::{Response, StatusCode};

use super::ejection::{Admission, EjectionConfig, milliseconds};
use super::sharing::{HealthEvent, HealthSharing};
use crate::Failure;
use crate::upstream::membership::members::Membership;
use crate::upstream::server::Server;

/// Evaluates the health of an upstream's servers. This struct contains only settings. The health of each
/// server is in its `ServerHealth`.
#[derive(Debug)]
pub(crate) struct HealthMonitor {
    /// Name of the upstream, for the log.
    upstream: Arc<str>,
    ejection: EjectionConfig,
    /// `true` if the balancing method compares response times.
    measures_latency: bool,
    /// The connection to the other gateways of a fleet. `None` without a fleet.
    sharing: Option<Arc<HealthSharing>>,
}

/// The failure of a request that counts against its server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FailureCause {
    /// The request got no complete response.
    Failed(Failure),
    /// The response has a status that counts as a failure.
    Status(StatusCode),
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => failure.fmt(f),
            Self::Status(status) => write!(f, "status {}", status.as_u16()),
        }
    }
}

impl HealthMonitor {
    pub(crate) const fn new(upstream: Arc<str>, ejection: EjectionConfig, measures_latency: bool) -> Self {
        Self { upstream, ejection, measures_latency, sharing: None }
    }

    pub(crate) fn set_sharing(&mut self, sharing: Arc<HealthSharing>) {
        self.sharing = Some(sharing);
    }

    /// Sends news about `server` to the other gateways.
    pub(crate) fn share(&self, server: &Server, event: impl FnOnce() -> HealthEvent) {
        if let Some(sharing) = &self.sharing {
            sharing.send(&self.upstream, &server.label, event);
        }
    }

    /// Counts a health check that another gateway has made for this process.
    pub(crate) fn count_skipped_check(&self) {
        self.sharing.iter().for_each(|sharing| sharing.count_skipped_check());
    }

    /// Returns `true` if response times are measured.
    #[inline]
    pub(crate) const fn measures_latency(&self) -> bool {
        self.measures_latency
    }

    /// Returns `true` if a response with `status` counts as a failure.
    #[inline]
    pub(crate) fn is_failure(&self, status: StatusCode) -> bool {
        self.ejection.is_failure(status)
    }

    /// Records the success of a request that began at `began` and is complete.
    #[inline]
    pub(crate) fn succeeded(&self, server: &Server, began: Duration, clock: &Clock) {
        server.health().ejection.succeeded();
        self.answered(server, began, clock);
    }

    /// Records a response to a request that began at `began`. If the server was ejected, the response ends
    /// the ejection.
    #[inline]
    pub(crate) fn answered(&self, server: &Server, began: Duration, clock: &Clock) {
        if server.health().ejection.answered(milliseconds(began)) {
            self.end_ejection(server, milliseconds(clock.now()));
        }
    }

    /// Records the failure of a request. `admission` is the decision with which the server accepted the
    /// request. Ejects the server after enough failures, unless too many servers in `members` are
    /// unavailable.
    pub(crate) fn failed(
        &self,
        members: &Membership,
        server: &Server,
        admission: Admission,
        cause: FailureCause,
        clock: &Clock,
    ) {
        if server.health().ejection.failed(&self.ejection, admission) {
            self.eject(members, server, admission, cause, milliseconds(clock.now()));
        }
    }

    /// Records the response time of `response`, which has just arrived. `sent` is the time at which the
    /// gateway had sent the whole request.
    pub(crate) fn responded(server: &Server, response: &Response, sent: Duration, clock: &Clock) {
        let (health, exact) = (server.health(), clock.now_exact());
        let (elapsed, now) = (exact.saturating_sub(sent), milliseconds(exact));
        if is_gateway_failure(response.status()) {
            health.latency.record_failure(elapsed, now);
        } else {
            health.latency.record(elapsed, now);
        }
        if response.status() == StatusCode::SERVICE_UNAVAILABLE
            && let Some(wait) = retry_after(response, clock)
        {
            health.set_retry_after(wait, now);
        }
    }

    fn eject(
        &self,
        members: &Membership,
        server: &Server,
        admission: Admission,
        cause: FailureCause,
        now: u64,
    ) {
        let (out, total) = members.load().out_of(now);
        if admission != Admission::Trial && !self.ejection.allows_one_more(out, total) {
            return;
        }
        let health = server.health();
        if let Some(milliseconds) =
            health.ejection.eject(&self.ejection, admission, health.healthy_since(), now)
        {
            let (upstream, address) = (&*self.upstream, &server.address);
            health.begin_epoch();
            let seconds = Duration::from_millis(milliseconds).as_secs_f64();
            health.note_health_change(now, format!("ejected for {seconds} s; last failure: {cause}"));
            tracing::warn!(upstream, server = %address, milliseconds, %cause, "server ejected");
            self.share(server, || HealthEvent::Ejected { cause: cause.to_string() });
        }
    }

    /// Records that another gateway has ejected `server`. The next failure then also ejects it here. One gateway alone
    /// cannot eject the servers of all gateways, because only its own network may have failed.
    pub(crate) fn expect_failure(&self, server: &Server, cause: &str) {
        server.health().ejection.expect_failure(&self.ejection);
        tracing::info!(upstream = &*self.upstream, server = %server.address, cause, "another gateway ejected the server");
    }

    /// Ends the ejection of a server that has responded to another gateway.
    pub(crate) fn return_with_fleet(&self, server: &Server, now: u64) {
        if server.health().ejection.is_out() {
            server.health().ejection.end();
            self.note_end_of_ejection(server, now);
        }
    }

    /// Ends the ejection of `server`.
    fn end_ejection(&self, server: &Server, now: u64) {
        self.note_end_of_ejection(server, now);
        self.share(server, || HealthEvent::Returned);
    }

    fn note_end_of_ejection(&self, server: &Server, now: u64) {
        server.health().end_ejection(now);
        server.health().note_health_change(now, "the server responds again".to_owned());
        tracing::info!(upstream = &*self.upstream, server = %server.address, "server back after ejection");
    }
}

/// Returns `true` for the statuses 502, 503 and 504, which mean that no server could respond (RFC 9110
/// §15.6.3 to §15.6.5). Returns `false` for other error statuses, because the request is often their cause.
const fn is_gateway_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// Returns the waiting time in the header `Retry-After`, which contains seconds or a date (RFC 9110
/// §10.2.3).
fn retry_after(response: &Response, clock: &Clock) -> Option<Duration> {
    let field = response.field("retry-after")?;
    let value = field.as_str()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(clock.time_of_day()).ok(),
    }
}
