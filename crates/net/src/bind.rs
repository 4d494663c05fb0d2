//! Opens listening sockets.
//!
//! Each worker has a separate TCP listening socket. The sockets share one port with `SO_REUSEPORT`. The
//! kernel then distributes new connections to the workers, and wakes only the worker that gets the
//! connection.

use std::any::Any;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};
use socket2::SockRef;

use crate::address::ListenAddr;
use crate::listened::ListenerAddress;
use crate::unsent_limits::UNSENT_BYTES;

/// The listening sockets of one address. Dropping this value removes the file of a Unix socket.
#[derive(Debug)]
pub struct Bound {
    address: ListenAddr,
    /// For a TCP address, one socket for each worker. For a Unix path, a single socket.
    pub(crate) sockets: Vec<OwnedFd>,
    place: Registration,
    kept: Option<ListenerValue>,
    is_deferred: bool,
}

/// Registration of a listening address. Dropping this value removes the registration.
#[derive(Debug)]
pub(crate) enum Registration {
    Tcp(#[expect(dead_code, reason = "dropping the value has an effect")] ListenerAddress),
    Unix(#[expect(dead_code, reason = "dropping the value has an effect")] SocketPath),
}

/// A value that a caller has passed to [`Bound::keeping`].
pub(crate) type ListenerValue = Arc<dyn Any + Send + Sync>;

impl Bound {
    /// Returns the address. If the configured port was 0, the returned address has the port that the
    /// operating system chose.
    pub const fn address(&self) -> &ListenAddr {
        &self.address
    }

    /// Stores `kept` in the listener. After the listener has stopped and has passed its last accepted
    /// connection to the serving function, the listener drops `kept`.
    #[must_use]
    pub fn keeping(self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// Accepts a connection only after the client has sent data, or after about a second. Use this for
    /// protocols in which the client speaks first. It saves the system calls that wait for the data.
    #[must_use]
    pub fn deferred(self) -> Self {
        Self { is_deferred: true, ..self }
    }

    /// Returns `true` after a call of [`deferred`](Self::deferred).
    pub(crate) const fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    /// Returns the value that [`keeping`](Self::keeping) set.
    pub(crate) const fn kept(&self) -> Option<&ListenerValue> {
        self.kept.as_ref()
    }

    /// Returns the address, the sockets and the registration. The caller must keep the registration as long
    /// as it uses the sockets.
    pub(crate) fn into_parts(self) -> (ListenAddr, Vec<OwnedFd>, Registration) {
        (self.address, self.sockets, self.place)
    }
}

/// The file of a Unix socket. Dropping this value removes the file, unless another server has replaced the
/// file.
#[derive(Debug)]
pub(crate) struct SocketPath {
    path: PathBuf,
    id: FileId,
}

/// Identity of a file: device, inode and, if known, creation time. The creation time is included because
/// file systems soon reuse inode numbers.
type FileId = (u64, u64, Option<SystemTime>);

impl Drop for SocketPath {
    fn drop(&mut self) {
        if file_id(&self.path).is_ok_and(|id| id == self.id) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn file_id(path: &Path) -> io::Result<FileId> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino(), metadata.created().ok()))
}

/// Opens listening sockets for `address`: `sockets` sockets for a TCP address, or one Unix socket.
///
/// For each socket, `backlog` is the maximum number of connections that wait in the kernel until a worker
/// accepts them.
///
/// # Errors
/// The address cannot be used. The error contains the reason and a hint for the operator.
pub fn bind(address: &ListenAddr, sockets: usize, backlog: i32) -> Result<Bound, BindError> {
    let bound = match address {
        ListenAddr::Tcp(address) => bind_tcp(*address, sockets.max(1), backlog),
        ListenAddr::Unix(path) => bind_unix(path, backlog),
    };
    bound.map_err(|error| BindError {
        address: address.clone(),
        reason: BindReason::from(error.kind()),
        error,
    })
}

fn bind_tcp(address: SocketAddr, count: usize, backlog: i32) -> io::Result<Bound> {
    // Binds the first socket without `SO_REUSEPORT`, so that the call fails if another server uses the
    // port. With `SO_REUSEPORT`, both servers could bind the port and would share the connections.
    let first = tcp_socket(address)?;
    rustix::net::bind(&first, &address)?;
    sockopt::set_socket_reuseport(&first, true)?;
    let address = local_address(&first)?;
    let mut sockets = vec![first];
    for _ in 1..count {
        let socket = tcp_socket(address)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        sockets.push(socket);
    }
    for socket in &sockets {
        rustix::net::listen(socket, backlog)?;
    }
    let place = Registration::Tcp(ListenerAddress::new(address));
    Ok(Bound { address: ListenAddr::Tcp(address), sockets, place, kept: None, is_deferred: false })
}

fn tcp_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SOCKET_FLAGS, None)?;
    if address.is_ipv6() {
        // Accepts only IPv6 connections, so that listeners for `[::]` and `0.0.0.0` can use the same port.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // Allows a restarted server to bind the port immediately, while the kernel still remembers connections
    // of the previous server.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Sets these two options here, because accepted sockets inherit the options. Setting the options on
    // each accepted socket would cost two system calls for each connection.
    sockopt::set_tcp_nodelay(&socket, true)?;
    SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    Ok(socket)
}

fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket)?).map_err(io::Error::from)
}

