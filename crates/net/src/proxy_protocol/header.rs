//! The header of the PROXY protocol, in no version yet.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// What a header tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProxyHeader {
    /// Nothing: the connection is the proxy's own, or it does not know whose it is (`LOCAL`, `UNKNOWN`).
    Local,
    /// A TCP client.
    Tcp {
        /// The client.
        source: SocketAddr,
        /// Where the client has connected to.
        destination: SocketAddr,
    },
    /// A client on the proxy's machine; Unix domain sockets have no addresses worth telling.
    Unix,
}

/// How a header is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyVersion {
    /// As a line of text.
    V1,
    /// Binary.
    V2,
}

/// Why octets are no header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidProxyHeader {
    /// Addresses or ports are not what the header says they are (§2.1, §2.2).
    Address,
    /// The command is neither `LOCAL` nor `PROXY` (§2.2).
    Command,
    /// The family of the addresses is none that there is (§2.1, §2.2).
    Family,
    /// A line of version 1 has no end within 107 octets (§2.1).
    LineTooLong,
    /// There is no header (§2).
    Missing,
    /// A header of version 2 has more additional fields than are accepted.
    TooLong,
    /// The version is none that there is (§2.2).
    Version,
}

impl ProxyHeader {
    /// The same with addresses of one family, as a header has only one: that of IPv4 if both have such an
    /// address.
    pub(super) fn of_one_family(self) -> Self {
        let Self::Tcp { source, destination } = self else { return self };
        let is_v4 = [source, destination].iter().all(|address| address.ip().to_canonical().is_ipv4());
        let convert = |address: SocketAddr| {
            let ip = match address.ip() {
                IpAddr::V4(ip) if !is_v4 => IpAddr::V6(ip.to_ipv6_mapped()),
                ip if is_v4 => ip.to_canonical(),
                ip => ip,
            };
            SocketAddr::new(ip, address.port())
        };
        Self::Tcp { source: convert(source), destination: convert(destination) }
    }
}

/// Whether `octets` may still become something that begins with `start`.
pub(super) fn may_begin_with(octets: &[u8], start: &[u8]) -> bool {
    let length = octets.len().min(start.len());
    octets[..length] == start[..length]
}

impl fmt::Display for InvalidProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "addresses or ports are not what the header says they are",
            Self::Command => "the command is not known",
            Self::Family => "the family of the addresses is not known",
            Self::LineTooLong => "the line has no end",
            Self::Missing => "there is no header",
            Self::TooLong => "the header is too long",
            Self::Version => "the version is not known",
        })
    }
}

impl std::error::Error for InvalidProxyHeader {}
