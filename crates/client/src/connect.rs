//! Connecting to an upstream server.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use thruway_net::tls::{TlsConnector, TlsFailure, TlsServerName, connect_tls};
use thruway_net::{Clock, Stream, Transport};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::time::timeout;

use crate::address::Place;
use crate::{Retry, Side, UpstreamAddr, UpstreamStream};

/// Connects to `address` in at most the time `within`. Sets `TCP_NODELAY`, so that written data is sent
/// at once.
///
/// # Errors
/// Returns an error if the connection fails, or takes longer than `within`.
///
/// # Cancel safety
/// Dropping the future cancels the attempt.
pub async fn connect(address: &UpstreamAddr, within: Duration) -> Result<Stream, ConnectError> {
    match timeout(within, connect_socket(address)).await {
        Ok(outcome) => outcome.map_err(|error| ConnectError::from_io(&error)),
        Err(_) => Err(ConnectError::TimedOut),
    }
}

/// Connects like [`connect`], for a protocol in which the client speaks first, such as HTTP or TLS. The kernel
/// acknowledges the connection together with the first bytes of the client. This saves a packet for each
/// connection. If the caller writes nothing, the server sees the connection only after about 40 ms.
///
/// # Errors
/// Returns the same errors as [`connect`].
///
/// # Cancel safety
/// Dropping the future cancels the attempt.
pub async fn connect_to_speak_first(
    address: &UpstreamAddr,
    within: Duration,
) -> Result<Stream, ConnectError> {
    let connected = async {
        match &address.0 {
            Place::Tcp(address) => connect_with_first_bytes(*address).await.map(Stream::from),
            Place::Unix(_) => connect_socket(address).await,
        }
    };
    match timeout(within, connected).await {
        Ok(outcome) => outcome.map_err(|error| ConnectError::from_io(&error)),
        Err(_) => Err(ConnectError::TimedOut),
    }
}

/// Connects like [`connect`], and writes `first` before any request. Use this function for data about the
/// connection, such as a PROXY protocol header.
///
/// # Errors
/// Returns an error if connecting or writing fails, or takes longer than `within`.
///
/// # Cancel safety
/// Dropping the future cancels the attempt.
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

/// Tries `addresses` one after the other, and returns the first connection that succeeds. Each attempt
/// gets an equal share of the remaining time, so that an unresponsive address leaves time for the other
/// addresses.
///
/// # Errors
/// Returns the error of each address.
///
/// # Cancel safety
/// Dropping the future cancels the attempt.
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

/// Performs the TLS handshake on `stream` in at most the time `within`. The server must have a
/// certificate for `server_name`.
///
/// # Errors
/// Returns an error if the certificate is invalid, the server does not use TLS, or the handshake takes
/// too long.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub async fn secure(
    stream: Stream,
    connector: &TlsConnector,
    server_name: &TlsServerName,
    within: Duration,
) -> Result<UpstreamStream, ConnectError> {
    secure_for(stream, connector, server_name, None, within).await
}

/// Performs the TLS handshake like [`secure`], but offers `protocols` (ALPN) instead of the connector's
/// protocols.
///
/// # Errors
/// Returns the same errors as [`secure`]. Also returns an error if the server supports none of
/// `protocols`.
///
/// # Cancel safety
/// Dropping the future closes the connection.
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

/// Connects a TCP socket. The kernel waits for the first written bytes before it acknowledges the connection.
async fn connect_with_first_bytes(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_nodelay(true)?;
    // The option is only an optimization, so the connection also works if the system refuses the option.
    let _ = sockopt::set_tcp_quickack(&socket, false);
    socket.connect(address).await
}

/// The reason that no connection was established. No byte of the request was sent, so the caller may send
/// any request to another server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The process or the system has no free file descriptors.
    DescriptorsExhausted,
    /// This machine has no free port, or no suitable address to connect from.
    LocalAddressUnavailable,
    /// The maximum number of connections is open, and no connection became free in time.
    ConnectionLimit,
    /// Another error of the operating system.
    Other(io::ErrorKind),
    /// A firewall or the permissions of a Unix socket forbid the connection.
    PermissionDenied,
    /// The upstream server refused the connection: no process listens on the address.
    Refused,
    /// The Unix socket does not exist.
    SocketNotFound,
    /// The connection was not established in time.
    TimedOut,
    /// The connection was established, but the TLS handshake failed.
    Tls(TlsFailure),
    /// The address is unreachable.
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

    /// Returns the side that caused the error.
    pub const fn side(self) -> Side {
        match self {
            Self::DescriptorsExhausted
            | Self::LocalAddressUnavailable
            | Self::ConnectionLimit
            | Self::PermissionDenied => Side::Local,
            Self::Other(_)
            | Self::Refused
            | Self::SocketNotFound
            | Self::TimedOut
            | Self::Tls(_)
            | Self::Unreachable => Side::Upstream,
        }
    }

    /// Returns [`Retry::Always`] for all errors except `ConnectionLimit`, because no byte of the request was
    /// sent. With `ConnectionLimit`, the request has already waited for a free connection, so it must not be
    /// sent again.
    pub const fn retry(self) -> Retry {
        match self {
            Self::ConnectionLimit => Retry::Never,
            _ => Retry::Always,
        }
    }

    /// Returns `true` if the error is a timeout. A gateway responds to a timeout with 504, and to other
    /// errors with 502.
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::TimedOut | Self::Tls(TlsFailure::TimedOut))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DescriptorsExhausted => f.write_str("no file descriptors are free"),
            Self::LocalAddressUnavailable => f.write_str("no local address or port is free"),
            Self::ConnectionLimit => f.write_str("the maximum number of connections is open"),
            Self::Other(kind) => kind.fmt(f),
            Self::PermissionDenied => f.write_str("permission denied"),
            Self::Refused => f.write_str("connection refused"),
            Self::SocketNotFound => f.write_str("the Unix socket does not exist"),
            Self::TimedOut => f.write_str("the connection attempt timed out"),
            Self::Tls(failure) => failure.fmt(f),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// The error of each address, in the order of the attempts. The list is empty if there was no address to
/// connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectFailures(Vec<(UpstreamAddr, ConnectError)>);

impl ConnectFailures {
    /// Returns the addresses with their errors.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&UpstreamAddr, ConnectError)> {
        self.0.iter().map(|(address, error)| (address, *error))
    }

    /// Returns the side that caused the errors. The result is `Local` only if all errors are local.
    pub fn side(&self) -> Side {
        let is_local = self.iter().all(|(_, error)| error.side() == Side::Local);
        if is_local && !self.0.is_empty() { Side::Local } else { Side::Upstream }
    }
}

impl fmt::Display for ConnectFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no address to connect to");
        }
        for (place, (address, error)) in self.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{address}: {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectFailures {}
