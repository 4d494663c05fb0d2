//! Accepts connections on one listening socket, for one worker.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::{libc, setsockopt_impl, sockopt_impl};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, sockopt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::address::{ClientAddr, ListenAddr};
use crate::log_limit::{Admitted, LogLimit};
use crate::socket::watch;
use crate::stream::Stream;

sockopt_impl!(
    /// The option `TCP_DEFER_ACCEPT`. The crates `rustix` and `socket2` do not support this option.
    DeferAccept,
    SetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_DEFER_ACCEPT,
    i32
);

/// A listening socket of one worker.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    socket: OwnedFd,
    /// `true` if the kernel passes on a connection only after data has arrived: see
    /// [`Bound::deferred`](crate::Bound::deferred).
    is_deferred: Cell<bool>,
    stop: Notify,
}

impl ListeningSocket {
    pub(crate) fn new(socket: OwnedFd, is_deferred: bool) -> Self {
        let listening = Self { socket, is_deferred: Cell::new(false), stop: Notify::new() };
        listening.set_deferred(is_deferred);
        listening
    }

    /// Sets whether the kernel passes on a connection only after data has arrived. A connection without data
    /// is passed on after about a second. Has no effect on Unix sockets.
    pub(crate) fn set_deferred(&self, is_deferred: bool) {
        if self.is_deferred.get() != is_deferred {
            let seconds = i32::from(is_deferred);
            // The call fails for Unix sockets, and if the system does not have this option.
            let outcome = setsockopt(&self.socket, DeferAccept, &seconds);
            self.is_deferred.set(is_deferred && outcome.is_ok());
            // Accepted sockets inherit this option. The kernel then acknowledges the first request together with
            // the response, which saves a packet. If no response follows within 40 ms, the kernel acknowledges
            // the request, and later data of this connection at once.
            let _ = sockopt::set_tcp_quickack(&self.socket, !is_deferred);
        }
    }

    /// Accepts a connection that the kernel has completed. Fails with `WouldBlock` if no such connection is
    /// waiting.
    fn accept_now(&self) -> io::Result<(Stream, ClientAddr)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, address) = acceptfrom_with(&self.socket, flags)?;
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        let client = address.map_or(ClientAddr::Unix, ClientAddr::Tcp);
        Ok((Stream::accepted(socket, client), client))
    }

    /// Ends [`accept`].
    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }
}

impl AsRawFd for ListeningSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Accepts connections on `listening`, and passes each connection to `take`. `address` is the address of
/// `listening`. After [`ListeningSocket::stop`], accepts the connections that the kernel has already
/// completed. If the kernel defers connections, first ends this and waits for [`DEFERRED_DATA_WAIT`].
pub(crate) async fn accept(
    listening: &Rc<ListeningSocket>,
    address: &ListenAddr,
    take: impl Fn(Stream, ClientAddr),
) {
    let listener = match watch(listening.clone(), Interest::READABLE) {
        Ok(listener) => listener,
        Err(error) => {
            return tracing::error!(%error, %address, "cannot listen: the reactor refused the socket");
        }
    };
    accept_until(listening.stop.notified(), &listener, address, &take).await;
    if listening.is_deferred.get() {
        listening.set_deferred(false);
        accept_until(sleep(DEFERRED_DATA_WAIT), &listener, address, &take).await;
    }
    loop {
        match listening.accept_now() {
            Ok((stream, client)) => take(stream, client),
            Err(error) if is_about_one_connection(&error) => {}
            Err(_) => return,
        }
    }
}

/// Accepts connections until `stopped` is ready.
async fn accept_until(
    stopped: impl Future<Output = ()>,
    listener: &AsyncFd<Rc<ListeningSocket>>,
    address: &ListenAddr,
    take: &impl Fn(Stream, ClientAddr),
) {
    let mut stopped = pin!(stopped);
    let mut is_pausing = false;
    loop {
        let outcome = tokio::select! {
            biased;
            () = &mut stopped => return,
            outcome = listener.async_io(Interest::READABLE, |socket| socket.accept_now()) => outcome,
        };
        match outcome {
            Ok((stream, client)) => {
                if std::mem::take(&mut is_pausing)
                    && let Some(Admitted { suppressed }) = AGAIN.admit()
                {
                    tracing::info!(%address, suppressed, "accepting connections again");
                }
                take(stream, client);
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                // The process probably has no free descriptors or memory. The new connection waits in the
                // kernel until other connections have ended.
                if std::mem::replace(&mut is_pausing, true) {
                    tracing::debug!(%error, %address, "still cannot accept connections");
                } else if let Some(Admitted { suppressed }) = PAUSES.admit() {
                    tracing::warn!(%error, %address, suppressed, "cannot accept connections, retrying");
                }
                sleep(PAUSE).await;
            }
        }
    }
}

/// Returns `true` if `error` concerns a single connection. The next call of `accept` can then succeed. The
/// man page accept(2) lists these errors.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::CONNRESET
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::INTR
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::NONET
                | Errno::NOPROTOOPT
                | Errno::OPNOTSUPP
                | Errno::PROTO
                | Errno::TIMEDOUT
        )
    )
}

/// Limit the log messages of `accept`. While the process has no free descriptors, clients that open and close
/// many connections could otherwise fill the log.
static AGAIN: LogLimit = LogLimit::new();
static PAUSES: LogLimit = LogLimit::new();

/// Delay before the next attempt to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Time for which a stopped listener waits for the data of connections that the kernel has not passed on. If
/// the listener closed at once, the kernel would reset these connections. Clients usually send their first
/// request at once, so the data is already on its way.
const DEFERRED_DATA_WAIT: Duration = Duration::from_millis(if cfg!(test) { 1000 } else { 150 });
