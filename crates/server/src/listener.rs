//! What is done with the connections of one listener.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use thruway_net::{
    Accepted, ClientAddr, ListenAddr, Networks, PooledBuffer, ProxyHeader, ReceiveError,
    receive_proxy_header, spawn,
};

use crate::streams::StreamRecords;
use crate::{ClientStream, ConnectionDriver, ConnectionInfo, ServeStream, TakeStreamRecord};

/// Where to listen, and what is done with connections there: HTTP unless something else is said.
#[derive(Clone)]
pub struct Listener {
    pub(crate) address: ListenAddr,
    proxy_protocol: Option<ProxyProtocol>,
    streams: Option<Arc<dyn ServeStream>>,
}

/// Connections begin with a header of the PROXY protocol, version 1 or 2, which tells who the client is. It must come
/// within [`header_section`](crate::Timeouts::header_section); connections without are closed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ProxyProtocol {
    /// The networks whose headers are believed; connections from others are closed unread. Empty, which is the default, for all:
    /// then nobody but proxies should get there. Processes of this machine that come by a Unix socket are always believed.
    pub from: Networks,
}

impl Listener {
    /// HTTP at `address`.
    pub const fn new(address: ListenAddr) -> Self {
        Self { address, proxy_protocol: None, streams: None }
    }

    /// Has connections begin with a header of the PROXY protocol: the [client](ConnectionInfo::client) is who it tells.
    #[must_use]
    pub fn proxy_protocol(self, proxy_protocol: ProxyProtocol) -> Self {
        Self { proxy_protocol: Some(proxy_protocol), ..self }
    }
}

impl Listener {
    /// Gives connections to `streams` instead of reading requests from them.
    #[must_use]
    pub fn streams(self, streams: Arc<dyn ServeStream>) -> Self {
        Self { streams: Some(streams), ..self }
    }

    pub(crate) const fn has_streams(&self) -> bool {
        self.streams.is_some()
    }

    /// The same, at the address that the system has chosen.
    pub(crate) fn bound_at((listener, address): (Self, &ListenAddr)) -> Self {
        Self { address: address.clone(), ..listener }
    }
}

impl ProxyProtocol {
    fn believes(&self, client: ClientAddr) -> bool {
        self.from.is_empty() || client == ClientAddr::Unix || self.from.contains(client)
    }
}

/// What drives the connections of one worker.
pub(crate) struct Drivers {
    http: ConnectionDriver,
    stream_records: Option<StreamRecords>,
}

impl Drivers {
    pub(crate) fn new(http: ConnectionDriver, streams: Option<TakeStreamRecord>) -> Self {
        Self { http, stream_records: streams.map(|take| Rc::new(RefCell::new(take))) }
    }
}

/// Drives one connection as a task of its own.
#[inline]
pub(crate) fn serve(accepted: Accepted, listener: &Listener, drivers: &Drivers) {
    let info = info_of(&accepted, &listener.address);
    match (&listener.proxy_protocol, &listener.streams) {
        (None, None) => spawn(drivers.http.drive(accepted.stream, info, accepted.guard)),
        (None, Some(streams)) => {
            let records = drivers.stream_records.clone();
            let Accepted { stream, guard, .. } = accepted;
            spawn(streams.serve(ClientStream::new(stream, PooledBuffer::default(), info, guard, records)));
        }
        (Some(proxy_protocol), _) => serve_behind_proxy(accepted, info, proxy_protocol, listener, drivers),
    }
}

fn serve_behind_proxy(
    accepted: Accepted,
    mut info: ConnectionInfo,
    proxy_protocol: &ProxyProtocol,
    listener: &Listener,
    drivers: &Drivers,
) {
    let Accepted { mut stream, client: proxy, guard, .. } = accepted;
    if !proxy_protocol.believes(proxy) {
        return tracing::warn!(%proxy, "a connection from where no PROXY header is believed was closed");
    }
    let (http, records) = (drivers.http.clone(), drivers.stream_records.clone());
    let streams = listener.streams.clone();
    spawn(async move {
        let within = http.timeouts().header_section;
        let early = match receive_proxy_header(&mut stream, guard.worker(), within).await {
            Ok((header, early)) => {
                info.be_told(header);
                early
            }
            // As those do that only look whether somebody listens.
            Err(ReceiveError::Ended) => {
                return tracing::debug!(%proxy, "a connection ended without a PROXY header");
            }
            Err(reason) => {
                return tracing::warn!(%proxy, %reason, "a connection without a usable PROXY header was closed");
            }
        };
        match streams {
            None => http.drive_from(stream, early, info, guard).await,
            Some(streams) => streams.serve(ClientStream::new(stream, early, info, guard, records)).await,
        }
    });
}

/// What is known of a connection before anything has come.
fn info_of(accepted: &Accepted, address: &ListenAddr) -> ConnectionInfo {
    let destination = match address {
        ListenAddr::Tcp(address) if !address.ip().is_unspecified() => Some(*address),
        ListenAddr::Tcp(_) => accepted.stream.local_address(),
        ListenAddr::Unix(_) => None,
    };
    ConnectionInfo { client: accepted.client, listener: accepted.listener, destination }
}

impl ConnectionInfo {
    /// Takes over what a proxy tells.
    fn be_told(&mut self, header: ProxyHeader) {
        (self.client, self.destination) = match header {
            ProxyHeader::Local => return,
            ProxyHeader::Tcp { source, destination } => (ClientAddr::Tcp(source), Some(destination)),
            ProxyHeader::Unix => (ClientAddr::Unix, None),
        };
    }
}

impl From<ListenAddr> for Listener {
    fn from(address: ListenAddr) -> Self {
        Self::new(address)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}
