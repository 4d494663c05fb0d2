//! One attempt to forward a request to one server, in four steps: `AcquireConnection`, `SendHead`, `Relay`,
//! `Report`.

use std::future::poll_fn;
use std::time::Duration;

use thruway_client::Error;

use super::forwarding::Forwarding;
use super::outcome::{AttemptOutcome, UsedConnection};
use super::relay::Relay;
use super::response::Begun;
use super::response_body::respond;
use super::timeline::Timeline;
use super::timeouts::is_event_stream;
use crate::Failure;
use crate::upstream::{
    Acquired, Exchange, NotOpened, Purpose, ServerSlot, acquire_within_limit, open_within,
};

/// The connection that an attempt has acquired.
struct Connected {
    connection: Acquired,
    /// Time at which the exchange begins.
    now: Duration,
    /// Time just before the attempt opened or reused a connection. `None` if response times are not
    /// recorded.
    asked: Option<Duration>,
    is_late: bool,
}

/// Sends the request to the server of `slot`. If no connection to this server is available, the request may
/// move to another server that is not in `tried`. If `later_than` is the sequence number of a connection, the
/// attempt uses a newer connection. With `connections_max`, it may use the same HTTP/2 connection again.
pub(super) async fn attempt(
    forwarding: &mut Forwarding,
    mut slot: Box<ServerSlot>,
    tried: &[usize],
    later_than: Option<u64>,
    timeline: &mut Option<Timeline<'_>>,
) -> AttemptOutcome {
    let connected = acquire_connection(forwarding, &mut slot, tried, later_than, timeline).await;
    let Connected { connection, now, asked, is_late } = match connected {
        Ok(connected) => connected,
        Err(not_opened) => return AttemptOutcome::not_opened(&slot, not_opened),
    };
    let is_reused = connection.is_reused();
    let used =
        UsedConnection { number: connection.number(), may_be_stale: is_reused && later_than.is_none() };
    if forwarding.is_loop(&slot) {
        return AttemptOutcome::failed(&slot, Failure::Loop, used);
    }
    if let Some(timeline) = timeline {
        timeline.connected(is_reused);
    }
    slot.server.statistics().count_connection(is_reused);
    let exchange = match send_head(forwarding, &slot, connection, now) {
        Ok(exchange) => exchange,
        Err(error) => return AttemptOutcome::failed(&slot, error.into(), used),
    };
    let mut relay = Relay::new(exchange, slot, forwarding.until);
    let mut begun = poll_fn(|cx| relay.poll_response(cx, &mut forwarding.body)).await;
    if let Some(accept) = &forwarding.request.websocket_accept {
        begun = begun.and_then(|begun| begun.proven(accept));
    }
    match begun {
        Ok(mut begun) => {
            if let Some(timeline) = timeline {
                timeline.responded();
            }
            report(forwarding, &mut relay, &mut begun, asked);
            AttemptOutcome::Responded(respond(begun, relay, forwarding.take_body()))
        }
        Err(failure) => AttemptOutcome::failed(&relay.slot, fair(relay.blamed(failure), is_late), used),
    }
}

/// The step `AcquireConnection`: reuses an idle connection, unless the request needs a newer connection. If
/// no idle connection can be reused, this step opens a connection or shares an HTTP/2 connection.
async fn acquire_connection(
    forwarding: &Forwarding,
    slot: &mut Box<ServerSlot>,
    tried: &[usize],
    later_than: Option<u64>,
    timeline: &mut Option<Timeline<'_>>,
) -> Result<Connected, NotOpened> {
    let limits_connections = slot.upstream.limits_connections();
    let waiting = match later_than {
        _ if limits_connections => {
            let waiting = acquire_within_limit(slot, forwarding.until, later_than.is_some(), tried);
            let waiting = Box::pin(waiting).await;
            let waiting = waiting.map_err(|failure| NotOpened { failure, is_counted: false })?;
            // The response time of the server does not include the time that the request waited for a
            // connection.
            slot.begins();
            if let Some(timeline) = timeline {
                timeline.selected(&slot.server);
            }
            waiting
        }
        Some(_) => None,
        None => slot.take_idle(slot.since()),
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
    // This future is boxed, so that requests that reuse a connection do not reserve memory for it.
    match Box::pin(open_within(forwarding.left(), slot, purpose)).await {
        Ok(connection) => Ok(Connected { connection, now: slot.clock().now(), asked, is_late }),
        Err(not) => Err(NotOpened { failure: fair(not.failure, is_late), ..not }),
    }
}

/// The step `SendHead`: begins the exchange. Sends the request head, and the part of the body that arrived
/// with the head.
#[inline]
fn send_head(
    forwarding: &mut Forwarding,
    slot: &ServerSlot,
    connection: Acquired,
    now: Duration,
) -> Result<Exchange, Error> {
    let request = &forwarding.request;
    let write = |output: &mut Vec<u8>| request.write(output, || slot.upstream.host_of(&slot.server));
    let mut exchange = connection.start(request.to_send(), now, write)?;
    // A reused connection still has the timeouts of its previous request.
    exchange.set_timeouts(forwarding.timeouts.of_exchange(&slot.upstream.config, forwarding.left()));
    if let Some(body) = &mut forwarding.body {
        body.begin_again();
    }
    Ok(exchange)
}

/// The step `Report`: records the response in the health and the statistics of the server, and completes
/// the response headers. The function takes references, because moving the relay and the response would
/// cost more than the rest of the function.
#[inline]
fn report(forwarding: &Forwarding, relay: &mut Relay, begun: &mut Begun, asked: Option<Duration>) {
    forwarding.record_time(&relay.slot, asked, begun.response.status());
    let is_complete = begun.is_complete();
    if !is_complete && is_event_stream(&begun.response) {
        relay.expect_events(forwarding.timeouts.of_event_stream(&relay.slot.upstream.config));
    }
    // The configured changes apply before the gateway adds its own headers, such as the sticky cookie.
    forwarding.request.rewrite_response(&mut begun.response);
    relay.slot.responded(&mut begun.response, is_complete, &forwarding.key);
}

/// Returns the failure to report for `failure`. If the request reached the server late (`is_late`), counts a
/// timeout of the server as [`Failure::TimedOut`], which does not count against the server.
const fn fair(failure: Failure, is_late: bool) -> Failure {
    match failure {
        Failure::Exchange(Error::TimedOut) if is_late => Failure::TimedOut,
        failure => failure,
    }
}
