//! Connections to receivers of log lines: Unix sockets, UDP and TCP. All operations have short timeouts, so
//! that the thread of the log remains responsive.

use std::fmt;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketType};
use thruway_net::{Admitted, LogLimit};

/// Address of a receiver of log lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LogAddress {
    UnixStream(PathBuf),
    UnixDatagram(PathBuf),
    Udp(String),
    Tcp(String),
}

/// An open connection to a receiver of log lines.
#[derive(Debug)]
pub(super) enum LogConnection {
    UnixStream(UnixStream),
    UnixDatagram(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl LogAddress {
    pub(super) fn connect(&self) -> io::Result<LogConnection> {
        Ok(match self {
            Self::UnixStream(path) => LogConnection::UnixStream(connect_unix(path)?),
            Self::UnixDatagram(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                LogConnection::UnixDatagram(socket)
            }
            Self::Udp(name) => LogConnection::Udp(first_success(name, connect_udp)?),
            Self::Tcp(name) => LogConnection::Tcp(first_success(name, connect_tcp)?),
        })
    }
}

impl fmt::Display for LogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnixStream(path) | Self::UnixDatagram(path) => write!(f, "unix:{}", path.display()),
            Self::Udp(name) => write!(f, "udp://{name}"),
            Self::Tcp(name) => write!(f, "tcp://{name}"),
        }
    }
}

impl LogConnection {
    /// Sends bytes of a stream, or one datagram. Returns the number of sent bytes.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::UnixStream(stream) => stream.write(bytes),
            Self::UnixDatagram(socket) => socket.send(bytes),
            Self::Udp(socket) => socket.send(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    pub(super) const fn is_stream(&self) -> bool {
        matches!(self, Self::UnixStream(_) | Self::Tcp(_))
    }

    /// Returns `true` if the receiver has closed the connection. Without this check, the first write after
    /// the close would succeed, and its lines would be lost. Discards bytes from the receiver.
    pub(super) fn is_closed(&self) -> bool {
        let stream = match self {
            Self::UnixStream(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::UnixDatagram(_) | Self::Udp(_) => return false,
        };
        let mut discarded = [0; 512];
        // A receiver that sends without end must not keep the thread here.
        for _ in 0..DISCARDED_READS_MAX {
            match rustix::net::recv(stream, &mut discarded[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return true,
                Ok(_) => {}
                Err(error) => return !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
            }
        }
        false
    }
}

/// Connects to the Unix socket at `path`. The timeout also limits the connect, because the system waits
/// while the queue of the receiver is full.
fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(SEND_TIMEOUT))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

fn connect_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok(socket)
}

fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    // Without this timeout, the system reports a receiver that left the network after 15 minutes.
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(&stream, u32::try_from(DEAD_AFTER.as_millis()).unwrap_or(u32::MAX))?;
    Ok(stream)
}

/// Calls `connect` with each address of `name` (`HOST:PORT`) until a call succeeds.
fn first_success<T>(name: &str, connect: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut failure = io::Error::other("the name has no address");
    for address in name.to_socket_addrs()? {
        match connect(address) {
            Ok(connected) => return Ok(connected),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

const DISCARDED_READS_MAX: usize = 64;
const SEND_TIMEOUT: Duration = Duration::from_millis(100);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
#[cfg(target_os = "linux")]
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Returns the number of complete lines.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').skip(1).count() as u64
}

/// Logs a failure of a log, with a limited rate, because under load a write could fail many times
/// per second.
#[cold]
pub(super) fn log_failure(error: &io::Error, action: &str) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, suppressed, "{action}");
    }
}
