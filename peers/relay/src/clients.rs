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
pub(crate) fn clients_max() -> usize {
    clients_max_with(getrlimit(Resource::Nofile).current)
}

fn clients_max_with(descriptors: Option<u64>) -> usize {
    let both_sides = |descriptors: u64| descriptors.saturating_sub(OTHER_DESCRIPTORS) / 2;
    let clients = descriptors.map_or(u64::MAX, both_sides).max(1);
    usize::try_from(clients).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Serves clients forever, at most `clients_max` at a time. Further clients wait in the listener's queue.
pub(crate) async fn serve(listener: &TcpListener, backend: SocketAddr, clients_max: usize) {
    let permits = Arc::new(Semaphore::new(clients_max));
    loop {
        let permit = permits.clone().acquire_owned().await.expect("the semaphore should stay open");
        // If the client has already disconnected, or the kernel lacks a resource, the relay continues.
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            // When the relay returns, it closes both connections. It ignores the reason.
            let _ended = relay(client, backend).await;
            drop(permit);
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
    // Makes the relay close the connection with a reset. Otherwise ports in TIME-WAIT would run out after a
    // few rounds of ten thousand connections.
    socket.set_zero_linger()?;
    socket.connect(backend).await
}

/// Number of file descriptors for other purposes: the standard streams, the listener, the reactor.
const OTHER_DESCRIPTORS: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_limit_assumes_two_descriptors_per_client() {
        assert_eq!(clients_max_with(Some(20_000)), 9_992);
        assert_eq!(clients_max_with(Some(OTHER_DESCRIPTORS + 5)), 2);
        assert_eq!(clients_max_with(Some(3)), 1);
        assert_eq!(clients_max_with(None), Semaphore::MAX_PERMITS);
    }
}
