//! Opens or shares a connection for a request, in the HTTP version that the server uses.
//!
//! If servers choose the HTTP version, the gateway expects that a server chooses the same version as on its
//! last connection. If the expected version is HTTP/1.1, a request does not wait until another request has
//! opened a connection, because requests cannot share HTTP/1.1 connections. If the server chooses the other
//! version, the request uses the connection anyway.

use std::time::Duration;

use thruway_client::http2::{self, Driver, Http2Config};
use thruway_client::{ConnectError, Connection, Error};
use thruway_net::spawn;
use tokio::time::timeout;

use super::acquire::{Acquired, wait_to_share};
use super::connect::{connect_secured, uses_http2};
use super::http2_sharing::{OpeningGuard, Outcome, SharedConnection, find, keep, next_number};
use crate::Failure;
use crate::upstream::server::ChosenVersion;
use crate::upstream::server_slot::ServerSlot;

/// Requirements of a request for its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Purpose {
    /// If set, a shared connection must be newer than the connection with this sequence number.
    pub(crate) later_than: Option<u64>,
    /// `true` if the connection or one of its streams will become a tunnel.
    pub(crate) is_upgrade: bool,
}

/// The error for a connection that could not be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotOpened {
    pub(crate) failure: Failure,
    /// `true` if another request has tried to open the connection. That request reports the failure.
    pub(crate) is_counted: bool,
}

/// A new connection. An HTTP/2 connection has a driver.
enum Opened {
    Http1(Connection),
    Http2(Box<SharedConnection>, Driver),
}

/// Returns a connection to the server of `slot`. Returns an error if the connection is not open after `left`,
/// the remaining time of the request.
pub(crate) async fn open_within(
    left: Option<Duration>,
    slot: &ServerSlot,
    purpose: Purpose,
) -> Result<Acquired, NotOpened> {
    let Some(left) = left else { return open_for(slot, purpose).await };
    timeout(left, open_for(slot, purpose)).await.unwrap_or_else(|_| Err(not_opened(Error::TimedOut)))
}

async fn open_for(slot: &ServerSlot, purpose: Purpose) -> Result<Acquired, NotOpened> {
    let config = &slot.upstream.config;
    let Some(http2) = &config.http2 else { return open_http1(slot, None).await };
    loop {
        let mut acquired = share(slot, http2, purpose.later_than).await?;
        let Acquired::Http2(shared) = &mut acquired else { return Ok(acquired) };
        if !purpose.is_upgrade {
            return Ok(acquired);
        }
        if !takes_upgrades(slot, shared).await? {
            break;
        }
        // Other requests that waited for the HTTP/2 settings of this connection may have taken all streams.
        if !shared.is_reused || shared.connection.has_capacity() {
            return Ok(acquired);
        }
    }
    // If the server can choose between the versions, the upgrade uses HTTP/1.1.
    if !config.negotiates_http2 {
        return Err(not_opened(Failure::UpgradeUnsupported));
    }
    open_http1(slot, Some(&[b"http/1.1"])).await
}

/// Opens an HTTP/1.1 connection for this request only. If `protocols` is set, it replaces the ALPN protocols
/// of the config.
async fn open_http1(slot: &ServerSlot, protocols: Option<&[&[u8]]>) -> Result<Acquired, NotOpened> {
    match connect_secured(slot, protocols).await {
        Ok(stream) => Ok(Acquired::Http1(Connection::new(stream, &slot.upstream.config.exchange))),
        Err(ConnectError::Tls(failure)) if protocols.is_some() && failure.is_no_protocol() => {
            Err(not_opened(Failure::UpgradeUnsupported))
        }
        Err(error) => Err(not_opened(error)),
    }
}

/// Returns `true` if the server accepts upgrades over HTTP/2. On a new connection, waits until the settings
/// of the server have arrived.
async fn takes_upgrades(slot: &ServerSlot, shared: &SharedConnection) -> Result<bool, NotOpened> {
    let said = timeout(slot.upstream.config.connect_timeout, shared.connection.takes_upgrades()).await;
    said.map_err(|_| not_opened(ConnectError::TimedOut))?.map_err(not_opened)
}

fn not_opened(failure: impl Into<Failure>) -> NotOpened {
    NotOpened { failure: failure.into(), is_counted: false }
}

/// Returns a connection to the server of `slot` that has a free stream and is newer than the connection
/// `later_than`. Usually, other requests can share this connection. For example, if the server closes a
/// connection, many requests need another connection at once. All of these requests share the next
/// connection. The connection is not shared if the server chooses HTTP/1.1, or if requests [may not
/// share](ServerSlot::shares_connections) connections.
async fn share(
    slot: &ServerSlot,
    http2: &Http2Config,
    later_than: Option<u64>,
) -> Result<Acquired, NotOpened> {
    let worker = &slot.worker;
    if !slot.shares_connections() {
        return Ok(match open(slot, http2).await? {
            Opened::Http1(connection) => Acquired::Http1(connection),
            Opened::Http2(unshared, driver) => {
                spawn(driver);
                Acquired::Http2(unshared)
            }
        });
    }
    loop {
        match find(worker, slot.wanted(), later_than) {
            Some(Ok((number, connection))) => {
                let shared = SharedConnection { connection, number, is_reused: true };
                return Ok(Acquired::Http2(Box::new(shared)));
            }
            Some(Err(opening)) => {
                if let Outcome::Failed(failure) = opening.wait().await {
                    return Err(NotOpened { failure, is_counted: true });
                }
            }
            None if slot.may_connect() => break,
            None => wait_to_share(slot).await.map_err(not_opened)?,
        }
    }
    let guard = slot.wanted().awaits_opening.then(|| OpeningGuard::begin(worker, slot.shared_key()));
    let opened = open(slot, http2).await;
    if let Some(guard) = guard {
        guard.end(opened.as_ref().map_or_else(|failed| Outcome::Failed(failed.failure), |_| Outcome::Open));
    }
    match opened? {
        Opened::Http1(connection) => Ok(Acquired::Http1(connection)),
        Opened::Http2(shared, driver) => {
            let connections = slot.upstream.connections.id;
            keep(worker, slot.shared_key(), connections, &slot.server.state, &shared, driver);
            Ok(Acquired::Http2(shared))
        }
    }
}

