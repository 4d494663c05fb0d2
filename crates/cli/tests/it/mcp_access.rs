//! Tests of access control in `thruway mcp serve` and `thruway mcp bridge`, and of bridges to servers
//! that are not up yet.

use std::fs;
use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use thruway_testkit::CertificateAuthority;

use crate::process::{Signal, TIMEOUT, Thruway};
use crate::tls::ask_as;

const THRUWAY: &str = env!("CARGO_BIN_EXE_thruway");
const DEMO: [&str; 5] = ["--", THRUWAY, "mcp", "serve", "--stdio"];
const TOKEN: &str = "8pTT0SAqZ9Lw1iW1sVb0iQ==";

fn thruway(args: &[&str]) -> Output {
    Command::new(THRUWAY).arg("mcp").args(args).output().unwrap()
}

/// Creates a token file that only its owner may read.
fn token_file(directory: &Path) -> String {
    let path = directory.join("tokens");
    fs::write(&path, format!("# a comment\n{TOKEN}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

/// The server once listened on any address without a credential. Only the `Host` header kept other machines
/// out, and any program can send `Host: localhost`.
#[test]
fn remote_address_requires_permission_and_a_credential() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = token_file(directory.path());
    let short = directory.path().join("short").display().to_string();
    fs::write(&short, "secret\n").unwrap();
    let bridge = |args: &[&str]| [&["bridge"], args, &DEMO].concat().join(" ");
    let serve = |args: &[&str]| [&["serve"], args].concat().join(" ");
    for (remote, extra, expected) in [
        ("[::]:0", &[][..], "`--allow-remote` is not set"),
        ("192.0.2.1:0", &[], "`--allow-remote` is not set"),
        ("0.0.0.0:0", &["--token-file", &tokens], "`--allow-remote` is not set"),
        ("0.0.0.0:0", &["--allow-remote"], "without a credential"),
        (
            "0.0.0.0:0",
            &["--allow-remote", "--token-file", "/nowhere"],
            "cannot use the token file `/nowhere`",
        ),
        ("0.0.0.0:0", &["--allow-remote", "--token-file", &short], "line 1 is shorter than 16 characters"),
        ("0.0.0.0:0", &["--allow-remote", "--client-ca", "roots.pem"], "--tls-cert"),
        ("0.0.0.0:0", &["--allow-remote", "--tls-cert", "a.pem"], "--tls-key"),
    ] {
        let args = [&["--listen", "127.0.0.1:0", "--listen", remote], extra].concat();
        for line in [bridge(&args), serve(&args)] {
            let output = thruway(&line.split(' ').collect::<Vec<_>>());
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(2) && stderr.contains(expected), "{line}: {stderr}");
            assert!(!stderr.contains("secret"), "{line}: {stderr}");
        }
    }
    let output = thruway(&[&["bridge", "--token-file", &tokens], &DEMO[..]].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("pass `--listen ADDR`"), "{stderr}");
}

/// Sends a message by POST with additional header lines and returns the response.
fn post(address: &str, lines: &str, message: &str) -> String {
    send(address, &request(lines, message))
}

/// Sends a request after which the server closes the connection, and returns the response.
fn send(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn request(lines: &str, message: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         {lines}Content-Length: {}\r\n\r\n{message}",
        message.len()
    )
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{
    "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

#[test]
fn remote_client_needs_a_token_from_the_token_file() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = token_file(directory.path());
    let access = ["--listen", "0.0.0.0:0", "--allow-remote", "--token-file", &tokens];
    let bridge = [&["mcp", "bridge"], &access[..], &DEMO].concat();
    let serve = [&["mcp", "serve"], &access[..]].concat();
    for args in [bridge, serve] {
        let mut server = Thruway::start_in(directory.path(), &args);
        let address = server.address().replace("0.0.0.0", "127.0.0.1");
        let status = |lines: &str| post(&address, lines, INITIALIZE)[9..12].to_owned();
        assert_eq!(status(""), "401");
        assert_eq!(status("Authorization: Bearer 8pTT0SAqZ9Lw1iW1sVb0iQ=\r\n"), "401");
        assert_eq!(status(&format!("Authorization: Basic {TOKEN}\r\n")), "401");
        assert_eq!(status(&format!("Authorization: Bearer {TOKEN}\r\n")), "200");
        let refused = post(&address, "", INITIALIZE);
        assert!(refused.contains("WWW-Authenticate: Bearer\r\n"), "there is no metadata URL: {refused}");
        let stream = send(&address, "GET /sse HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(stream.starts_with("HTTP/1.1 401"), "{stream}");
        let url = format!("{address}/mcp");
        let output = thruway(&["call", &url, "add", "a=1", "b=2", "--bearer", TOKEN]);
        assert!(String::from_utf8(output.stdout).unwrap().contains('3'), "{args:?}");
        server.signal(Signal::TERM);
        let ended = server.end();
        assert!(ended.stderr.contains("tokens cross the network unencrypted"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("chmod 600"), "{}", ended.stderr);
    }
}

#[test]
fn token_file_readable_by_others_logs_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = token_file(directory.path());
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o644)).unwrap();
    let args = ["mcp", "serve", "--listen", "127.0.0.1:0", "--token-file", &tokens];
    let mut server = Thruway::start_in(directory.path(), &args);
    let line = server.wait_for_log("other users may be able to read the token file");
    assert!(line.contains("mode 0644") && line.contains("chmod 600"), "{line}");
}

#[test]
fn client_ca_option_requires_a_client_certificate() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["localhost"]);
    let client = authority.issue_client("client", "client.example");
    let paths = [&files.chain, &files.key, &authority.root()].map(|path| path.display().to_string());
    let [chain, key, root] = paths.each_ref().map(String::as_str);
    let access = [
        "--listen",
        "0.0.0.0:0",
        "--allow-remote",
        "--tls-cert",
        chain,
        "--tls-key",
        key,
        "--client-ca",
        root,
    ];
    let directory = tempfile::tempdir().unwrap();
    for start in [&["mcp", "serve"][..], &["mcp", "bridge"]] {
        let command: &[&str] = if start[1] == "bridge" { &DEMO } else { &[] };
        let mut server = Thruway::start_in(directory.path(), &[start, &access, command].concat());
        let address = server.address().replace("0.0.0.0", "127.0.0.1");
        let request = request("", INITIALIZE);
        let answer = ask_as(&authority, &address, "localhost", Some(&client), &request).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let refused = ask_as(&authority, &address, "localhost", None, &request);
        assert!(refused.is_err() || refused.as_ref().unwrap().is_empty(), "{refused:?}");
    }
}

