//! The PROXY protocol, versions 1 and 2: the header in which a proxy tells who its client is, before the first octet of
//! anything else. Additional fields (TLVs) of version 2 are passed over; checksums among them are not looked at.
//!
//! <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>

mod v1;
mod v2;
mod receive;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

pub use receive::{ReceiveError, receive_proxy_header};

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
    /// Reads the header at the start of `octets`, and how long it is; `None` if it has not wholly arrived.
    ///
    /// # Errors
    /// There is none, or it breaks a rule.
    pub fn parse(octets: &[u8]) -> Result<Option<(Self, usize)>, InvalidProxyHeader> {
        match octets.first() {
            None => Ok(None),
            Some(b'P') => v1::parse(octets),
            Some(b'\r') => v2::parse(octets),
            Some(_) => Err(InvalidProxyHeader::Missing),
        }
    }

    /// Appends the header to `output`.
    pub fn write(self, version: ProxyVersion, output: &mut Vec<u8>) {
        match version {
            ProxyVersion::V1 => v1::write(self.of_one_family(), output),
            ProxyVersion::V2 => v2::write(self.of_one_family(), output),
        }
    }

    /// The same with addresses of one family, as a header has only one: that of IPv4 if both have such an address.
    fn of_one_family(self) -> Self {
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
fn may_begin_with(octets: &[u8], start: &[u8]) -> bool {
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
