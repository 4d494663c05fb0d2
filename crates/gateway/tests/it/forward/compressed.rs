//! Tests of responses that the gateway compresses.

use std::io::Read;

use thruway_server::IntoHandler;
use thruway_server::layers::{Compression, Layered};

use super::{Client, Script};
use crate::gateway::Gateway;

const ACCEPT: &str = "Accept-Encoding: gzip\r\n";

/// Starts a gateway that compresses the responses of `script`.
fn compressing(script: &Script) -> Gateway {
    let compressed = |forward| Layered::new(forward).layer(Compression::new()).into_handler();
    Gateway::guarded(script.address, compressed)
}

/// Decompresses gzip; `None` if the data is incomplete.
fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut content).is_ok().then_some(content)
}

fn page(bytes: usize) -> Vec<u8> {
    b"<p>the quick brown fox</p>\n".iter().copied().cycle().take(bytes).collect()
}

const TYPE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";

#[test]
fn bodies_of_all_sizes_are_compressed_over_reused_connections() {
    let script = Script::start();
    let gateway = compressing(&script);
    let mut client = Client::new(gateway.address);
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{ACCEPT}\r\n"));
    let mut accepted = script.accept();
    for length in [600, 60_000, 100_000, 1_000_000] {
        let head = accepted.head();
        assert!(head.contains(ACCEPT), "the upstream server may compress the body: {head}");
        accepted
            .send(format!("{TYPE}ETag: \"a\"\r\nAccept-Ranges: bytes\r\nContent-Length: {length}\r\n\r\n"));
        accepted.send(page(length));
        let answer = client.answer(false);
        assert_eq!(
            (answer.field("content-encoding"), answer.field("vary")),
            (Some("gzip"), Some("Accept-Encoding"))
        );
        assert_eq!((answer.field("etag"), answer.field("accept-ranges")), (Some("W/\"a\""), None));
        assert!(!answer.is_cut_off && unpacked(&answer.content) == Some(page(length)), "{length}");
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{ACCEPT}\r\n"));
    }
}

#[test]
fn body_compressed_by_upstream_is_forwarded_unchanged() {
    let script = Script::start();
    let gateway = compressing(&script);
    let mut client = Client::new(gateway.address);
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{ACCEPT}\r\n"));
    let mut accepted = script.accept();
    accepted.head();
    // The content is labeled as gzip but is not. The gateway forwards it without unpacking it.
    let bomb = vec![0x1f; 100_000];
    accepted.send(format!("{TYPE}Content-Encoding: gzip\r\nETag: \"a\"\r\nContent-Length: 100000\r\n\r\n"));
    accepted.send(&bomb);
    let answer = client.answer(false);
    assert!(answer.content == bomb);
    assert_eq!((answer.field("content-encoding"), answer.field("etag")), (Some("gzip"), Some("\"a\"")));
    assert_eq!(answer.field("content-length"), Some("100000"));
}

#[test]
fn truncated_body_stays_incomplete_when_compressed() {
    for framing in ["Content-Length: 200000", "Transfer-Encoding: chunked"] {
        let script = Script::start();
        let gateway = compressing(&script);
        let mut client = Client::new(gateway.address);
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{ACCEPT}\r\n"));
        let mut accepted = script.accept();
        accepted.head();
        let chunk = if framing.starts_with("Transfer") { "186a0\r\n" } else { "" };
        accepted.send(format!("{TYPE}{framing}\r\n\r\n{chunk}"));
        accepted.send(page(100_000));
        drop(accepted);
        let answer = client.answer(false);
        assert_eq!(answer.field("content-encoding"), Some("gzip"), "{framing}");
        assert!(answer.is_cut_off && unpacked(&answer.content).is_none(), "{framing}");
    }
}
