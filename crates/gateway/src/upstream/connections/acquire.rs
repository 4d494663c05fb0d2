//! Acquires connections for requests. A request reuses an idle connection, shares an HTTP/2 connection, or
//! gets a permit to open a connection.

use std::sync::Arc;
use std::time::Duration;

use thruway_client::{Connection, Error, RequestToSend, Timeouts};

use super::exchange::Exchange;
use super::http2_sharing::{SharedConnection, SharedKey, Wanted, find, with_free_streams};
use super::limits::Permit;
use crate::Failure;
use crate::upstream::health::ejection::{Admission, milliseconds};
use crate::upstream::server::{ChosenVersion, Server};
use crate::upstream::server_slot::ServerSlot;

/// A connection on which an exchange can start.
pub(crate) enum Acquired {
    /// An HTTP/1.1 connection, which only this request uses.
    Http1(Connection),
    /// An HTTP/2 connection, which several requests share. The connection is boxed, so that requests over
    /// HTTP/1.1 do not reserve memory for it.
    Http2(Box<SharedConnection>),
}

/// The way in which a request gets a connection.
enum Acquisition {
    /// Reuses an idle connection.
    Reuse(Connection),
    /// Shares an HTTP/2 connection to the server of the slot.
    Share,
    /// Opens a new connection.
    Open(Permit),
    /// Shares an HTTP/2 connection to another server. The other server already counts the request.
    Elsewhere(Arc<Server>, Admission),
}

impl Acquired {
    /// Returns the sequence number of a shared connection, or 0 if the connection is not shared. Newer
    /// connections have higher numbers.
    pub(crate) const fn number(&self) -> u64 {
        match self {
            Self::Http1(_) => 0,
            Self::Http2(shared) => shared.number,
        }
    }

    /// Returns `true` if the connection has carried other requests.
    pub(crate) const fn is_reused(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.exchanges() > 0,
            Self::Http2(shared) => shared.is_reused,
        }
    }

    /// Begins an exchange with `timeouts`. `write` appends the request head and the part of the body that has
    /// arrived.
    pub(crate) fn start(
        self,
        request: RequestToSend,
        timeouts: Timeouts,
        now: Duration,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Exchange, Error> {
        let mut exchange = match self {
            Self::Http1(connection) => Exchange::Http1(connection.start(request, now, write)),
            Self::Http2(mut shared) => {
                Exchange::Http2(Box::new(shared.connection.start(request, now, write)?))
            }
        };
        exchange.set_timeouts(timeouts);
        Ok(exchange)
    }
}

impl ServerSlot {
    pub(crate) fn shared_key(&self) -> SharedKey {
        (self.upstream.id, self.server.number)
    }

    /// Returns the conditions that a shared connection must meet.
    pub(crate) fn wanted(&self) -> Wanted {
        let config = &self.upstream.config;
        Wanted {
            key: self.shared_key(),
            epoch: self.server.health().epoch(),
            keeps_used: self.upstream.limits_connections(),
            awaits_opening: !config.negotiates_http2 || self.server.chosen_version() != ChosenVersion::Http1,
        }
    }

    /// Returns `true` if other requests may share the HTTP/2 connection of this request. Returns `false` if a
    /// PROXY header names the client, or if the config allows no idle connections.
    pub(crate) fn shares_connections(&self) -> bool {
        let pool = &self.upstream.config.pool;
        self.proxied.is_none() && pool.idle_per_address_max > 0 && pool.idle_max > 0
    }
}

/// Gets a connection to the server of `slot`, or a permit to open one, within the connection limit of the
/// upstream. Waits until the time `until` if necessary. If there is an idle connection and `is_new` is
/// `false`, returns the idle connection. Otherwise, returns `None`. The request may then share a connection,
/// or open a connection with the permit in the slot. If only a connection to another server has a free
/// stream, the slot moves to that server. Servers in `tried` are excluded.
///
/// # Errors
/// Returns an error if too many requests already wait, or if the waiting time is over.
pub(crate) async fn acquire_within_limit(
    slot: &mut ServerSlot,
    until: Option<Duration>,
    is_new: bool,
    tried: &[usize],
) -> Result<Option<Connection>, Failure> {
    let (upstream, worker) = (&slot.upstream, &slot.worker);
    let attempt = || find_connection(slot, is_new, tried);
    match upstream.connections.wait_for_connection(worker, upstream.config.queue, until, attempt).await? {
        Acquisition::Reuse(connection) => return Ok(Some(connection)),
        Acquisition::Open(permit) => drop(slot.permit.replace(Some(permit))),
        Acquisition::Share => upstream.notify_free_connection(worker),
        Acquisition::Elsewhere(server, admission) => {
            slot.move_to(server, admission);
            slot.upstream.notify_free_connection(&slot.worker);
        }
    }
    Ok(None)
}

/// Selects how the request gets a connection: an idle connection, a shared connection, or a permit for a new
/// connection. Returns `None` if the request must wait. If the result is a shared connection, the caller must
/// notify the next waiting requests, because the connection may have more free streams.
fn find_connection(slot: &ServerSlot, is_new: bool, tried: &[usize]) -> Option<Acquisition> {
    let waiting = if is_new { None } else { slot.take_idle(slot.worker.clock().now()) };
    if let Some(connection) = waiting {
        return Some(Acquisition::Reuse(connection));
    }
    if may_share(slot) {
        return Some(Acquisition::Share);
    }
    slot.upstream.permit(&slot.worker).map(Acquisition::Open).or_else(|| server_with_free_stream(slot, tried))
}

/// Returns `true` if an HTTP/2 connection to the server has a free stream or is being opened.
fn may_share(slot: &ServerSlot) -> bool {
    slot.shares_connections()
        && slot.upstream.config.http2.is_some()
        && find(&slot.worker, slot.wanted(), None).is_some()
}

/// Selects another server with a free HTTP/2 stream, regardless of the balancing method. On a busy upstream,
/// the request might otherwise wait forever for a connection to its own server.
fn server_with_free_stream(slot: &ServerSlot, tried: &[usize]) -> Option<Acquisition> {
    if !slot.shares_connections() {
        return None;
    }
    let numbers = with_free_streams(&slot.worker, slot.upstream.id);
    let now = milliseconds(slot.worker.clock().now());
    let servers = slot.upstream.members.load();
    let may_be = |server: &&Arc<Server>| {
        numbers.contains(&server.number)
            && !tried.contains(&server.number)
            && server.is_backup == slot.server.is_backup
            && server.takes_new_clients()
            && server.is_available(now)
    };
    servers.list.iter().filter(may_be).find_map(|server| match server.begin(now) {
        Admission::Refused => None,
        admission => Some(Acquisition::Elsewhere(server.clone(), admission)),
    })
}

/// Waits until the request may share a connection, or gets a permit to open one.
pub(crate) async fn wait_to_share(slot: &ServerSlot) -> Result<(), Failure> {
    let (upstream, worker) = (&slot.upstream, &slot.worker);
    let attempt = || if may_share(slot) { Some(None) } else { upstream.permit(worker).map(Some) };
    let wait = upstream.connections.wait_for_connection(worker, upstream.config.queue, None, attempt);
    let permit = wait.await?;
    if permit.is_none() {
        upstream.notify_free_connection(worker);
    }
    slot.permit.replace(permit);
    Ok(())
}
