//! One attempt to forward a request to one server, in four steps: `AcquireConnection`, `SendHead`, `Relay`,
//! `Report`.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_client::Error;
use thruway_server::Response;

use super::forwarding::Forwarding;
use super::outcome::{FailedAttempt, UsedConnection};
use super::relay::{Relay, Started};
use super::response::{Begun, Rest};
use super::response_body::respond;
use super::timeouts::is_event_stream;
use crate::Failure;
use crate::upstream::{
    Acquired, Exchange, NotOpened, Purpose, ServerSlot, acquire_within_limit, open_within,
};

/// The connection that an attempt has acquired.
pub(super) struct Connected {
    connection: Acquired,
    /// Time at which the exchange begins.
    now: Duration,
    /// Time just before the attempt opened or reused a connection. `None` if response times are not
    /// recorded.
    asked: Option<Duration>,
    is_late: bool,
}

/// An attempt that waits for the response head.
pub(super) struct Attempt {
    relay: Relay,
    used: UsedConnection,
    asked: Option<Duration>,
    is_late: bool,
}

/// Sends the request to the server of `slot`. If no connection to this server is available, the request may
/// move to another server that is not in `tried`. If `later_than` is the sequence number of a connection, the
/// attempt uses a newer connection. With `connections_max`, it may use the same HTTP/2 connection again.
pub(super) async fn attempt(
    forwarding: &mut Forwarding,
    mut slot: ServerSlot,
    tried: &[usize],
    later_than: Option<u64>,
) -> Result<Response, FailedAttempt> {
    let reused = if later_than.is_none() { reuse_connection(forwarding, &slot) } else { None };
    let connected = match reused {
        Some(connected) => connected,
        None => acquire_connection(forwarding, &mut slot, tried, later_than)
            .await
            .map_err(|not_opened| FailedAttempt::of_connection(&slot, not_opened))?,
    };
    let mut attempt = Attempt::begin(forwarding, slot, connected, later_than.is_none())?;
    let begun = poll_fn(|cx| attempt.poll(cx, forwarding)).await;
    let begun = begun.map_err(|failure| attempt.failed(failure))?;
    Ok(match begun.rest {
        Rest::Complete => begun.response,
        Rest::Stream { .. } | Rest::Tunnel => attempt.into_response(begun, forwarding),
    })
}

impl Attempt {
    /// Begins the exchange on the connection. `may_be_stale` is `false` if the request required a new
    /// connection.
    #[inline]
    pub(super) fn begin(
        forwarding: &mut Forwarding,
        slot: ServerSlot,
        connected: Connected,
        may_be_stale: bool,
    ) -> Result<Self, FailedAttempt> {
        let Connected { connection, now, asked, is_late } = connected;
        let is_reused = connection.is_reused();
        let used = UsedConnection { number: connection.number(), may_be_stale: is_reused && may_be_stale };
        if forwarding.is_loop(&slot) {
            return Err(FailedAttempt::of_exchange(&slot, Failure::Loop, used));
        }
        if let Some(timeline) = &mut forwarding.timeline {
            timeline.connected(is_reused);
        }
        slot.server.statistics().count_connection(is_reused);
        match start(forwarding, &slot, connection, now) {
            Ok(started) => {
                Ok(Self { relay: Relay::new(started, slot, forwarding.until), used, asked, is_late })
            }
            Err(error) => Err(FailedAttempt::of_exchange(&slot, error.into(), used)),
        }
    }

    /// Sends the request. Ready when the head of the response has arrived.
    #[inline]
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        forwarding: &mut Forwarding,
    ) -> Poll<Result<Begun, Failure>> {
        let mut polled = self.relay.poll_response(cx, &forwarding.request, &mut forwarding.body);
        // References, because moving the response would cost more than the rest of this function.
        if let Poll::Ready(Ok(begun)) = &mut polled {
            let accept = forwarding.request.websocket_accept.as_deref();
            if accept.is_some_and(|accept| !begun.proves(accept)) {
                return Poll::Ready(Err(Failure::UpgradeUnproven));
            }
            if let Some(timeline) = &mut forwarding.timeline {
                timeline.responded();
            }
            self.report(forwarding, begun);
        }
        polled
    }

    /// The step `Report`: records the response in the health and the statistics of the server, and completes
    /// the response headers.
    #[inline]
    fn report(&mut self, forwarding: &Forwarding, begun: &mut Begun) {
        let Self { relay, asked, .. } = self;
        forwarding.record_time(&relay.slot, *asked, begun.response.status());
        let is_complete = begun.is_complete();
        if !is_complete && is_event_stream(&begun.response) {
            relay.expect_events(forwarding.timeouts.of_event_stream(&relay.slot.upstream.config));
        }
        // The configured changes apply before the gateway adds its own headers, such as the sticky cookie.
        forwarding.request.rewrite_response(&mut begun.response);
        relay.slot.responded(&mut begun.response, is_complete, &forwarding.key);
    }

    /// Returns the response to the client, which contains the incomplete body or the tunnel.
    pub(super) fn into_response(self, begun: Begun, forwarding: &mut Forwarding) -> Response {
        respond(begun, self.relay, forwarding.take_body())
    }

    /// Records the failure of the exchange.
    #[cold]
    pub(super) fn failed(&self, failure: Failure) -> FailedAttempt {
        let failure = fair(self.relay.blamed(failure), self.is_late);
        FailedAttempt::of_exchange(&self.relay.slot, failure, self.used)
    }
}

