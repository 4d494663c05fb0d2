//! Records the connections that this process opens to its own listeners. The gateway uses this record to
//! detect request loops.
//!
//! The record does not include connections from other processes on this machine.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{getpeername, getsockname};

use crate::address::{ClientAddr, ListenAddr};
use crate::listened::{ListenedOn, listened_on};
use crate::stream::Stream;

/// Number of TCP connections in [`OPEN`]. While the number is 0, no search needs to lock `OPEN`.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The open TCP connections of this process to its own listeners: the number of connections for each pair
/// of endpoints.
static OPEN: Mutex<Option<HashMap<ConnectionEnds, usize>>> = Mutex::new(None);

/// The addresses of the two endpoints of a TCP connection. The port of the listener is included, because
/// connections to two listeners can have the same client address. The IP address of the listener is not
/// included, because an IPv6 listener may report an IPv4 address in a different form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct ConnectionEnds {
    client: SocketAddr,
    listener_port: u16,
}

/// Record of a connection from this process to one of its own listeners. Keep this value while the
/// connection is open.
#[derive(Debug)]
pub struct OwnConnection {
    /// The endpoints of the connection. `None` for a connection over a Unix socket.
    ends: Option<ConnectionEnds>,
}

/// The client of an accepted connection, according to the operating system. A PROXY header does not change
/// this value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A TCP client.
    Tcp {
        /// The address of the client.
        client: SocketAddr,
        /// The port of the listener.
        listener_port: u16,
    },
    /// The client of a Unix socket.
    Unix {
        /// `true` if this process is the client. Always `false` on systems other than Linux, because only
        /// Linux reports the process of the client.
        is_own_process: bool,
    },
}

impl OwnConnection {
    /// Records a connection that this process has opened, if the connection leads to a listener of this
    /// process. Returns `None` if the connection leads to a different process or machine. Call this before
    /// writing the first byte of a request, so that the accepting worker finds the record.
    pub fn of(stream: &Stream) -> Option<Self> {
        let socket = stream.as_fd();
        let Some(peer) = getpeername(socket).ok()?.and_then(|any| SocketAddr::try_from(any).ok()) else {
            return is_of_own_process(socket).then_some(Self { ends: None });
        };
        let listened = listened_on(peer);
        if listened == ListenedOn::Nowhere {
            return None;
        }
        let local = SocketAddr::try_from(getsockname(socket).ok()?).ok()?;
        // If a machine connects to one of its own addresses, the kernel also uses this address as the source
        // address.
        let is_here = peer.ip().is_loopback() || local.ip() == peer.ip();
        let ends = ConnectionEnds { client: local, listener_port: peer.port() };
        (listened == ListenedOn::ThisAddress || is_here).then(|| Self::new(ends))
    }

