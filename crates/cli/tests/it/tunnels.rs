//! Tests of CONNECT tunnels.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use crate::process::Thruway;

const EXAMPLE: &str = include_str!("../../../daemon/examples/tunnels.toml");

/// Returns the example config with a free port and with `backend` in place of its servers.
fn example(backend: &TcpListener) -> String {
    EXAMPLE
        .replace("127.0.0.1:3128", "127.0.0.1:0")
        .replace("\"example.com\"", "\"127.0.0.1\"")
        .replace("[443]", &format!("[{}]", backend.local_addr().unwrap().port()))
        .replace("10.1.0.0/16", "127.0.0.0/8")
        + "[access_log]\nformat = \"json\"\npath = \"access.log\"\n"
}

/// Requests a tunnel. Returns the head of the response, and the connection.
fn ask(address: &str, authority: &str, lines: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    (String::from_utf8(head).unwrap(), stream)
}

#[test]
fn tunnels_example_authenticates_forwards_and_logs_tunnels() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &example(&backend));
    let address = thruway.authority();
    let authority = backend.local_addr().unwrap().to_string();
    let (refused, _) = ask(&address, &authority, "");
    assert!(
        refused.starts_with("HTTP/1.1 407 ") && refused.contains("\r\nProxy-Authenticate: Basic "),
        "{refused}"
    );
    let known = "Proxy-Authorization: Basic YWxpOm9wZW4gc2VzYW1l\r\n";
    let (refused, _) = ask(&address, "example.net:443", known);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let (opened, mut client) = ask(&address, &authority, known);
    assert!(opened.starts_with("HTTP/1.1 200 "), "{opened}");
    client.write_all(b"through").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut server = backend.accept().unwrap().0;
    let mut bytes = Vec::new();
    server.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"through");
    server.write_all(b"and back").unwrap();
    drop(server);
    bytes.clear();
    client.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"and back");
    assert_eq!(thruway.terminate().code, Some(0));
    let text = fs::read_to_string(directory.path().join("access.log")).unwrap();
    // Workers write their lines independently, so the order of lines varies.
    let mut lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let line = lines.find(|line| line["http.response.status_code"] == 200).unwrap();
    assert_eq!(
        (&line["http.request.method"], &line["url.path"]),
        (&"CONNECT".into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&line["upstream"], &line["upstream_server"]),
        (&"connect".into(), &authority.as_str().into())
    );
    assert_eq!((&line["http.response.body.size"], &line["received_bytes"]), (&8.into(), &7.into()), "{line}");
}

#[test]
fn explain_shows_which_route_opens_a_tunnel() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), EXAMPLE).unwrap();
    let explain = |request: &str| {
        let ended = Thruway::start_in(directory.path(), &["check", "a.toml", "--explain", request]).end();
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
        ended.stdout
    };
    let tunnel = explain("CONNECT example.com:443");
    let shown = "CONNECT example.com:443: tunnels to example.com, *.example.org, port 443, also to addresses in 10.1.0.0/16\n";
    assert!(tunnel.starts_with(shown), "{tunnel}");
    assert!(explain("GET /").starts_with("GET /: answers 404\n"));
}