/// Starts a relay to `address` that closes new connections at once until the flag is set. Returns its URL and
/// the flag.
fn relay_to(address: &str) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let is_open = Arc::new(AtomicBool::new(false));
    let (authority, opened) = (address.strip_prefix("http://").unwrap().to_owned(), is_open.clone());
    thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.unwrap();
            if !opened.load(Ordering::Acquire) {
                continue;
            }
            let far = TcpStream::connect(&authority).unwrap();
            for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                thread::spawn(move || {
                    // Either end may reset the connection.
                    let _ = copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    (url, is_open)
}

/// A bridge once ended with an error if its server was not up yet. Services on one machine had to start in
/// the right order.
#[test]
fn bridge_starts_before_its_server_and_connects_later() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Thruway::start_in(directory.path(), &["mcp", "serve", "--listen", "127.0.0.1:0"]);
    let (url, is_open) = relay_to(&demo.address());
    let mut bridge = Thruway::start_in(directory.path(), &["mcp", "bridge", "--listen", "127.0.0.1:0", &url]);
    let address = bridge.address();
    bridge.wait_for_log("cannot connect to the server behind the bridge, trying again in");
    let refused = post(&address, "", INITIALIZE);
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("Retry-After: "), "{refused}");
    assert!(
        refused.contains(r#""id":7"#) && refused.contains("not connected to its server yet"),
        "{refused}"
    );
    is_open.store(true, Ordering::Release);
    bridge.wait_for_log("connected to the server behind the bridge");
    assert!(post(&address, "", INITIALIZE).starts_with("HTTP/1.1 200"));
    let output = thruway(&["call", &format!("{address}/mcp"), "add", "a=1", "b=2"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains('3'));
    bridge.signal(Signal::TERM);
    assert_eq!(bridge.end().code, Some(0));
}

#[test]
fn unconnected_bridge_exits_on_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let (url, _) = relay_to("http://127.0.0.1:1");
    let mut bridge = Thruway::start_in(directory.path(), &["mcp", "bridge", "--listen", "127.0.0.1:0", &url]);
    bridge.address();
    bridge.signal(Signal::TERM);
    assert_eq!(bridge.end().code, Some(0));
}

/// Retrying would not help: the operator has to change something.
#[test]
fn bridge_to_an_invalid_server_exits_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Thruway::start_in(directory.path(), &["mcp", "serve", "--listen", "127.0.0.1:0"]);
    let elsewhere = format!("{}/elsewhere", demo.address());
    let listen = ["bridge", "--listen", "127.0.0.1:0"];
    for target in [&[elsewhere.as_str()][..], &["http://"], &["--", "/nowhere/to/be/found"], &["--", "false"]]
    {
        let output = thruway(&[&listen, target].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains("error: "), "{target:?}: {stderr}");
    }
}
