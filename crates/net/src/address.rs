//! Where a server listens and who its clients are.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen: `127.0.0.1:8080`, `[::1]:8080`, or `unix:/run/thruway.sock`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ListenAddr {
    /// An IP address and a TCP port; port 0 lets the system choose one.
    Tcp(SocketAddr),
    /// The path of a Unix domain socket.
    Unix(PathBuf),
}

/// Who is at the other end of an accepted connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientAddr {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A process on this machine; Unix domain sockets have no addresses worth telling.
    Unix,
}

impl ClientAddr {
    /// The client's IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix => None,
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

/// Text that is no address to listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidListenAddr(String);

impl InvalidListenAddr {
    /// What to write instead.
    pub const HINT: &str = "an address is `IP:PORT`, as `127.0.0.1:8080` or `[::1]:8080`, or `unix:PATH`";
}

impl fmt::Display for InvalidListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an address to listen on", self.0)
    }
}

impl std::error::Error for InvalidListenAddr {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
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
