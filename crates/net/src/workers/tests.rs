//! Tests of workers and their listening sockets.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::net::sockopt;

use crate::address::{ClientAddr, ListenAddr};
use crate::bind::bind;
use crate::dispatch::Accepted;
use crate::worker::Worker;
use crate::workers::{Workers, WorkersConfig};

/// A worker got the drain command before its accepting task had run. It once ended without the connections
/// that the kernel had completed.
#[test]
fn drain_accepts_connections_that_the_kernel_has_completed() {
    let bound = bind(&"127.0.0.1:0".parse().unwrap(), 1, 16).unwrap();
    let ListenAddr::Tcp(address) = *bound.address() else { panic!("not a TCP address") };
    let (release, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let start = move |_: &Rc<Worker>| {
        gate.lock().unwrap().recv().unwrap();
        drop::<Accepted>
    };
    let config = WorkersConfig { workers: 1, ..WorkersConfig::default() };
    let workers = Workers::start(config, vec![bound], start).unwrap();
    let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    workers.drain(Duration::from_secs(20));
    release.send(()).unwrap();
    let drained = workers.join();
    assert_eq!(drained.loads[0].connections_total, clients.len() as u64);
    assert_eq!(drained.loads[0].connections, 0);
}

/// A worker without connections ended at once, so that tasks on its thread were cut off.
#[test]
fn worker_on_hold_runs_its_tasks_until_the_hold_ends() {
    let (ping_sender, pings) = tokio::sync::mpsc::unbounded_channel::<()>();
    let (answer_sender, answers) = channel();
    let tasks = Mutex::new(Some((pings, answer_sender)));
    let start = move |_: &Rc<Worker>| {
        let (mut pings, answer_sender) = tasks.lock().unwrap().take().unwrap();
        tokio::spawn(async move {
            while pings.recv().await.is_some() {
                answer_sender.send(()).unwrap();
            }
        });
        drop::<Accepted>
    };
    let config = WorkersConfig { workers: 1, ..WorkersConfig::default() };
    let workers = Workers::start(config, Vec::new(), start).unwrap();
    let hold = workers.drain_handle().drain_and_hold(TIMEOUT);
    for _ in 0..100 {
        ping_sender.send(()).unwrap();
        answers.recv_timeout(TIMEOUT).unwrap();
    }
    drop(hold);
    workers.join();
    assert!(ping_sender.is_closed());
}

/// A server with one worker and a deferred listener. It closes each connection at once.
struct Deferred {
    workers: Workers,
    address: SocketAddr,
    /// The clients in the order in which the worker accepted their connections.
    accepted: Receiver<ClientAddr>,
}

impl Deferred {
    fn start() -> Self {
        let bound = bind(&"127.0.0.1:0".parse().unwrap(), 1, 16).unwrap().deferred();
        let ListenAddr::Tcp(address) = *bound.address() else { panic!("not a TCP address") };
        let (sender, accepted) = channel();
        let start = move |_: &Rc<Worker>| {
            let sender = sender.clone();
            move |accepted: Accepted| sender.send(accepted.client).unwrap()
        };
        let config = WorkersConfig { workers: 1, ..WorkersConfig::default() };
        let workers = Workers::start(config, vec![bound], start).unwrap();
        let deferred = Self { workers, address, accepted };
        // From now on, the worker listens.
        let client = deferred.connect(b"x");
        assert_eq!(deferred.accepted(), client_address(&client));
        deferred
    }

    fn connect(&self, data: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(self.address).unwrap();
        client.write_all(data).unwrap();
        client
    }

    fn accepted(&self) -> ClientAddr {
        self.accepted.recv_timeout(TIMEOUT).unwrap()
    }

    /// Connects a client that sends nothing and then a client that sends data. Returns `true` if the worker
    /// accepts the silent client first.
    fn accepts_silent_client_first(&self) -> bool {
        let (silent, talking) = (self.connect(b""), self.connect(b"x"));
        let accepted = [self.accepted(), self.accepted()];
        let (silent, talking) = (client_address(&silent), client_address(&talking));
        assert!(accepted == [silent, talking] || accepted == [talking, silent]);
        accepted[0] == silent
    }
}

fn client_address(client: &TcpStream) -> ClientAddr {
    ClientAddr::Tcp(client.local_addr().unwrap())
}

#[test]
fn deferred_listener_accepts_silent_clients_later() {
    let deferred = Deferred::start();
    assert!(!deferred.accepts_silent_client_first());
    deferred.workers.live().set_deferred(0, false);
    while !deferred.accepts_silent_client_first() {}
    deferred.workers.drain(TIMEOUT);
    deferred.workers.join();
}

/// The kernel acknowledges the first data of such a connection together with the response.
#[test]
fn connections_of_a_deferred_listener_delay_acknowledgments() {
    for is_deferred in [false, true] {
        let bound = bind(&"127.0.0.1:0".parse().unwrap(), 1, 16).unwrap();
        let bound = if is_deferred { bound.deferred() } else { bound };
        let ListenAddr::Tcp(address) = *bound.address() else { panic!("not a TCP address") };
        let (sender, receiver) = channel();
        let start = move |_: &Rc<Worker>| {
            let sender = sender.clone();
            move |accepted: Accepted| {
                let socket = accepted.stream.into_socket().unwrap();
                sender.send(sockopt::tcp_quickack(&socket).unwrap()).unwrap();
            }
        };
        let config = WorkersConfig { workers: 1, ..WorkersConfig::default() };
        let workers = Workers::start(config, vec![bound], start).unwrap();
        // The option takes effect when the worker begins to listen. A connection may arrive earlier. The client
        // keeps the connection open, because the kernel clears the option when a client closes.
        let is_immediate = (0..100).map(|_| {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"x").unwrap();
            receiver.recv_timeout(TIMEOUT).unwrap()
        });
        assert!({ is_immediate }.any(|is_immediate| is_immediate != is_deferred));
        workers.drain(TIMEOUT);
        workers.join();
    }
}

/// The kernel resets deferred connections when their listener closes.
#[test]
fn drain_waits_for_the_data_of_deferred_connections() {
    let deferred = Deferred::start();
    let mut clients: Vec<_> = (0..3).map(|_| deferred.connect(b"")).collect();
    deferred.workers.drain(TIMEOUT);
    std::thread::sleep(Duration::from_millis(20));
    for client in &mut clients {
        client.write_all(b"x").unwrap();
    }
    let drained = deferred.workers.join();
    assert_eq!(drained.loads[0].connections_total, 1 + clients.len() as u64);
}

const TIMEOUT: Duration = Duration::from_secs(20);
