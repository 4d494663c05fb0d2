//! Clients behind a proxy that uses the PROXY protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use thruway_server::{Config, Listener, Networks, ProxyProtocol, Request, Server, Timeouts};

use crate::site::{GET, Site, rest};

const CLOSING: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// Starts a server that responds with the addresses of the client and of the destination.
fn site(proxy_protocol: ProxyProtocol, config: Config) -> Site {
    let listener = Listener::new("127.0.0.1:0".parse().unwrap()).proxy_protocol(proxy_protocol);
    let app = |request: &Request| {
        let connection = request.connection();
        format!("{} to {:?}", connection.client, connection.destination)
    };
    Site::start_at(listener, app, config)
}

fn trusting_all_networks() -> Site {
    site(ProxyProtocol::default(), Config::default())
}

fn content(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}")).1
}

/// Sends `pieces` in separate writes and returns the response.
fn answer(site: &Site, pieces: &[&[u8]]) -> String {
    let mut stream = site.connect();
    for piece in pieces {
        stream.write_all(piece).unwrap();
    }
    rest(&mut stream)
}

#[test]
fn client_address_comes_from_proxy_header() {
    let site = trusting_all_networks();
    let v1 = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb";
    let expected = "192.0.2.1:56324 to Some(198.51.100.1:443)";
    for header in [&v1[..], &v2[..]] {
        assert_eq!(content(&answer(&site, &[&[header, CLOSING].concat()])), expected);
        let bytes: Vec<_> = header.chunks(1).chain([CLOSING]).collect();
        assert_eq!(content(&answer(&site, &bytes)), expected);
    }
}

#[test]
fn proxy_header_without_address_keeps_socket_address() {
    let site = trusting_all_networks();
    for header in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        let mut stream = site.connect();
        let expected = format!("{} to Some({})", stream.local_addr().unwrap(), site.address);
        stream.write_all(&[header, CLOSING].concat()).unwrap();
        assert_eq!(content(&rest(&mut stream)), expected);
    }
}

#[test]
fn proxy_header_applies_to_all_requests_of_connection() {
    let site = trusting_all_networks();
    let header = b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n";
    let response = answer(&site, &[&[header, GET, CLOSING].concat()]);
    assert_eq!(response.matches("[2001:db8::1]:1 to Some([2001:db8::2]:2)").count(), 2, "{response}");
}

/// Waits until the server has closed the connection. The server must not have sent anything.
fn until_closed(mut stream: TcpStream) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert_eq!(bytes.escape_ascii().to_string(), "");
}

#[test]
fn connection_without_proxy_header_is_closed_without_response() {
    let site = trusting_all_networks();
    for bytes in [GET, b"PROXY TCP4 1.1.1.1\r\n", b"\r\n\r\n\0\r\nQUIT\n\x31\0\0\0", &[b'P'; 200]] {
        let mut stream = site.connect();
        stream.write_all(bytes).unwrap();
        until_closed(stream);
    }
    site.until_open(0);
}

#[test]
fn connection_waiting_for_proxy_header_is_counted_and_times_out() {
    let timeouts = Timeouts { header_section: Duration::from_millis(100), ..Timeouts::default() };
    let site = site(ProxyProtocol::default(), Config { timeouts, ..Config::default() });
    let mut stream = site.connect();
    stream.write_all(b"PROXY TCP4 ").unwrap();
    site.until_open(1);
    until_closed(stream);
    site.until_open(0);
}

/// Silent connections over the limit once kept their places for ten seconds each. Meanwhile, other clients
/// got no error response.
#[test]
fn connection_over_limit_has_shorter_proxy_header_timeout() {
    let timeouts = Timeouts { header_section: Duration::from_hours(1), ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let listener = Listener::new("127.0.0.1:0".parse().unwrap()).proxy_protocol(ProxyProtocol::default());
    let server = Server::new(|_: &Request| "ok").config(config).connections_max(0).workers(1);
    let site = Site::of(server.listen_on(listener));
    let silent = site.connect();
    until_closed(silent);
    site.until_open(0);
}

#[test]
fn drain_does_not_wait_for_proxy_headers() {
    let site = trusting_all_networks();
    let silent = site.connect();
    site.until_open(1);
    site.server.drain();
    until_closed(silent);
    assert!(site.server.join().iter().all(|load| load.connections == 0));
}

#[test]
fn proxy_header_is_accepted_only_from_trusted_networks() {
    let from = |network: &str| ProxyProtocol { from: Networks::from_iter([network.parse().unwrap()]) };
    let header = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";
    let trusting = site(from("127.0.0.0/8"), Config::default());
    let response = answer(&trusting, &[&[header, CLOSING].concat()]);
    assert!(content(&response).starts_with("192.0.2.1:56324 "), "{response}");
    let other = site(from("10.0.0.0/8"), Config::default());
    let stream = other.connect();
    until_closed(stream);
    other.until_open(0);
}
