//! The header of the PROXY protocol, independent of the protocol version.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Contents of a PROXY header: the client of the proxy.
///
/// ```
/// use thruway_net::{ProxyHeader, ProxyVersion};
///
/// let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";
/// let Some((header, length)) = ProxyHeader::parse(line)? else { panic!("the header is complete") };
/// assert_eq!(length, line.len());
/// let mut output = Vec::new();
/// header.write(ProxyVersion::V1, &mut output);
/// assert_eq!(output, line);
/// # Ok::<_, thruway_net::InvalidProxyHeader>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProxyHeader {
    /// The header names no client (`LOCAL`, `UNKNOWN`). Either the proxy has opened the connection for its
    /// own purposes, such as a health check, or the proxy does not know its client.
    Local,
    /// A TCP client.
    Tcp {
        /// The address of the client.
        source: SocketAddr,
        /// The address to which the client has connected. This is an address of the proxy.
        destination: SocketAddr,
    },
    /// A client that is connected to the proxy over a Unix domain socket. Clients of Unix domain sockets
    /// have no useful address.
    Unix,
}

/// Version of the PROXY protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyVersion {
    /// Version 1: the header is a line of text.
    V1,
    /// Version 2: the header is binary.
    V2,
}

/// Reason why bytes are not a valid PROXY header. The section numbers refer to the specification of the
/// PROXY protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidProxyHeader {
    /// An address or port does not match the address family in the header (§2.1, §2.2).
    Address,
    /// The command is neither `LOCAL` nor `PROXY` (§2.2).
    Command,
    /// The address family is unknown (§2.1, §2.2).
    Family,
    /// A header of version 1 is longer than 107 bytes (§2.1).
    LineTooLong,
    /// The bytes do not start with a header (§2).
    Missing,
    /// In a header of version 2, the addresses and the additional fields together exceed 4 KiB.
    TooLong,
    /// The version is unknown (§2.2).
    Version,
}

impl ProxyHeader {
    /// Converts both addresses to one address family, because a header states only one family. Uses IPv4 if
    /// both addresses are IPv4 addresses or IPv4-mapped IPv6 addresses, and otherwise IPv6.
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

/// Returns `true` if `bytes` starts with `start`, or if `bytes` is shorter and equals the beginning of
/// `start`.
pub(super) fn may_begin_with(bytes: &[u8], start: &[u8]) -> bool {
    let length = bytes.len().min(start.len());
    bytes[..length] == start[..length]
}

impl fmt::Display for InvalidProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "the PROXY header has invalid addresses or ports",
            Self::Command => "the PROXY header has an unknown command",
            Self::Family => "the PROXY header has an unknown address family",
            Self::LineTooLong => "the PROXY header line is too long",
            Self::Missing => "the PROXY header is missing",
            Self::TooLong => "the PROXY header is too long",
            Self::Version => "the PROXY header has an unknown version",
        })
    }
}

impl std::error::Error for InvalidProxyHeader {}
