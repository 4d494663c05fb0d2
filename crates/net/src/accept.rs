//! Accepts connections on one listening socket, for one worker.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::io::Interest;
use tokio::sync::Notify;

use crate::address::{ClientAddr, ListenAddr};
use crate::log_limit::{Admitted, LogLimit};
use crate::socket::watch;
use crate::stream::Stream;

/// Accepts a connection that the kernel has completed. Fails with `WouldBlock` if no such connection is
/// waiting.
fn accept_now(listener: &OwnedFd) -> io::Result<(Stream, ClientAddr)> {
    let (socket, address) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    let client = address.map_or(ClientAddr::Unix, ClientAddr::Tcp);
    Ok((Stream::accepted(socket, client), client))
}

/// Accepts connections on `socket`, and passes each connection to `take`. `address` is the address of
/// `socket`. After `stop`, accepts the connections that the kernel has already completed, and then closes
/// the socket.
pub(crate) async fn accept(
    socket: OwnedFd,
    address: &ListenAddr,
    stop: &Notify,
    take: impl Fn(Stream, ClientAddr),
) {
    let mut stopped = pin!(stop.notified());
    let listener = match watch(socket, Interest::READABLE) {
        Ok(listener) => listener,
        Err(error) => {
            return tracing::error!(%error, %address, "cannot listen: the reactor refused the socket");
        }
    };
    let mut is_pausing = false;
    loop {
        let outcome = tokio::select! {
            biased;
            () = &mut stopped => break,
            outcome = listener.async_io(Interest::READABLE, accept_now) => outcome,
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
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    loop {
        match accept_now(listener.get_ref()) {
            Ok((stream, client)) => take(stream, client),
            Err(error) if is_about_one_connection(&error) => {}
            Err(_) => return,
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
