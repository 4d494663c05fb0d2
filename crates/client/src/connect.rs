//! Connecting to an upstream.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::time::Duration;

use rustix::io::Errno;
use thruway_net::tls::{TlsConnector, TlsFailure, TlsServerName, connect_tls};
use thruway_net::{Clock, Stream, Transport};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::address::Place;
use crate::{Retry, Side, UpstreamAddr, UpstreamStream};

/// Connects to `address` within `within`. What is written goes out at once (`TCP_NODELAY`).
///
/// # Errors
/// The upstream does not accept in time, or at all.
///
/// # Cancel safety
/// If the future is dropped, the attempt is given up.
pub async fn connect(address: &UpstreamAddr, within: Duration) -> Result<Stream, ConnectError> {
    match timeout(within, connect_socket(address)).await {
        Ok(outcome) => outcome.map_err(|error| ConnectError::from_io(&error)),
        Err(_) => Err(ConnectError::TimedOut),
    }
}

/// Connects as [`connect`], and writes `first` before anything else: what tells the upstream about the
/// connection, as a header of the PROXY protocol does, and is no part of a request.
///
/// # Errors
/// The upstream does not accept in time, or at all, or not what is written.
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_and_write(
    address: &UpstreamAddr,
    first: &[u8],
    within: Duration,
) -> Result<Stream, ConnectError> {
    let connected = async {
        let mut stream = connect_socket(address).await?;
        let mut left = first;
        while !left.is_empty() {
            match poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(left)])).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => left = &left[written..],
            }
        }
        Ok(stream)
    };
    match timeout(within, connected).await {
        Ok(outcome) => outcome.map_err(|error| ConnectError::from_io(&error)),
        Err(_) => Err(ConnectError::TimedOut),
    }
}

/// Connects to the first of `addresses` that accepts. They are tried in turn, each with an equal share of the
/// time that is left: one that does not answer leaves some for the others.
///
/// # Errors
/// What was wrong with each of them.
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_any(
    addresses: &[UpstreamAddr],
    within: Duration,
) -> Result<(Stream, &UpstreamAddr), ConnectFailures> {
    let end = Clock::system().now_exact() + within;
    let mut failures = Vec::new();
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = end.saturating_sub(Clock::system().now_exact()) / left;
        let error = match timeout(share, connect_socket(address)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => ConnectError::from_io(&error),
            Err(_) => ConnectError::TimedOut,
        };
        failures.push((address.clone(), error));
    }
    Err(ConnectFailures(failures))
}

/// Speaks TLS on `stream` with the server, which must have a certificate for `server_name`. The handshake has
/// the time `within`.
///
/// # Errors
/// The server is not who it should be, does not speak TLS, or not in time.
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
pub async fn secure(
    stream: Stream,
    connector: &TlsConnector,
    server_name: &TlsServerName,
    within: Duration,
) -> Result<UpstreamStream, ConnectError> {
    secure_for(stream, connector, server_name, None, within).await
}

/// The same, with these `protocols` on offer (ALPN) in the place of those of the connector.
///
/// # Errors
/// As [`secure`], and the server speaks none of them.
///
/// # Cancel safety
/// As [`secure`].
pub async fn secure_for(
    stream: Stream,
    connector: &TlsConnector,
    server_name: &TlsServerName,
    protocols: Option<&[&[u8]]>,
    within: Duration,
) -> Result<UpstreamStream, ConnectError> {
    match timeout(within, connect_tls(stream, connector, server_name, protocols)).await {
        Ok(Ok(stream)) => Ok(UpstreamStream::Tls(Box::new(stream))),
        Ok(Err(error)) => Err(ConnectError::Tls(error.failure())),
        Err(_) => Err(ConnectError::Tls(TlsFailure::TimedOut)),
    }
}

async fn connect_socket(address: &UpstreamAddr) -> io::Result<Stream> {
    match &address.0 {
        Place::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream.into())
        }
        Place::Unix(path) => UnixStream::connect(path).await.map(Stream::from),
    }
}

/// Why there is no connection. Nothing was sent, so that every request may be sent elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// No descriptors are left in the process or the system.
    DescriptorsExhausted,
    /// This machine has no port left, or no address to connect from.
    LocalAddressUnavailable,
    /// There are as many connections as there may be, and none became free in time.
    NoRoom,
    /// Something else, as the system calls it.
    Other(io::ErrorKind),
    /// This process may not: a firewall, or the permissions of a Unix socket.
    PermissionDenied,
    /// Nobody listens there.
    Refused,
    /// There is no Unix socket of that path.
    SocketNotFound,
    /// Nobody has answered in time.
    TimedOut,
    /// There is a connection, but none in TLS.
    Tls(TlsFailure),
    /// No way leads there.
    Unreachable,
}

impl ConnectError {
    fn from_io(error: &io::Error) -> Self {
        match (error.kind(), Errno::from_io_error(error)) {
            (_, Some(Errno::NFILE | Errno::MFILE)) => Self::DescriptorsExhausted,
            (io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse, _) => Self::LocalAddressUnavailable,
            (io::ErrorKind::PermissionDenied, _) => Self::PermissionDenied,
            (io::ErrorKind::ConnectionRefused, _) => Self::Refused,
            (io::ErrorKind::NotFound, _) => Self::SocketNotFound,
            (io::ErrorKind::TimedOut, _) => Self::TimedOut,
            (io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable, _) => Self::Unreachable,
            (kind, _) => Self::Other(kind),
        }
    }

    /// Whose fault it is.
    pub const fn side(self) -> Side {
        match self {
            Self::DescriptorsExhausted
            | Self::LocalAddressUnavailable
            | Self::NoRoom
            | Self::PermissionDenied => Side::Local,
            Self::Other(_)
            | Self::Refused
            | Self::SocketNotFound
            | Self::TimedOut
            | Self::Tls(_)
            | Self::Unreachable => Side::Upstream,
        }
    }

    /// Whether the request may be sent elsewhere: always, but where there was no room for it, which it has
    /// waited for.
    pub const fn retry(self) -> Retry {
        match self {
            Self::NoRoom => Retry::Never,
            _ => Retry::Always,
        }
    }

    /// Whether a deadline has passed: what a gateway answers with 504, where others are 502.
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::TimedOut | Self::Tls(TlsFailure::TimedOut))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DescriptorsExhausted => f.write_str("no descriptors are left"),
            Self::LocalAddressUnavailable => f.write_str("no local address or port is left"),
            Self::NoRoom => f.write_str("no room for another connection"),
            Self::Other(kind) => kind.fmt(f),
            Self::PermissionDenied => f.write_str("permission denied"),
            Self::Refused => f.write_str("connection refused"),
            Self::SocketNotFound => f.write_str("there is no such socket"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Tls(failure) => failure.fmt(f),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// What was wrong with each address, in the order in which they were tried; nothing if there was none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectFailures(Vec<(UpstreamAddr, ConnectError)>);

impl ConnectFailures {
    /// The addresses, and what was wrong with each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&UpstreamAddr, ConnectError)> {
        self.0.iter().map(|(address, error)| (address, *error))
    }

    /// Whose fault it is: ours only if it is nowhere another's.
    pub fn side(&self) -> Side {
        let is_local = self.iter().all(|(_, error)| error.side() == Side::Local);
        if is_local && !self.0.is_empty() { Side::Local } else { Side::Upstream }
    }
}

impl fmt::Display for ConnectFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("there is no address to connect to");
        }
        for (place, (address, error)) in self.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{address}: {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectFailures {}
