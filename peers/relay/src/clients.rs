//! Accepts clients, each with a connection to the backend, as many at a time as there are descriptors for.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::pair::Pair;
use crate::sockets::socket_for;

/// For how many clients this process has descriptors.
pub(crate) fn most_at_a_time() -> usize {
    most_with(getrlimit(Resource::Nofile).current)
}

fn most_with(descriptors: Option<u64>) -> usize {
    let both_sides = |descriptors: u64| descriptors.saturating_sub(SPARE) / 2;
    let most = descriptors.map_or(u64::MAX, both_sides).max(1);
    usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Serves clients for ever, `most` of them at a time; others wait in the listener's queue.
pub(crate) async fn serve(listener: &TcpListener, backend: SocketAddr, most: usize) {
    let room = Arc::new(Semaphore::new(most));
    loop {
        let place = room.clone().acquire_owned().await.expect("nobody closes it");
        // A client that has gone before it was accepted, or a kernel that is short of something, is no reason
        // to end.
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            // Whose end or fault it was is of no interest: it is the end of both connections.
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
    // Closed by a reset: ports that wait in TIME-WAIT would be used up after a few rounds of ten thousand.
    socket.set_zero_linger()?;
    socket.connect(backend).await
}

/// Descriptors for everything else: the standard streams, the listener, the reactor.
const SPARE: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_takes_two_descriptors() {
        assert_eq!(most_with(Some(20_000)), 9_992);
        assert_eq!(most_with(Some(SPARE + 5)), 2);
        assert_eq!(most_with(Some(3)), 1);
        assert_eq!(most_with(None), Semaphore::MAX_PERMITS);
    }
}
