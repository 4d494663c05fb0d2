//! What is done with the connections of one listener.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use thruway_net::{Accepted, ClientAddr, ListenAddr, ProxyHeader, ReceiveError, receive_proxy_header, spawn};

use crate::{ConnectionDriver, ConnectionInfo};

/// Where to listen, and what is done with connections there: HTTP unless something else is said.
#[derive(Clone)]
pub struct Listener {
    pub(crate) address: ListenAddr,
    proxy_protocol: Option<ProxyProtocol>,
}

/// Connections begin with a header of the PROXY protocol, version 1 or 2, which tells who the client is. It must come
/// within [`header_section`](crate::Timeouts::header_section); connections without are closed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ProxyProtocol {
    /// The networks whose headers are believed; connections from others are closed unread. Empty, which is the default, for all:
    /// then nobody but proxies should get there. Processes of this machine that come by a Unix socket are always believed.
    pub from: Vec<IpNet>,
}

impl Listener {
    /// HTTP at `address`.
    pub const fn new(address: ListenAddr) -> Self {
        Self { address, proxy_protocol: None }
    }

    /// Has connections begin with a header of the PROXY protocol: the [client](ConnectionInfo::client) is who it tells.
    #[must_use]
    pub fn proxy_protocol(self, proxy_protocol: ProxyProtocol) -> Self {
        Self { proxy_protocol: Some(proxy_protocol), ..self }
    }
}

impl Listener {
    /// The same, at the address that the system has chosen.
    pub(crate) fn bound_at((listener, address): (Self, &ListenAddr)) -> Self {
        Self { address: address.clone(), ..listener }
    }
}

impl ProxyProtocol {
    fn believes(&self, client: ClientAddr) -> bool {
        let contains = |ip: IpAddr| self.from.iter().any(|network| network.contains(&ip.to_canonical()));
        self.from.is_empty() || client.ip().is_none_or(contains)
    }
}

/// Drives one connection as a task of its own.
#[inline]
pub(crate) fn serve(accepted: Accepted, listener: &Listener, driver: &ConnectionDriver) {
    match &listener.proxy_protocol {
        None => {
            let info = info_of(&accepted, &listener.address);
            spawn(driver.drive(accepted.stream, info, accepted.guard));
        }
        Some(proxy_protocol) => serve_behind_proxy(accepted, listener, proxy_protocol, driver),
    }
}

fn serve_behind_proxy(
    mut accepted: Accepted,
    listener: &Listener,
    proxy_protocol: &ProxyProtocol,
    driver: &ConnectionDriver,
) {
    let proxy = accepted.client;
    if !proxy_protocol.believes(proxy) {
        return tracing::warn!(%proxy, "a connection from where no PROXY header is believed was closed");
    }
    let mut info = info_of(&accepted, &listener.address);
    let driver = driver.clone();
    spawn(async move {
        let within = driver.timeouts().header_section;
        let worker = accepted.guard.worker().clone();
        match receive_proxy_header(&mut accepted.stream, &worker, within).await {
            Ok((header, early)) => {
                info.be_told(header);
                driver.drive_from(accepted.stream, early, info, accepted.guard).await;
            }
            // As those do that only look whether somebody listens.
            Err(ReceiveError::Ended) => tracing::debug!(%proxy, "a connection ended without a PROXY header"),
            Err(reason) => {
                tracing::warn!(%proxy, %reason, "a connection without a usable PROXY header was closed");
            }
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
