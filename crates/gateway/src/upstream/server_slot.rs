//! A request that a server is answering.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::Side;
use thruway_net::{Clock, ProxyHeader};
use thruway_server::{Response, StatusCode};

use crate::Failure;
use crate::upstream::connections::limits::Permit;
use crate::upstream::health::ejection::Admission;
use crate::upstream::health::ejection::milliseconds;
use crate::upstream::{Balance, RequestKey, Server, Upstream};

/// A request that a server is answering, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) server: Arc<Server>,
    /// What the server is told about the client when a connection is made.
    pub(crate) proxied: Option<Arc<ProxyHeader>>,
    /// Permission to open a connection, until that is done.
    pub(crate) permit: RefCell<Option<Permit>>,
    admission: Admission,
    since: Duration,
    /// When the last of the request was sent that came later than its head, or else when it began: what the client took to send it is not how
    /// slow the server is.
    told: Duration,
    /// The head was that of a success, and the content is still coming.
    is_succeeding: bool,
}

impl Lease {
    /// A lease of `server`, which [counts](Server::begin) the request already, from the time `since` on.
    pub(crate) fn new(
        upstream: Arc<Upstream>,
        server: Arc<Server>,
        admission: Admission,
        key: &RequestKey,
        since: Duration,
    ) -> Self {
        let proxied = key.proxied.clone();
        Self {
            upstream,
            server,
            proxied,
            permit: RefCell::default(),
            admission,
            since,
            told: since,
            is_succeeding: false,
        }
    }

    /// Another server has the request, which [counts](Server::begin) it already.
    pub(crate) fn move_to(&mut self, server: Arc<Server>, admission: Admission) {
        std::mem::replace(&mut self.server, server).end();
        self.admission = admission;
        self.upstream.ongoing.queue.room_was_made();
    }

    /// Since when the request is with the server.
    pub(crate) const fn since(&self) -> Duration {
        self.since
    }

    /// It was not with the server before now.
    pub(crate) fn begins(&mut self, clock: &Clock) {
        self.since = self.upstream.now(clock);
        self.told = self.since;
    }

    /// Some of the content of the request was sent just now.
    pub(crate) fn tells(&mut self, clock: &Clock) {
        self.told = clock.now_exact();
    }

    /// From when on the server had all of the request, as far as it was sent.
    pub(crate) const fn told(&self) -> Duration {
        self.told
    }

    /// Notes that `response` came, with all of its content or not, and has the client bring its cookie along if it does not
    /// yet.
    pub(crate) fn responded(
        &mut self,
        response: &mut Response,
        is_complete: bool,
        key: &RequestKey,
        clock: &Clock,
    ) {
        if self.upstream.config.ejection.is_failure(response.status()) {
            self.note_failure(clock);
        } else if is_complete {
            self.note_success(clock);
        } else {
            // Content may go on for ever: a server that answers is back.
            self.is_succeeding = true;
            self.note_answer(clock);
        }
        if matches!(self.upstream.config.balance, Balance::PeakEwma) {
            self.note_speed(response, clock);
        }
        if let Some(cookie) = &self.server.set_cookie
            && key.sticky != Some(self.server.token)
        {
            // A name that cannot be sent was refused with the config; there is no cookie then.
            let _ = response.append_field("Set-Cookie", cookie.value(key.is_https));
        }
    }

    /// Notes that the content is complete that was still coming with the head. Of content that the client did not wait for
    /// nothing is noted.
    pub(crate) fn completed(&mut self, clock: &Clock) {
        if std::mem::take(&mut self.is_succeeding) {
            self.note_success(clock);
        }
    }

    /// Notes that the content will not be complete. How long it went on until then is not how slow the server is.
    pub(crate) fn broke_off(&self, failure: Failure, clock: &Clock) {
        if !is_fault(failure, false) {
            return;
        }
        self.note_failure(clock);
        if matches!(self.upstream.config.balance, Balance::PeakEwma) {
            self.server.condition.latency.record_failure(Duration::ZERO, milliseconds(clock.now_exact()));
        }
    }

    /// Notes that a connection was made, which is all there is to know of a server whose streams are not understood.
    pub(crate) fn connected(&self, clock: &Clock) {
        self.note_success(clock);
        if matches!(self.upstream.config.balance, Balance::PeakEwma) {
            let now = clock.now_exact();
            self.server.condition.latency.record(now.saturating_sub(self.told), milliseconds(now));
        }
    }