/// Opens a connection. An HTTP/2 connection is returned with its driver.
async fn open(slot: &ServerSlot, http2: &Http2Config) -> Result<Opened, NotOpened> {
    let (config, worker) = (&slot.upstream.config, &slot.worker);
    let stream = connect_secured(slot, None).await.map_err(not_opened)?;
    if config.negotiates_http2 {
        let chosen = if uses_http2(&stream) { ChosenVersion::Http2 } else { ChosenVersion::Http1 };
        slot.server.set_chosen_version(chosen);
        if chosen == ChosenVersion::Http1 {
            return Ok(Opened::Http1(Connection::new(stream, &config.exchange)));
        }
    }
    let (clock, deadlines) = (worker.clock(), Some(worker.deadlines()));
    let connected = http2::Connection::new(stream, &config.exchange, http2, clock, deadlines).await;
    let (connection, driver) = connected.map_err(not_opened)?;
    let opened = SharedConnection { connection, number: next_number(worker), is_reused: false };
    Ok(Opened::Http2(Box::new(opened), driver))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use thruway_client::{RequestToSend, Timeouts};
    use thruway_http1::BodyLength;
    use thruway_message::Method;
    use thruway_net::{Clock, Worker};
    use tokio::task::{LocalSet, yield_now};
    use tokio::time::timeout;

    use super::*;
    use crate::upstream::connections::http2_sharing::count_for_test;
    use crate::upstream::{RequestKey, Upstream, UpstreamConfig};

    const TEST_TIMEOUT: Duration = Duration::from_mins(1);

    async fn slot_of(upstream: &Arc<Upstream>) -> ServerSlot {
        let worker = Worker::for_test(Clock::system());
        ServerSlot::select(upstream, &worker, &RequestKey::default(), &[], None).await.unwrap()
    }

    /// Regression test: closed HTTP/2 connections were kept until an HTTP/1.1 connection became idle.
    #[tokio::test]
    async fn closed_http2_connection_is_forgotten() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Arc::new(Upstream::new(UpstreamConfig::new("a", [address.into()])));
        let connected = async {
            let slot = slot_of(&upstream).await;
            let shared = share(&slot, &Http2Config::default(), None).await.unwrap();
            assert!(!shared.is_reused());
            let again = share(&slot, &Http2Config::default(), None).await.unwrap();
            assert_eq!((again.is_reused(), again.number()), (true, shared.number()));
            assert_eq!(count_for_test(&slot.worker), 1);
            drop(listener.accept().unwrap());
            while count_for_test(&slot.worker) > 0 {
                yield_now().await;
            }
        };
        timeout(TEST_TIMEOUT, LocalSet::new().run_until(connected))
            .await
            .expect("the closed connection is still kept");
    }

    /// Regression test: a server went down, and its host name then had another address. Requests used the old
    /// connection for another 20 seconds.
    #[tokio::test]
    async fn connection_opened_before_an_outage_gets_no_new_requests() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Arc::new(Upstream::new(UpstreamConfig::new("a", [address.into()])));
        let connected = async {
            let slot = slot_of(&upstream).await;
            let before = share(&slot, &Http2Config::default(), None).await.unwrap();
            slot.server.health().set_down(true);
            slot.server.health().set_down(false);
            let after = share(&slot, &Http2Config::default(), None).await.unwrap();
            assert!(!after.is_reused() && after.number() > before.number());
            let again = share(&slot, &Http2Config::default(), None).await.unwrap();
            assert_eq!((again.is_reused(), again.number()), (true, after.number()));
        };
        timeout(TEST_TIMEOUT, LocalSet::new().run_until(connected)).await.unwrap();
    }

    /// If new requests could not share the old connection, they would wait until its last exchange ends.
    #[tokio::test]
    async fn old_connection_stays_shared_while_used_at_connections_max() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let http2 = Http2Config::default();
        let config = UpstreamConfig { http2: Some(http2), ..UpstreamConfig::new("a", [address.into()]) };
        let upstream = Arc::new(Upstream::new(UpstreamConfig { connections_max: 1, ..config }));
        let connected = async {
            let slot = slot_of(&upstream).await;
            let before = share(&slot, &http2, None).await.unwrap();
            let number = before.number();
            let request = RequestToSend::new(Method::Get, BodyLength::NONE);
            let head = |head: &mut Vec<u8>| head.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let exchange = before.start(request, Timeouts::default(), Duration::ZERO, head).unwrap();
            slot.server.health().set_down(true);
            let again = share(&slot, &http2, None).await.unwrap();
            assert_eq!(again.number(), number);
            drop((exchange, again));
            let after = share(&slot, &http2, None).await.unwrap();
            assert!(!after.is_reused() && after.number() > number);
        };
        timeout(TEST_TIMEOUT, LocalSet::new().run_until(connected)).await.unwrap();
    }
}
