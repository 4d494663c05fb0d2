//! Tests of the keys that select the requests of a route. The configs are the examples of the user guide.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;

use tempfile::TempDir;
use thruway_daemon::{Daemon, explain};
use thruway_server::ListenAddr;

use crate::client::{address_of, connect, end};

const GUIDE: &str = include_str!("../../../../docs/guide/gateway.md");

/// Writes the config of the guide that contains `part` to a file. Its listeners get free ports.
fn config_of_guide(part: &str) -> (PathBuf, TempDir) {
    let mut blocks = GUIDE.split("```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let block = blocks.find(|block| block.contains(part)).unwrap();
    let lines = block.lines().map(|line| {
        let line = if line.starts_with("address = ") { "address = \"127.0.0.1:0\"" } else { line };
        format!("{line}\n")
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("site.toml");
    fs::write(&path, format!("workers = 1\n{}", lines.collect::<String>())).unwrap();
    (path, directory)
}

/// Returns the response to a GET for `target` at `host`.
fn ask(address: &ListenAddr, host: &str, target: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn route_with_several_hosts_gets_the_requests_of_each_host() {
    let (path, _directory) = config_of_guide("host = [\"example.com\"");
    let daemon = Daemon::from_file(&path).unwrap();
    let address = address_of(&daemon);
    for (host, expected) in [
        ("example.com", "the site"),
        ("WWW.example.com:80", "the site"),
        ("a.example.com", "Location: https://example.com/x"),
        ("a.example.org", "Location: https://example.com/x"),
        ("example.org", "HTTP/1.1 404 "),
    ] {
        let response = ask(&address, host, "/x");
        assert!(response.contains(expected), "{host}: {response}");
    }
    end(daemon);
}

#[test]
fn explain_shows_the_host_of_a_list_that_matches() {
    let (path, _directory) = config_of_guide("host = [\"example.com\"");
    let text = explain(&path, "GET http://www.example.com/x", &[]).unwrap();
    for expected in [
        "(example.com, www.example.com)/ and below\n    this host, any path: takes the request\n",
        "(*.example.com, *.example.org)/ and below\n    hosts below example.com, any path: would match",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}
