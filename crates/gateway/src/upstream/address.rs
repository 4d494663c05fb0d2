//! Addresses of servers in the config.

use std::fmt;
use std::str::FromStr;

use thruway_client::UpstreamAddr;

/// Address of a server: `192.0.2.1:8080`, `[2001:db8::1]:8080` or `unix:/run/backend.sock`. A host name with
/// a port, such as `backend.example:8080`, stands for all addresses of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerAddr {
    /// An IP address with a port, or the path of a Unix socket.
    Address(UpstreamAddr),
    /// A host name that the gateway resolves with DNS.
    Name {
        /// The host name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl ServerAddr {
    /// Returns the host and port of the server for a URI. For a Unix socket, returns `localhost`.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Address(address) if address.tcp().is_none() => "localhost".to_owned(),
            named => named.to_string(),
        }
    }

    /// Returns the host name or IP address of the server, without a port, as in a certificate. For a Unix
    /// socket, returns `localhost`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Address(address) => match address.tcp() {
                Some(address) => address.ip().to_string(),
                None => "localhost".to_owned(),
            },
            Self::Name { host, .. } => host.clone(),
        }
    }
}

impl From<UpstreamAddr> for ServerAddr {
    fn from(address: UpstreamAddr) -> Self {
        Self::Address(address)
    }
}

impl FromStr for ServerAddr {
    type Err = InvalidServerAddr;

    fn from_str(text: &str) -> Result<Self, InvalidServerAddr> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let invalid = || InvalidServerAddr(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        match port.parse() {
            Ok(port) if port > 0 && is_name(host) => Ok(Self::Name { host: host.to_owned(), port }),
            _ => Err(invalid()),
        }
    }
}

/// Returns `true` if `host` can be a DNS name. Accepts underscores, because some existing names contain them.
/// If the last label is a number, the text is not a host name, but possibly an IP address (RFC 1123 §2.1).
fn is_name(host: &str) -> bool {
    let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_byte);
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= 253 && host.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for ServerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// The error for a text that is neither an address nor a host name with a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidServerAddr(String);

impl InvalidServerAddr {
    /// Hint that shows the user how to write a server.
    pub const HINT: &str =
        "write a server as `IP:PORT` (`127.0.0.1:8080`, `[::1]:8080`), `NAME:PORT` or `unix:PATH`";
}

impl fmt::Display for InvalidServerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not the address of a server", self.0.escape_debug())
    }
}

impl std::error::Error for InvalidServerAddr {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_addresses_round_trip_through_text() {
        for (text, is_address) in [
            ("127.0.0.1:8080", true),
            ("[::1]:80", true),
            ("unix:/run/a.sock", true),
            ("localhost:80", false),
            ("backend_1.example.:8080", false),
        ] {
            let address: ServerAddr = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(matches!(address, ServerAddr::Address(_)), is_address, "{text}");
        }
        for bad in [
            "",
            "a",
            "a:",
            "a:0",
            "a:65536",
            ":80",
            "a..b:80",
            "256.1.1.1:80",
            "::1:80",
            "a b:80",
            "http://a:80",
        ] {
            assert!(bad.parse::<ServerAddr>().is_err(), "{bad}");
        }
    }
}
