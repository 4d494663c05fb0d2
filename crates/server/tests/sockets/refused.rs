//! Error responses for clients that are still sending.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;

use thruway_server::{Config, OwnedRequest, Request, Router};

use crate::site::{GET, Site, rest};

/// Start of the first message of a TLS client: a handshake record with a `ClientHello` (RFC 8446 §4.1.2).
const TLS_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x8a\x00\n\r\n\x00\xff\x13\x01";

#[test]
fn tls_client_hello_on_plain_port_gets_400() {
    let site = Site::start(|| "ok", Config::default());
    let mut stream = site.connect();
    stream.write_all(TLS_HELLO).unwrap();
    let mut first = [0; 13];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 400 ");
    assert!(rest(&mut stream).contains("\r\nConnection: close\r\n"));
    drop(stream);
    site.until_open(0);
}

/// Closing a socket with unread bytes sends a reset, and the client loses the response.
#[test]
fn client_that_is_still_sending_gets_the_response() {
    let mut config = Config::default();
    config.limits.content_bytes = 1000;
    config.discard_bytes = 1000;
    let app = Router::new()
        .get("/", || "ok")
        .post("/", |request: &Request| request.content().len().to_string())
        .post("/unread", |_: OwnedRequest| async { "not now" });
    let site = Site::start(app, config);
    let length = 500_000;
    let announced =
        |path| format!("POST {path} HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\r\n");
    let chunk = format!("\r\n{length:x}\r\n");
    let chunked = "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n";
    for (head, status) in [
        (announced("/"), "413"),
        (announced("/unread"), "413"),
        (chunked.to_owned() + &chunk, "413"),
        ("BROKEN\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\nand more".to_owned(), "200"),
    ] {
        for _ in 0..20 {
            let mut stream = site.connect();
            stream.write_all(head.as_bytes()).unwrap();
            for piece in vec![b'x'; length].chunks(10_000) {
                stream.write_all(piece).unwrap();
            }
            let answer = rest(&mut stream);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}{answer}");
        }
    }
    site.until_open(0);
}

#[test]
fn half_closed_client_gets_the_response() {
    let app = Router::new().get("/", || "ok").get("/later", |_: OwnedRequest| async {
        tokio::task::yield_now().await;
        "later"
    });
    let site = Site::start(app, Config::default());
    for (path, content) in [("/", "ok"), ("/later", "later")] {
        let mut stream = site.connect();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert!(rest(&mut stream).ends_with(&format!("\r\n\r\n{content}")));
    }
    site.until_open(0);
}

#[test]
fn client_that_sends_all_requests_before_reading_gets_all_responses() {
    let site = Site::start(|| "x".repeat(1000), Config::default());
    let stream = site.connect();
    let mut writer = stream.try_clone().unwrap();
    let requests = 20_000;
    let writing = thread::spawn(move || {
        writer.write_all(&GET.repeat(requests)).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut stream = stream;
    let answers = rest(&mut stream);
    writing.join().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), requests);
    site.until_open(0);
}