    fn new(ends: ConnectionEnds) -> Self {
        *open().get_or_insert_default().entry(ends).or_default() += 1;
        COUNT.fetch_add(1, Ordering::SeqCst);
        Self { ends: Some(ends) }
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        let Some(ends) = self.ends else { return };
        if let Some(open) = &mut *open()
            && let Some(count) = open.get_mut(&ends)
        {
            *count -= 1;
            if *count == 0 {
                open.remove(&ends);
            }
        }
        COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Peer {
    /// Returns the peer of `stream`, which the listener at `listener` has accepted from `client`. With the
    /// address of the listener, this function needs no system call for the port of a TCP connection.
    pub fn of(stream: &Stream, client: ClientAddr, listener: &ListenAddr) -> Self {
        match client {
            ClientAddr::Tcp(client) => {
                let listener_port = match listener {
                    ListenAddr::Tcp(address) => address.port(),
                    ListenAddr::Unix(_) => 0,
                };
                Self::Tcp { client, listener_port }
            }
            ClientAddr::Unix => Self::Unix { is_own_process: is_of_own_process(stream.as_fd()) },
        }
    }

    /// Returns `true` if this process itself has opened the connection.
    #[inline]
    pub fn is_own(&self) -> bool {
        match self {
            Self::Tcp { client, listener_port } => {
                COUNT.load(Ordering::SeqCst) > 0
                    && is_open(ConnectionEnds { client: *client, listener_port: *listener_port })
            }
            Self::Unix { is_own_process } => *is_own_process,
        }
    }
}

#[cold]
fn is_open(ends: ConnectionEnds) -> bool {
    open().as_ref().is_some_and(|open| open.contains_key(&ends))
}

/// Returns `true` if both endpoints of the Unix socket `socket` belong to this process.
#[cfg(target_os = "linux")]
fn is_of_own_process(socket: BorrowedFd<'_>) -> bool {
    let credentials = rustix::net::sockopt::socket_peercred(socket);
    credentials.is_ok_and(|credentials| credentials.pid == rustix::process::getpid())
}

#[cfg(not(target_os = "linux"))]
fn is_of_own_process(_: BorrowedFd<'_>) -> bool {
    false
}

fn open() -> MutexGuard<'static, Option<HashMap<ConnectionEnds, usize>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::address::ListenAddr;
    use crate::bind::{Bound, bind};

    fn bound(text: &str) -> (Bound, u16) {
        let bound = bind(&text.parse().unwrap(), 1, 8).unwrap();
        let ListenAddr::Tcp(address) = bound.address().clone() else { panic!("not a TCP address") };
        (bound, address.port())
    }

    fn connect(ip: &str, port: u16) -> Stream {
        let stream = TcpStream::connect((ip, port)).unwrap();
        stream.set_nonblocking(true).unwrap();
        tokio::net::TcpStream::from_std(stream).unwrap().into()
    }

    fn peer(stream: &Stream) -> Peer {
        let listener_port = getpeername(stream.as_fd()).unwrap().unwrap();
        let listener_port = SocketAddr::try_from(listener_port).unwrap().port();
        Peer::Tcp { client: stream.local_address().unwrap(), listener_port }
    }

    /// The address of the client alone once identified connections. The system can use one client address for
    /// connections to several listeners, so requests of other clients got 508.
    #[tokio::test]
    async fn own_connection_is_identified_by_client_and_listener_port() {
        let (_bound, port) = bound("127.0.0.1:0");
        let stream = connect("127.0.0.1", port);
        let _own = OwnConnection::of(&stream).unwrap();
        let client = stream.local_address().unwrap();
        assert!(Peer::Tcp { client, listener_port: port }.is_own());
        assert!(!Peer::Tcp { client, listener_port: port.wrapping_add(1) }.is_own());
    }

    #[tokio::test]
    async fn connection_to_an_own_listener_is_own_until_it_closes() {
        for (listen, ip) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::1")] {
            let (_bound, port) = bound(listen);
            let stream = connect(ip, port);
            assert!(!peer(&stream).is_own());
            let own = OwnConnection::of(&stream).unwrap();
            let other = connect(ip, port);
            assert!(peer(&stream).is_own() && !peer(&other).is_own(), "{listen}");
            drop(own);
            assert!(!peer(&stream).is_own());
        }
    }

    #[tokio::test]
    async fn connection_to_a_foreign_listener_is_not_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = connect("127.0.0.1", listener.local_addr().unwrap().port());
        assert!(OwnConnection::of(&stream).is_none());
        // A listener for `[::]` does not accept IPv4, so another listener may have the same port there.
        let (_bound, port) = bound("[::]:0");
        if let Ok(listener) = TcpListener::bind(("0.0.0.0", port)) {
            let stream = connect("127.0.0.1", port);
            assert!(OwnConnection::of(&stream).is_none());
            drop(listener);
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn own_unix_socket_connection_is_identified_by_its_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = Stream::from(tokio::net::UnixStream::from_std(stream).unwrap());
        assert!(OwnConnection::of(&stream).is_some());
        let accepted = listener.accept().unwrap().0;
        accepted.set_nonblocking(true).unwrap();
        let accepted = Stream::accepted(accepted.into(), ClientAddr::Unix);
        assert!(Peer::of(&accepted, ClientAddr::Unix, &ListenAddr::Unix(path)).is_own());
    }
}
