//! Clients of a server that drains its connections.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use thruway_server::{Config, OwnedRequest};
use tokio::sync::Semaphore;

use crate::site::{Site, rest, until};

#[test]
fn whoever_has_asked_before_the_drain_is_answered() {
    let gate = Arc::new(Semaphore::new(0));
    let (handler, asked) = (gate.clone(), Arc::new(Semaphore::new(0)));
    let arrived = asked.clone();
    let app = move |_: OwnedRequest| {
        let (gate, asked) = (handler.clone(), asked.clone());
        async move {
            asked.add_permits(1);
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
    until(|| arrived.available_permits() == 2 * CLIENTS);
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
