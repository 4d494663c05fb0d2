//! Tests of a running daemon: status, metrics and drain.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use thruway_client::UpstreamAddr;
use thruway_daemon::{Config, Daemon, Ended, Route};
use thruway_gateway::UpstreamConfig;
use thruway_net::Clock;

use crate::client::{TIMEOUT, address_of, answering, connect, end, everything, file_answering, get, tcp};

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

/// Regression test: OpenMetrics responses had a second `Content-Type`, and clients used the first one.
#[test]
fn metrics_have_one_content_type() {
    let daemon = Daemon::from_config(answering("").admin("127.0.0.1:0").unwrap()).unwrap();
    let admin = daemon.admin_addresses()[0].clone();
    for (accept, expected) in [
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("text/plain", "text/plain; version=0.0.4; charset=utf-8"),
    ] {
        let mut stream = connect(&admin);
        let host = tcp(&admin);
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let types: Vec<_> = response.lines().filter_map(|line| line.strip_prefix("Content-Type: ")).collect();
        assert_eq!(types, [expected]);
    }
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

/// Regression test: a removed user still received the event stream that the user had opened before.
#[test]
fn reload_with_other_users_ends_the_event_streams() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("thruway.toml");
    let write = |users: &str| {
        let admin = format!("[admin]\naddress = \"127.0.0.1:0\"\n[admin.authentication.users]\n{users}");
        std::fs::write(&path, file_answering("", &admin)).unwrap();
    };
    // The digests of the tokens `one` and `other`.
    let one = "one = { role = \"read\", token_digest = \"sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed\" }\n";
    let other = "other = { role = \"read\", token_digest = \"sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa\" }\n";
    write(&format!("{one}{other}"));
    let daemon = Daemon::from_file(&path).unwrap();
    let mut stream = connect(&daemon.admin_addresses()[0]);
    stream
        .write_all(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer one\r\n\r\n")
        .unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    write(other);
    daemon.reload().unwrap();
    let clock = Clock::system();
    let ends_at = clock.now_exact() + TIMEOUT;
    // The server sends events each second, so no read waits for long.
    while stream.read(&mut [0; 4096]).unwrap() > 0 {
        assert!(clock.now_exact() < ends_at, "the stream did not end");
    }
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
    assert!(std::net::TcpStream::connect(tcp(&address)).is_err());
}
