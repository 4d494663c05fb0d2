//! Upstream servers that can be unreachable or misbehave.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thruway_client::UpstreamAddr;
use thruway_testkit::upstream::reserve_address;

/// A server that answers with its name. It can stop and restart at the same address.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Reserves the address while no listener is open.
    reserved_address: Option<OwnedFd>,
}

#[derive(Default)]
struct Shared {
    connections: AtomicUsize,
    requests: AtomicUsize,
    behavior: Mutex<Behavior>,
    behavior_changed: Condvar,
    /// Current and highest number of concurrent requests.
    current: AtomicUsize,
    most_concurrent: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
    is_over: Mutex<bool>,
}

/// The reaction of a server to a request.
#[derive(Clone, Debug)]
pub(crate) enum Behavior {
    /// Answers with this status, these field lines, and its name as the body.
    Responds { status: u16, lines: &'static str, name: &'static str },
    /// Answers 200 with its name after a delay of `time`.
    RespondsLate { time: Duration, name: &'static str },
    /// Closes the connection.
    Closes,
    /// Waits until the behavior changes, then follows the new one.
    Holds,
    /// Reads, but never answers.
    NeverResponds,
    /// Switches to another protocol.
    Upgrades,
}

impl Default for Behavior {
    fn default() -> Self {
        Self::named("")
    }
}

impl Behavior {
    pub(crate) const fn named(name: &'static str) -> Self {
        Self::Responds { status: 200, lines: "", name }
    }
}

impl Backend {
    pub(crate) fn start(behavior: Behavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { behavior: Mutex::new(behavior), ..Shared::default() });
        let mut backend = Self { address, shared, thread: None, reserved_address: None };
        backend.serve(listener);
        backend
    }

    /// Starts a server that answers 200 with this name.
    pub(crate) fn named(name: &'static str) -> Self {
        Self::start(Behavior::named(name))
    }

    /// Creates a server that does not listen yet.
    pub(crate) fn absent(behavior: Behavior) -> Self {
        let mut backend = Self::start(behavior);
        backend.stop();
        backend
    }

    fn serve(&mut self, listener: TcpListener) {
        let shared = self.shared.clone();
        *lock(&shared.is_over) = false;
        self.thread = Some(thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if *lock(&shared.is_over) {
                    return;
                }
                shared.connections.fetch_add(1, Ordering::SeqCst);
                lock(&shared.open).push(connection.try_clone().unwrap());
                let shared = shared.clone();
                // The connection may end in any way.
                thread::spawn(move || drop(shared.serve(connection)));
            }
        }));
    }

    /// Stops listening and closes all connections.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        *lock(&self.shared.is_over) = true;
        if matches!(*lock(&self.shared.behavior), Behavior::Holds) {
            self.set_behavior(Behavior::Closes);
        }
        drop(TcpStream::connect(self.address));
        thread.join().unwrap();
        for connection in lock(&self.shared.open).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.reserved_address = Some(reserve_address(self.address));
    }

    /// Listens again.
    pub(crate) fn restart(&mut self) {
        self.serve(TcpListener::bind(self.address).unwrap());
        self.reserved_address = None;
    }

    /// Changes the behavior. Requests that [`Holds`](Behavior::Holds) keeps waiting follow the new one.
    pub(crate) fn set_behavior(&self, behavior: Behavior) {
        *lock(&self.shared.behavior) = behavior;
        self.shared.behavior_changed.notify_all();
    }

    pub(crate) fn upstream_address(&self) -> UpstreamAddr {
        self.address.into()
    }

    /// Highest number of concurrent requests so far.
    pub(crate) fn most_concurrent(&self) -> usize {
        self.shared.most_concurrent.load(Ordering::SeqCst)
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn serve(&self, mut connection: TcpStream) -> std::io::Result<()> {
        connection.set_nodelay(true)?;
        while read_head(&mut connection)? {
            self.requests.fetch_add(1, Ordering::SeqCst);
            let current = self.current.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_concurrent.fetch_max(current, Ordering::SeqCst);
            let behavior = self.next_behavior();
            // Count before answering, because the next request may follow the answer immediately.
            self.current.fetch_sub(1, Ordering::SeqCst);
            match behavior {
                Behavior::Responds { status, lines, name } => {
                    let length = name.len();
                    let head = format!("HTTP/1.1 {status} \r\nContent-Length: {length}\r\n{lines}\r\n{name}");
                    connection.write_all(head.as_bytes())?;
                }
                Behavior::RespondsLate { time, name } => {
                    thread::sleep(time);
                    let length = name.len();
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}");
                    connection.write_all(answer.as_bytes())?;
                }
                Behavior::Closes => return connection.shutdown(Shutdown::Both),
                Behavior::Upgrades => {
                    connection.write_all(b"HTTP/1.1 101 \r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")?;
                }
                Behavior::Holds | Behavior::NeverResponds => {}
            }
        }
        Ok(())
    }

    fn next_behavior(&self) -> Behavior {
        let behavior = lock(&self.behavior);
        let is_holding = |behavior: &mut Behavior| matches!(behavior, Behavior::Holds);
        self.behavior_changed.wait_while(behavior, is_holding).unwrap().clone()
    }
}

/// Reads byte by byte, so that nothing after the head is consumed. Returns `false` at the end of the
/// connection.
fn read_head(connection: &mut TcpStream) -> std::io::Result<bool> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if connection.read(&mut byte)? == 0 {
            return Ok(false);
        }
        head.extend(byte);
    }
    Ok(true)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop();
    }
}
