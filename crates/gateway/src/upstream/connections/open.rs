//! A connection for a request, in the version that its server speaks.

use std::time::Duration;

use thruway_client::{ConnectError, Connection, Error, RequestToSend};
use tokio::time::timeout;

use crate::Failure;
use crate::upstream::connections::pool::connect_secured;
use crate::upstream::connections::shared::{NotOpened, SharedConnection, share};
use crate::upstream::{Exchange, Lease};

/// A connection on which an exchange can begin.
pub(crate) enum Acquired {
    /// One that no other request has.
    Http1(Connection),
    /// One that others share. In a box, so that requests on those that are not shared have no room for it.
    Http2(Box<SharedConnection>),
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Purpose {
    /// One that is shared was opened later than the one of this number.
    pub(crate) later_than: Option<u64>,
    /// Whether it, or a part of it, is to become a tunnel.
    pub(crate) is_upgrade: bool,
}

/// A connection to the leased server, unless there is one only when nothing is `left` of the request's time.
pub(crate) async fn open_within(
    left: Option<Duration>,
    lease: &Lease,
    purpose: Purpose,
) -> Result<Acquired, NotOpened> {
    let Some(left) = left else { return open(lease, purpose).await };
    timeout(left, open(lease, purpose)).await.unwrap_or_else(|_| Err(not_opened(Error::TimedOut)))
}

async fn open(lease: &Lease, purpose: Purpose) -> Result<Acquired, NotOpened> {
    let config = &lease.upstream.config;
    let Some(http2) = &config.http2 else { return open_http1(lease, None).await };
    loop {
        let mut acquired = share(lease, http2, purpose.later_than).await?;
        let Acquired::Http2(shared) = &mut acquired else { return Ok(acquired) };
        if !purpose.is_upgrade {
            return Ok(acquired);
        }
        if !takes_upgrades(lease, shared).await? {
            break;
        }
        // Others may have waited for the same settings, and taken the room.
        if !shared.is_reused || shared.connection.has_room() {
            return Ok(acquired);
        }
    }
    // Where both versions are spoken, the other one has upgrades.
    if !config.negotiates_http2 {
        return Err(not_opened(Failure::UpgradeUnsupported));
    }
    open_http1(lease, Some(&[b"http/1.1"])).await
}

/// A new connection for this request alone, with these protocols on offer or those of the config.
async fn open_http1(lease: &Lease, protocols: Option<&[&[u8]]>) -> Result<Acquired, NotOpened> {
    match connect_secured(lease, protocols).await {
        Ok(stream) => Ok(Acquired::Http1(Connection::new(stream, &lease.upstream.config.exchange))),
        Err(ConnectError::Tls(failure)) if protocols.is_some() && failure.is_no_protocol() => {
            Err(not_opened(Failure::UpgradeUnsupported))
        }
        Err(error) => Err(not_opened(error)),
    }
}

/// Whether the server takes upgrades over HTTP/2. On a new connection it has to say so first.
async fn takes_upgrades(lease: &Lease, shared: &SharedConnection) -> Result<bool, NotOpened> {
    let said = timeout(lease.upstream.config.connect_timeout, shared.connection.takes_upgrades()).await;
    said.map_err(|_| not_opened(ConnectError::TimedOut))?.map_err(not_opened)
}

fn not_opened(failure: impl Into<Failure>) -> NotOpened {
    NotOpened { failure: failure.into(), is_counted: false }
}

impl Acquired {
    /// That of a shared connection; those that are opened later have higher ones.
    pub(crate) const fn number(&self) -> u64 {
        match self {
            Self::Http1(_) => 0,
            Self::Http2(shared) => shared.number,
        }
    }

    /// Whether other requests were sent on it.
    pub(crate) const fn is_reused(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.exchanges() > 0,
            Self::Http2(shared) => shared.is_reused,
        }
    }

    /// Begins an exchange. `write` appends the octets of the request's head, and of content that is there already.
    pub(crate) fn start(
        self,
        request: RequestToSend,
        now: Duration,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Exchange, Error> {
        match self {
            Self::Http1(connection) => Ok(Exchange::Http1(connection.start(request, now, write))),
            Self::Http2(mut shared) => {
                shared.connection.start(request, now, write).map(Box::new).map(Exchange::Http2)
            }
        }
    }
}
