//! Tests of workers and their listening sockets.

use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::address::ListenAddr;
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
