//! The addresses of upstream servers.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address of an upstream server: `192.0.2.1:8080`, `[2001:db8::1]:8080`, or `unix:/run/backend.sock`.
/// Host names must be resolved first: see [`Resolve`](crate::Resolve).
///
/// ```
/// use thruway_client::UpstreamAddr;
///
/// let address: UpstreamAddr = "127.0.0.1:8080".parse()?;
/// assert_eq!(address.tcp(), Some(([127, 0, 0, 1], 8080).into()));
/// assert!("localhost:8080".parse::<UpstreamAddr>().is_err());
/// # Ok::<_, thruway_client::InvalidUpstreamAddr>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UpstreamAddr(pub(crate) Place);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl UpstreamAddr {
    /// Returns the address of the Unix socket at `path`.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self(Place::Unix(path.into()))
    }

    /// Returns the IP address and port, or `None` for a Unix socket.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match &self.0 {
            Place::Tcp(address) => Some(*address),
            Place::Unix(_) => None,
        }
    }

    /// Returns the path of the Unix socket, or `None` for an IP address.
    pub fn unix_path(&self) -> Option<&Path> {
        match &self.0 {
            Place::Tcp(_) => None,
            Place::Unix(path) => Some(path),
        }
    }
}

impl From<SocketAddr> for UpstreamAddr {
    fn from(address: SocketAddr) -> Self {
        Self(Place::Tcp(address))
    }
}

impl FromStr for UpstreamAddr {
    type Err = InvalidUpstreamAddr;

    fn from_str(text: &str) -> Result<Self, InvalidUpstreamAddr> {
        match text.strip_prefix("unix:") {
            Some("") => Err(InvalidUpstreamAddr(text.to_owned())),
            Some(path) => Ok(Self::unix(path)),
            None => text
                .parse()
                .map(|address| Self(Place::Tcp(address)))
                .map_err(|_| InvalidUpstreamAddr(text.to_owned())),
        }
    }
}

impl fmt::Display for UpstreamAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Tcp(address) => address.fmt(f),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The error for text that is not a valid address of an upstream server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidUpstreamAddr(String);

impl InvalidUpstreamAddr {
    /// A hint for the operator, with the valid forms of an address.
    pub const HINT: &str =
        "write an address as `IP:PORT`, such as `127.0.0.1:8080` or `[::1]:8080`, or as `unix:PATH`";
}

impl fmt::Display for InvalidUpstreamAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an address of an upstream server", self.0.escape_debug())
    }
}

impl std::error::Error for InvalidUpstreamAddr {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_through_text() {
        for text in ["127.0.0.1:8080", "[::1]:80", "unix:/run/a b.sock"] {
            let address: UpstreamAddr = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_ne!(address.tcp().is_some(), address.unix_path().is_some());
        }
        for bad in ["", "8080", "localhost:80", "127.0.0.1", "unix:", "::1:80"] {
            assert!(bad.parse::<UpstreamAddr>().is_err(), "{bad}");
        }
    }
}
