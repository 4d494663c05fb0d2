//! Accepts clients and opens a connection to the backend for each. The number of file descriptors limits the
//! number of clients.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::pair::Pair;
use crate::sockets::socket_for;

/// Returns the number of clients for which this process has file descriptors.
pub(crate) fn most_at_a_time() -> usize {
    most_with(getrlimit(Resource::Nofile).current)
}

fn most_with(descriptors: Option<u64>) -> usize {
    let both_sides = |descriptors: u64| descriptors.saturating_sub(SPARE) / 2;
    let most = descriptors.map_or(u64::MAX, both_sides).max(1);
    usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Serves clients forever, at most `most` at a time. Others wait in the listener's queue.
pub(crate) async fn serve(listener: &TcpListener, backend: SocketAddr, most: usize) {
    let room = Arc::new(Semaphore::new(most));
    loop {
        let place = room.clone().acquire_owned().await.expect("nobody closes it");
        // If the client has already disconnected, or the kernel lacks a resource, the relay continues.
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            // However one connection ends, both are closed.
            let _ended = relay(client, backend).await;
            drop(place);
        });
    }
}

async fn relay(client: TcpStream, backend: SocketAddr) -> io::Result<()> {
    let upstream = connect(backend).await?;
    Pair::new(client, upstream).relay().await
}

async fn connect(backend: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket_for(backend)?;
    socket.set_nodelay(true)?;
    // Close with a reset. Otherwise ports in TIME-WAIT would run out after a few rounds of ten thousand
    // connections.
    socket.set_zero_linger()?;
    socket.connect(backend).await
}

/// File descriptors for other purposes: the standard streams, the listener, the reactor.
const SPARE: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_limit_assumes_two_descriptors_per_client() {
        assert_eq!(most_with(Some(20_000)), 9_992);
        assert_eq!(most_with(Some(SPARE + 5)), 2);
        assert_eq!(most_with(Some(3)), 1);
        assert_eq!(most_with(None), Semaphore::MAX_PERMITS);
    }
}