/// The step `AcquireConnection` without waiting: reuses an idle connection. Returns `None` if there is no
/// idle connection, or if connections are limited.
#[inline]
pub(super) fn reuse_connection(forwarding: &Forwarding, slot: &ServerSlot) -> Option<Connected> {
    if slot.upstream.limits_connections() {
        return None;
    }
    let connection = Acquired::Http1(slot.take_idle(slot.since())?);
    let asked = forwarding.timed.map(|_| slot.clock().now_exact());
    Some(Connected { connection, now: slot.since(), asked, is_late: forwarding.is_late(slot) })
}

/// The step `AcquireConnection`: opens a connection or shares an HTTP/2 connection. If connections are
/// limited, this step first waits for a permit or for an idle connection.
async fn acquire_connection(
    forwarding: &mut Forwarding,
    slot: &mut ServerSlot,
    tried: &[usize],
    later_than: Option<u64>,
) -> Result<Connected, NotOpened> {
    let limits_connections = slot.upstream.limits_connections();
    let waiting = if limits_connections {
        let waiting = acquire_within_limit(slot, forwarding.until, later_than.is_some(), tried);
        let waiting = waiting.await.map_err(|failure| NotOpened { failure, is_counted: false })?;
        // The response time of the server does not include the time that the request waited for a
        // connection.
        slot.begins();
        forwarding.note_server(slot);
        waiting
    } else {
        None
    };
    let is_late = forwarding.is_late(slot);
    let asked = forwarding.timed.map(|_| slot.clock().now_exact());
    if let Some(connection) = waiting {
        return Ok(Connected { connection: Acquired::Http1(connection), now: slot.since(), asked, is_late });
    }
    // With `connections_max`, the limit may not permit another connection. Therefore, this attempt may use
    // the HTTP/2 connection on which the server has refused the request. After the refusal, the gateway knows
    // how many streams the server allows on this connection.
    let later_than = later_than.filter(|_| !limits_connections);
    let purpose = Purpose { later_than, is_upgrade: forwarding.request.is_upgrade };
    match open_within(forwarding.left(), slot, purpose).await {
        Ok(connection) => Ok(Connected { connection, now: slot.clock().now(), asked, is_late }),
        Err(not) => Err(NotOpened { failure: fair(not.failure, is_late), ..not }),
    }
}

/// The step `SendHead`: begins the exchange. The first poll sends the request head, and the part of the body
/// that arrived with the head. Usually, it sends them directly from `forwarding`, without a copy in the buffer
/// of the exchange.
#[inline]
fn start(
    forwarding: &mut Forwarding,
    slot: &ServerSlot,
    connection: Acquired,
    now: Duration,
) -> Result<Started, Error> {
    let request = &forwarding.request;
    let (mut exchange, is_head_unsent) = match connection {
        Acquired::Http1(connection) if request.whole().is_some() => {
            (Exchange::Http1(connection.start_without_head(request.to_send(), now)), true)
        }
        connection => {
            let write = |output: &mut Vec<u8>| request.write(output, || slot.upstream.host_of(&slot.server));
            (connection.start(request.to_send(), now, write)?, false)
        }
    };
    // A reused connection still has the timeouts of its previous request.
    exchange.set_timeouts(forwarding.timeouts.of_exchange(&slot.upstream.config, forwarding.left()));
    if let Some(body) = &mut forwarding.body {
        body.begin_again();
    }
    Ok(Started { exchange, is_head_unsent })
}

/// Returns the failure to report for `failure`. If the request reached the server late (`is_late`), counts a
/// timeout of the server as [`Failure::TimedOut`], which does not count against the server.
const fn fair(failure: Failure, is_late: bool) -> Failure {
    match failure {
        Failure::Exchange(Error::TimedOut) if is_late => Failure::TimedOut,
        failure => failure,
    }
}