    /// Notes that there is no response, on a connection that was used before or not. A server that has closed a connection
    /// which waited for long has done nothing wrong.
    pub(crate) fn failed(&self, failure: Failure, is_reused: bool, clock: &Clock) {
        if !is_fault(failure, is_reused) {
            return;
        }
        self.note_failure(clock);
        if matches!(self.upstream.config.balance, Balance::PeakEwma) {
            let now = clock.now_exact();
            self.server.condition.latency.record_failure(now.saturating_sub(self.told), milliseconds(now));
        }
    }

    /// Notes that there is no connection, for which another request is counted already. Who tries whether the server is back has to tell all
    /// the same that it is not.
    pub(crate) fn failed_with_another(&self, failure: Failure, clock: &Clock) {
        if self.admission == Admission::Trial {
            self.failed(failure, false, clock);
        }
    }

    fn note_success(&self, clock: &Clock) {
        self.server.condition.ejection.succeeded();
        self.note_answer(clock);
    }

    fn note_answer(&self, clock: &Clock) {
        if self.server.condition.ejection.answered(milliseconds(self.since)) {
            self.upstream.come_back(&self.server, milliseconds(clock.now()));
        }
    }

    fn note_failure(&self, clock: &Clock) {
        if self.server.condition.ejection.failed(&self.upstream.config.ejection, self.admission) {
            self.upstream.eject(&self.server, self.admission, milliseconds(clock.now()));
        }
    }

    fn note_speed(&self, response: &Response, clock: &Clock) {
        let exact = clock.now_exact();
        let (elapsed, now) = (exact.saturating_sub(self.told), milliseconds(exact));
        if is_gateway_failure(response.status()) {
            self.server.condition.latency.record_failure(elapsed, now);
        } else {
            self.server.condition.latency.record(elapsed, now);
        }
        if response.status() == StatusCode::SERVICE_UNAVAILABLE
            && let Some(wait) = retry_after(response, clock)
        {
            self.server.asks_to_wait(wait, now);
        }
    }
}

#[cfg(test)]
impl Lease {
    pub(crate) fn succeeded_for_test(&self, clock: &Clock) {
        self.note_success(clock);
    }

    pub(crate) fn failed_for_test(&self, clock: &Clock) {
        self.note_failure(clock);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.server.end();
        self.upstream.end();
        self.upstream.ongoing.queue.room_was_made();
        if self.upstream.config.http2.is_some() {
            self.upstream.connection_is_free();
        }
    }
}

/// Whether the failure says something against the server.
fn is_fault(failure: Failure, is_reused: bool) -> bool {
    failure.side() == Side::Upstream && !failure.retry().blames_nobody(is_reused)
}

/// Whether the status says that there was nobody to answer (RFC 9110 §15.6.3 to §15.6.5). Other failures are about the
/// request as often as about the server.
const fn is_gateway_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// How long a server asks to be left alone (RFC 9110 §10.2.3): seconds, or a date.
fn retry_after(response: &Response, clock: &Clock) -> Option<Duration> {
    let field = response.field("retry-after")?;
    let value = field.as_str()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(clock.time_of_day()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use thruway_client::Error;

    use super::*;
    use crate::upstream::scene::Scene;

    fn microseconds(scene: &Scene) -> u64 {
        scene.server(0).condition.latency.microseconds(scene.now())
    }

    /// Once the slowest client decided how slow a server was.
    #[test]
    fn what_a_client_takes_to_send_is_not_how_slow_the_server_is() {
        let scene = Scene::new(Balance::PeakEwma, &[1]);
        let told = || {
            let mut lease = scene.lease();
            scene.time.advance(Duration::from_secs(10));
            lease.tells(&scene.clock);
            scene.time.advance(Duration::from_millis(10));
            lease
        };
        let mut response = Response::new(StatusCode::OK);
        told().responded(&mut response, true, &RequestKey::default(), &scene.clock);
        assert_eq!(microseconds(&scene), 10_000);
        told().failed(Error::ClosedBeforeResponse.into(), false, &scene.clock);
        assert_eq!(microseconds(&scene), 100_000, "as failures count that were soon there");
    }
}
