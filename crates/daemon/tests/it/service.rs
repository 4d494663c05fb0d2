//! Tests of a running daemon: status, metrics and drain.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use thruway_client::UpstreamAddr;
use thruway_daemon::{Config, Daemon, Ended, Route};
use thruway_gateway::UpstreamConfig;

use crate::client::{TIMEOUT, address_of, answering, connect, end, everything, get};

fn forwarding_to(server: UpstreamAddr) -> Config {
    Config::default()
        .listen("127.0.0.1:0")
        .unwrap()
        .upstream(UpstreamConfig::new("backend", [server]))
        .route(Route::forward(everything(), "backend"))
        .workers(1)
}

#[test]
fn daemon_handle_returns_status_and_metrics() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = backend.local_addr().unwrap();
    let daemon = Daemon::from_config(forwarding_to(server.into())).unwrap();
    let handle = daemon.handle();
    let status = handle.status();
    assert_eq!(status["routes"][0]["requests"], "/ and below");
    assert_eq!(status["upstreams"][0]["name"], "backend");
    assert_eq!(status["upstreams"][0]["servers"][0]["address"], server.to_string());
    assert!(handle.metrics().contains("upstream=\"backend\""), "{}", handle.metrics());
    end(daemon);
}

#[test]
fn admin_listener_reports_the_same_status_and_metrics() {
    let daemon = Daemon::from_config(answering("").admin("127.0.0.1:0").unwrap()).unwrap();
    let admin = daemon.admin_addresses()[0].clone();
    let status: serde_json::Value = serde_json::from_str(&get(&admin, "/status").1).unwrap();
    assert_eq!(status["routes"], daemon.handle().status()["routes"]);
    let families = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("# TYPE")).map(str::to_owned).collect()
    };
    assert_eq!(families(&get(&admin, "/metrics").1), families(&daemon.handle().metrics()));
    end(daemon);
}

#[test]
fn drain_completes_accepted_requests() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = backend.local_addr().unwrap();
    let daemon = Daemon::from_config(forwarding_to(server.into())).unwrap();
    let address = address_of(&daemon);
    let mut client = connect(&address);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();

    let (mut stream, _) = backend.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while !lines.next().unwrap().unwrap().is_empty() {}
    daemon.handle().drain();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate").unwrap();

    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("\r\n\r\nlate"), "{response}");
    assert_eq!(daemon.join(), Ended::Clean);
    assert!(std::net::TcpStream::connect(crate::client::tcp(&address)).is_err());
}
