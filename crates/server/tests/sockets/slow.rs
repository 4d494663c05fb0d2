//! Clients that send or read too slowly.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use thruway_server::{Config, Request, Response, StatusCode};

use crate::site::{GET, Site, TIMEOUT, rest};

/// Returns a config with short timeouts.
fn short_timeouts() -> Config {
    let mut config = Config::default();
    config.timeouts.header_section = SHORT_TIMEOUT;
    config.timeouts.content = SHORT_TIMEOUT;
    config.timeouts.content_rate_min = 1 << 20;
    config.timeouts.write_stall = SHORT_TIMEOUT;
    config
}

/// Sends `piece` repeatedly until the server responds. Returns the response up to the end of the connection.
fn drip(stream: &mut TcpStream, piece: &[u8]) -> String {
    stream.set_read_timeout(Some(DRIP_EVERY)).unwrap();
    for _ in 0..TIMEOUT.as_millis() / DRIP_EVERY.as_millis() {
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes) {
            Ok(read) => return String::from_utf8_lossy(&bytes[..read]).into_owned() + &rest(stream),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        stream.write_all(piece).unwrap();
    }
    panic!("the server never responded");
}

#[test]
fn slow_header_section_gets_408() {
    let site = Site::start(|| "ok", short_timeouts());
    let mut stream = site.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n").unwrap();
    let answer = drip(&mut stream, b"X: y\r\n");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    site.until_open(0);
}

#[test]
fn slow_body_gets_408() {
    let site = Site::start(|request: &Request| request.content().len().to_string(), short_timeouts());
    let mut stream = site.connect();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10000\r\n\r\n").unwrap();
    let answer = drip(&mut stream, b"x");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    site.until_open(0);
}

#[test]
fn many_slow_clients_do_not_delay_other_clients() {
    let site = Site::start(|| "ok", Config::default());
    let mut slow: Vec<TcpStream> = (0..200).map(|_| site.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET / HTTP/1.1\r\nHost").unwrap();
    }
    let mut stream = site.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").unwrap();
    assert!(rest(&mut stream).ends_with("\r\n\r\nok"));
    for stream in &mut slow {
        stream.write_all(b": a.example\r\nConnection: close\r\n\r\n").unwrap();
        assert!(rest(stream).ends_with("\r\n\r\nok"));
    }
}

#[test]
fn client_that_never_reads_is_reset() {
    let large = Bytes::from(vec![b'x'; LARGE_BYTES]);
    let site =
        Site::start(move || Response::new(StatusCode::OK).with_content(large.clone()), short_timeouts());
    let mut stream = site.connect();
    stream.write_all(GET).unwrap();
    site.until_open(1);
    site.until_open(0);
    // The kernel also discards the data in its send buffer.
    let mut bytes = Vec::new();
    let error = stream.read_to_end(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(bytes.len() < LARGE_BYTES);
}

const SHORT_TIMEOUT: Duration = Duration::from_millis(100);

const DRIP_EVERY: Duration = Duration::from_millis(10);

/// Larger than the socket buffers of a client that does not read.
const LARGE_BYTES: usize = 64 << 20;
