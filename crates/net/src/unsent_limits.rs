//! Limits for the unsent bytes that the kernel buffers for each accepted TCP connection
//! (`TCP_NOTSENT_LOWAT`).
//!
//! With the default limit, a large body passes through the kernel in many small parts. After each part, a
//! fast client waits until the worker wakes up and writes the next part. A limited number of connections
//! therefore get a higher limit. If no place is free, the worker checks its oldest connections. It takes the
//! higher limit away from a connection after the client has received most of the bytes.

use std::collections::VecDeque;
use std::fs::read_to_string;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use crate::socket::Socket;

/// The connections of one thread with the higher limit, oldest first.
#[derive(Debug)]
pub(crate) struct RaisedLimits {
    sockets: VecDeque<(Weak<Socket>, Place)>,
    places: &'static Places,
}

/// Number of connections that may have the higher limit at the same time.
#[derive(Debug)]
pub(crate) struct Places {
    taken: AtomicUsize,
    max: OnceLock<usize>,
}

/// Permission for one connection to have the higher limit.
#[derive(Debug)]
struct Place(&'static Places);

/// The places of this process.
pub(crate) static PLACES: Places = Places { taken: AtomicUsize::new(0), max: OnceLock::new() };

impl RaisedLimits {
    pub(crate) const fn new(places: &'static Places) -> Self {
        Self { sockets: VecDeque::new(), places }
    }

    /// Raises the limit of `socket`. Does nothing if too many clients have not received their bytes yet.
    pub(crate) fn raise(&mut self, socket: &Arc<Socket>) {
        let place = self.places.take().or_else(|| (0..CHECKS_MAX).find_map(|_| self.release_oldest()));
        if let Some(place) = place
            && set_limit(socket, RAISED_BYTES).is_ok()
        {
            socket.set_unsent_limit_raised(true);
            self.sockets.push_back((Arc::downgrade(socket), place));
        }
        while self.sockets.pop_front_if(|(socket, _)| socket.strong_count() == 0).is_some() {}
    }

    /// Takes the higher limit away from the oldest connection, and returns its place. If the client is slow,
    /// returns `None`, and the connection keeps its place.
    fn release_oldest(&mut self) -> Option<Place> {
        let (oldest, place) = self.sockets.pop_front()?;
        let Some(socket) = oldest.upgrade() else { return Some(place) };
        if lower(&socket).unwrap_or(true) {
            socket.set_unsent_limit_raised(false);
            return Some(place);
        }
        self.sockets.push_back((oldest, place));
        None
    }
}

impl Places {
    fn take(&'static self) -> Option<Place> {
        let max = *self.max.get_or_init(|| places_max(read_to_string(TCP_MEMORY).ok().as_deref()));
        let is_free = |taken| (taken < max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free).ok().map(|_| Place(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the number of places. The places may use half of the memory that the kernel allows for TCP before
/// it begins to save memory. This is the first number in `tcp_memory`, counted in pages.
fn places_max(tcp_memory: Option<&str>) -> usize {
    let pages = tcp_memory.and_then(|numbers| numbers.split_whitespace().next()?.parse::<usize>().ok());
    pages.map_or(PLACES_MIN, |pages| (pages / 2 / PAGES_PER_PLACE).clamp(PLACES_MIN, PLACES_MAX))
}

/// Sets the default limit. Returns `true` if the unsent bytes are within this limit.
fn lower(socket: &Socket) -> io::Result<bool> {
    set_limit(socket, UNSENT_BYTES)?;
    // The kernel reports a socket as writable only if the unsent bytes are less than half of the limit.
    let mut polled = [PollFd::new(socket, PollFlags::OUT)];
    Ok(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

fn set_limit(socket: &Socket, bytes: u32) -> io::Result<()> {
    SockRef::from(socket).set_tcp_notsent_lowat(bytes)
}

/// Default limit, in bytes. Without a limit, a thousand slow clients that read large bodies would fill
/// gigabytes of kernel memory, and the workers would spend their time on copying.
pub(crate) const UNSENT_BYTES: u32 = 128 << 10;

/// The higher limit, in bytes. Half of this limit has no effect for bodies of 1 MB.
const RAISED_BYTES: u32 = 1 << 20;

/// Number of memory pages that a connection with the higher limit needs. Some machines have larger pages.
/// They get fewer places than possible.
const PAGES_PER_PLACE: usize = RAISED_BYTES as usize / 4096;

/// Minimum number of places, and the number of places if the memory limit of the kernel is unknown.
const PLACES_MIN: usize = 32;

/// Maximum number of places. Slow clients can therefore occupy 512 MiB of kernel memory.
const PLACES_MAX: usize = 512;

/// File with the memory limits of TCP.
const TCP_MEMORY: &str = "/proc/sys/net/ipv4/tcp_mem";

/// Maximum number of connections that the thread checks before a connection keeps the default limit.
const CHECKS_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::net::{SendFlags, send};

    use super::*;
    use crate::socket::{AcceptedSocket, Kind};

    /// Returns an accepted socket and its client.
    fn accept(listener: &TcpListener) -> (Arc<Socket>, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        SockRef::from(&accepted).set_tcp_notsent_lowat(UNSENT_BYTES).unwrap();
        (Socket::new(Kind::Accepted(AcceptedSocket::new(accepted.into(), true))), client)
    }

    fn limit_of(socket: &Socket) -> u32 {
        SockRef::from(socket).tcp_notsent_lowat().unwrap()
    }

    /// Sends until the kernel accepts no more. Returns the number of bytes.
    fn fill(socket: &Socket) -> usize {
        let bytes = vec![0; 64 << 10];
        std::iter::from_fn(|| send(socket, &bytes, SendFlags::NOSIGNAL).ok()).sum()
    }

    /// Returns the state of a thread that is alone in its process.
    fn alone() -> RaisedLimits {
        let places = Places { taken: AtomicUsize::new(0), max: OnceLock::from(PLACES) };
        RaisedLimits::new(Box::leak(Box::new(places)))
    }

    #[test]
    fn only_clients_that_have_received_their_bytes_give_the_limit_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut limits = alone();
        let pairs: Vec<_> = (0..=PLACES).map(|_| accept(&listener)).collect();
        let ((last, _), first) = pairs.split_last().unwrap();
        for (socket, _) in first {
            limits.raise(socket);
        }
        assert!(first.iter().all(|(socket, _)| limit_of(socket) == RAISED_BYTES));
        // The oldest clients do not read.
        for (socket, _) in &first[..CHECKS_MAX] {
            assert!(fill(socket) > RAISED_BYTES as usize);
        }
        limits.raise(last);
        assert_eq!(limit_of(last), UNSENT_BYTES);
        for (socket, _) in &first[..CHECKS_MAX] {
            assert_eq!((limit_of(socket), fill(socket)), (UNSENT_BYTES, 0));
        }
        limits.raise(last);
        assert_eq!((limit_of(last), limit_of(&first[CHECKS_MAX].0)), (RAISED_BYTES, UNSENT_BYTES));
        assert_eq!((limits.sockets.len(), limits.places.taken.load(Ordering::Relaxed)), (PLACES, PLACES));
    }

    #[test]
    fn closed_connections_free_their_places() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut limits = alone();
        for _ in 0..PLACES {
            limits.raise(&accept(&listener).0);
        }
        let (socket, _client) = accept(&listener);
        limits.raise(&socket);
        assert_eq!((limit_of(&socket), limits.sockets.len()), (RAISED_BYTES, 1));
        let places = limits.places;
        drop(limits);
        assert_eq!(places.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn number_of_places_follows_the_memory_limit_of_the_kernel() {
        assert_eq!(places_max(Some("102400\t383867\t575796\n")), 200);
        assert_eq!(places_max(Some("999999999 999999999 999999999")), PLACES_MAX);
        assert_eq!(
            [places_max(Some("100 200 300")), places_max(Some("")), places_max(None)],
            [PLACES_MIN; 3]
        );
    }

    const PLACES: usize = 5;
}
