//! Addresses of listeners and clients.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a listener: `127.0.0.1:8080`, `[::1]:8080`, or `unix:/run/thruway.sock`.
///
/// ```
/// use std::path::PathBuf;
///
/// use thruway_net::ListenAddr;
///
/// let path = PathBuf::from("/run/thruway.sock");
/// assert_eq!("unix:/run/thruway.sock".parse(), Ok(ListenAddr::Unix(path)));
/// assert!("localhost:80".parse::<ListenAddr>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ListenAddr {
    /// An IP address and a TCP port. With port 0, the system chooses the port.
    Tcp(SocketAddr),
    /// The path of a Unix domain socket.
    Unix(PathBuf),
}

/// The address of the client of an accepted connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientAddr {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A client on this machine that has connected over a Unix domain socket. Clients of Unix domain
    /// sockets have no useful address.
    Unix,
}

impl ClientAddr {
    /// Returns the IP address of a TCP client, or `None` for a client of a Unix domain socket.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix => None,
        }
    }
}

impl ListenAddr {
    /// Returns `true` if clients on other machines can connect to the address.
    ///
    /// ```
    /// use thruway_net::ListenAddr;
    ///
    /// let is_remote = |text: &str| text.parse::<ListenAddr>().unwrap().is_remote();
    /// assert!(is_remote("0.0.0.0:80") && is_remote("[::ffff:0.0.0.0]:80"));
    /// assert!(!is_remote("[::1]:80") && !is_remote("[::ffff:127.0.0.1]:80") && !is_remote("unix:/run/a"));
    /// ```
    pub const fn is_remote(&self) -> bool {
        match self {
            Self::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

impl FromStr for ListenAddr {
    type Err = InvalidListenAddr;

    fn from_str(text: &str) -> Result<Self, InvalidListenAddr> {
        match text.strip_prefix("unix:") {
            Some("") => Err(InvalidListenAddr(text.to_owned())),
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => text.parse().map(Self::Tcp).map_err(|_| InvalidListenAddr(text.to_owned())),
        }
    }
}

impl From<SocketAddr> for ListenAddr {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for ClientAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix:"),
        }
    }
}

/// Error: a text is not a listener address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidListenAddr(String);

impl InvalidListenAddr {
    /// Hint that shows the operator the valid forms of an address.
    pub const HINT: &str =
        "write an address as `IP:PORT`, such as `127.0.0.1:8080` or `[::1]:8080`, or as `unix:PATH`";
}

impl fmt::Display for InvalidListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a listener address", self.0)
    }
}

impl std::error::Error for InvalidListenAddr {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_round_trip_through_text() {
        for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/a b.sock", "unix:relative"] {
            assert_eq!(text.parse::<ListenAddr>().unwrap().to_string(), text);
        }
        for bad in
            ["", "8080", "localhost:80", "127.0.0.1", "127.0.0.1:65536", "::1:80", "unix:", "1.2.3.4:-1"]
        {
            assert!(bad.parse::<ListenAddr>().is_err(), "{bad}");
        }
    }
}