fn bind_unix(path: &Path, backlog: i32) -> io::Result<Bound> {
    remove_stale(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SOCKET_FLAGS, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let place = Registration::Unix(SocketPath { path: path.to_owned(), id: file_id(path)? });
    rustix::net::listen(&socket, backlog)?;
    let address = ListenAddr::Unix(path.to_owned());
    Ok(Bound { address, sockets: vec![socket], place, kept: None, is_deferred: false })
}

/// Removes the socket file of a crashed server. Fails if the file is not a socket, or if a server still
/// listens on the socket.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Error: the process cannot listen on an address.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub address: ListenAddr,
    /// The kind of the failure.
    pub reason: BindReason,
    error: io::Error,
}

/// Kind of a failure to listen. [`BindError::hint`] returns a separate hint for each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BindReason {
    /// Another socket listens on the address.
    AddressInUse,
    /// This machine does not have the address, or the directory of the path does not exist.
    AddressUnknown,
    /// A file that is not a socket exists at the path of the Unix socket.
    PathTaken,
    /// The user has no permission to listen on the address.
    PermissionDenied,
    /// The operating system reported another error.
    Other,
}

impl BindError {
    /// Returns a hint that tells the operator how to fix the problem.
    pub const fn hint(&self) -> &'static str {
        match (self.reason, &self.address) {
            (BindReason::AddressInUse, ListenAddr::Tcp(_)) => {
                "another process already listens on this port; stop it, or choose another address or port"
            }
            (BindReason::AddressInUse, ListenAddr::Unix(_)) => {
                "another process already listens on this path; stop it, or choose another path"
            }
            (BindReason::AddressUnknown, ListenAddr::Tcp(_)) => "choose an address of this machine",
            (BindReason::AddressUnknown, ListenAddr::Unix(_)) => "choose a path in a directory that exists",
            (BindReason::PathTaken, _) => {
                "a file that is not a socket exists at this path; remove it, or choose another path"
            }
            (BindReason::PermissionDenied, ListenAddr::Tcp(_)) => {
                "ports below 1024 need a privilege (CAP_NET_BIND_SERVICE); choose a higher port"
            }
            (BindReason::PermissionDenied, ListenAddr::Unix(_)) => {
                "choose a path in a directory that this user may write to"
            }
            (BindReason::Other, _) => "choose another address",
        }
    }
}

impl From<io::ErrorKind> for BindReason {
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::AddrInUse => Self::AddressInUse,
            io::ErrorKind::AlreadyExists => Self::PathTaken,
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::NotFound => Self::AddressUnknown,
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on `{}`: {}", self.address, self.error)
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drained server removed the socket of its successor.
    #[test]
    fn unix_socket_of_a_successor_is_not_removed() {
        let path = std::env::temp_dir().join(format!("thruway-{}-successor.sock", std::process::id()));
        let address = ListenAddr::Unix(path.clone());
        let (_, sockets, first) = bind(&address, 1, 1).unwrap().into_parts();
        drop(sockets);
        let second = bind(&address, 1, 1).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
        assert!(!path.exists());
    }
}
