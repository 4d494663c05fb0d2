//! Clients of a server that drains its connections.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use thruway_server::{Config, OwnedRequest};
use tokio::sync::Semaphore;

use crate::site::{Site, rest, until};

#[test]
fn requests_received_before_drain_are_answered() {
    let gate = Arc::new(Semaphore::new(0));
    let (handler, started) = (gate.clone(), Arc::new(Semaphore::new(0)));
    let started_requests = started.clone();
    let app = move |_: OwnedRequest| {
        let (gate, started) = (handler.clone(), started.clone());
        async move {
            started.add_permits(1);
            gate.acquire().await.unwrap().forget();
            "ok"
        }
    };
    let site = Site::start(app, Config::default());
    let mut streams: Vec<TcpStream> = (0..CLIENTS).map(|_| site.connect()).collect();
    for stream in &mut streams {
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .unwrap();
    }
    until(|| started_requests.available_permits() == 2 * CLIENTS);
    site.server.drain();
    until(|| TcpStream::connect(site.address).is_err());
    gate.add_permits(2 * CLIENTS);
    for stream in &mut streams {
        let answers = rest(stream);
        assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
    }
    drop(streams);
    let loads = site.server.join();
    assert!(loads.iter().all(|load| load.connections == 0), "{loads:?}");
}

const CLIENTS: usize = 100;
