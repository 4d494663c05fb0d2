//! Listeners with HTTP/2.

use std::io::{Read, Write};
use std::net::TcpStream;

use thruway_server::{Config, ListenAddr, Listener};

use crate::site::{GET, Site, rest};

const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A GET request for `/` on host `a`. The host is encoded as a literal.
const REQUEST: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x84\x86\x01\x01a";

fn listener() -> Listener {
    Listener::new("127.0.0.1:0".parse::<ListenAddr>().unwrap())
}

/// Skips frames until one of this type arrives. Returns its flags and payload.
fn until_frame(stream: &mut TcpStream, wanted: u8) -> (u8, Vec<u8>) {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut content = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut content).unwrap();
        if head[3] == wanted {
            return (head[4], content);
        }
    }
}

/// Sends a GET request over HTTP/2 and checks the response.
fn is_answered(stream: &mut TcpStream) -> bool {
    stream.write_all(PREFACE_AND_SETTINGS).unwrap();
    stream.write_all(REQUEST).unwrap();
    until_frame(stream, 0).1 == b"ok"
}

#[test]
fn first_bytes_select_http1_or_http2() {
    let site = Site::start_at(listener().http2(), || "ok", Config::default());
    let mut http2 = site.connect();
    assert!(is_answered(&mut http2));
    let mut http1 = site.connect();
    http1.write_all(GET).unwrap();
    site.until_open(2);
    site.server.drain();
    assert!(rest(&mut http1).ends_with("ok"));
    assert_eq!(until_frame(&mut http2, 7).1[4..], [0, 0, 0, 0], "GOAWAY has no error code");
    drop(http2);
    assert_eq!(site.server.join().iter().map(|load| load.connections).sum::<usize>(), 0);
}

#[test]
fn http2_only_listener_rejects_http1() {
    let site = Site::start_at(listener().http2_only(), || "ok", Config::default());
    assert!(is_answered(&mut site.connect()));
    let mut http1 = site.connect();
    http1.write_all(GET).unwrap();
    let mut bytes = Vec::new();
    // The read may fail, because the server closes with unread data.
    drop(http1.read_to_end(&mut bytes));
    assert!(!bytes.windows(4).any(|window| window == b"HTTP"), "{}", bytes.escape_ascii());
}
