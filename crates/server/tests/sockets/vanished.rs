//! Clients that vanish in the middle of an exchange.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use thruway_server::{Config, OwnedRequest, Router};

use crate::site::{GET, Site, rest};

/// Closes the connection with a reset.
fn reset(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn client_reset_releases_its_connection() {
    let app = Router::new()
        .get("/", || "ok")
        .get("/large", || "x".repeat(8 << 20))
        .get("/never", |_: OwnedRequest| std::future::pending::<&str>())
        .post("/", |_: OwnedRequest| async { "ok" });
    let site = Site::start(app, Config::default());
    let beginnings: [&[u8]; 8] = [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: a.exam",
        GET,
        &GET.repeat(100),
        b"GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n",
        b"GET /never HTTP/1.1\r\nHost: a.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\nx",
    ];
    for _ in 0..4 {
        let mut streams: Vec<TcpStream> = (0..400).map(|_| site.connect()).collect();
        for (stream, beginning) in streams.iter_mut().zip(beginnings.iter().cycle()) {
            stream.write_all(beginning).unwrap();
        }
        streams.into_iter().for_each(reset);
    }
    site.until_open(0);
    let mut stream = site.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").unwrap();
    assert!(rest(&mut stream).ends_with("\r\n\r\nok"));
}

#[test]
fn worker_connection_counts_differ_by_at_most_one() {
    let site = Site::start(|| "ok", Config::default());
    let mut streams = Vec::new();
    for count in 1..=100 {
        let mut stream = site.connect();
        // The server accepts a connection at once only if it has data.
        stream.write_all(b"G").unwrap();
        streams.push(stream);
        site.until_open(count);
        let open = site.connections();
        assert!(open[0].abs_diff(open[1]) <= 1, "{open:?}");
    }
    drop(streams);
    site.until_open(0);
}
