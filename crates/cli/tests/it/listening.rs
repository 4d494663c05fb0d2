//! Tests of listen addresses that cannot be used, and of sockets left behind by an earlier process.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::client::get;
use crate::process::Thruway;

/// Runs `serve`, which must fail. Returns the exit code and the error message.
fn start_error(directory: &Path, listen: &str) -> (Option<i32>, String) {
    let ended = Thruway::start_in(directory, &["serve", "--listen", listen]).end();
    assert_eq!(ended.stdout, "");
    (ended.code, ended.stderr)
}

#[test]
fn second_server_on_the_same_port_is_an_error() {
    let mut thruway = Thruway::demo(&["--workers", "2"]);
    let address = thruway.address();
    let port = address.strip_prefix("http://").unwrap();
    let expected = format!(
        "error: cannot listen on `{port}`: Address already in use (os error 98)\n\n\
         hint: another process already listens on this port; stop it, or choose another address or port\n"
    );
    assert_eq!(start_error(Path::new("."), port), (Some(2), expected));
    assert_eq!(get(&address, "/ok").text(), "ok");
}

#[test]
fn port_is_reusable_after_its_server_ended() {
    let mut first = Thruway::demo(&[]);
    let address = first.address();
    // The server closes first, so a connection of its port remains in TIME_WAIT.
    get(&address, "/download?bytes=1&close");
    assert_eq!(first.terminate().code, Some(0));
    let port = address.strip_prefix("http://").unwrap();
    let mut second = Thruway::start_in(Path::new("."), &["serve", "--listen", port]);
    assert_eq!(second.address(), address);
}

/// Load balancers probe a port every few seconds: they connect, and close or reset the connection. Each probe
/// once caused a warning. The server does not even accept a connection that the client resets.
#[test]
fn port_probe_without_data_logs_no_warning() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[[listeners]]\naddress = '127.0.0.1:0'\nproxy_protocol = true\n[[routes]]\npath = '/'\ndemo = true\n";
    fs::write(directory.path().join("a.toml"), config).unwrap();
    let log = [("THRUWAY_LOG", "debug")];
    let mut thruway = Thruway::start_with(directory.path(), &["serve", "a.toml"], &log);
    let address = thruway.address();
    for linger in [Some(Duration::ZERO), None] {
        let stream = TcpStream::connect(address.strip_prefix("http://").unwrap()).unwrap();
        set_socket_linger(&stream, linger).unwrap();
        drop(stream);
    }
    let line = thruway.wait_for_log("PROXY header");
    assert!(line.contains("DEBUG") && line.contains("connection ended without"), "{line}");
}

/// Each unsolicited PING acknowledgment once caused a warning of the HTTP/2 library. Clients may send any
/// number of these.
#[test]
fn http2_clients_cannot_fill_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let config =
        "[[listeners]]\naddress = '127.0.0.1:0'\nhttp2 = true\n[[routes]]\npath = '/'\ndemo = true\n";
    fs::write(directory.path().join("a.toml"), config).unwrap();
    for level in ["", "info", "warn,thruway_server=debug"] {
        let log = [("THRUWAY_LOG", level)];
        let mut thruway = Thruway::start_with(directory.path(), &["serve", "a.toml"], &log);
        let mut stream = TcpStream::connect(thruway.authority()).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        let unasked = b"\0\0\x08\x06\x01\0\0\0\0unasked!".repeat(3);
        stream.write_all(&unasked).unwrap();
        stream.write_all(b"\0\0\x08\x06\0\0\0\0\0 is done").unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\x06\x01\0\0\0\0 is done") {
            let mut next = [0];
            stream.read_exact(&mut next).unwrap();
            bytes.extend(next);
        }
        drop(stream);
        let ended = thruway.terminate();
        assert!(!ended.stderr.contains("PING"), "{level}: {}", ended.stderr);
    }
}

#[test]
fn invalid_listener_address_is_an_error() {
    for text in ["8080", "localhost:8080", "127.0.0.1:65536", "unix:"] {
        let expected = format!(
            "error: `{text}` is not a listener address\n\n\
             hint: write an address as `IP:PORT`, such as `127.0.0.1:8080` or `[::1]:8080`, or as `unix:PATH`\n"
        );
        assert_eq!(start_error(Path::new("."), text), (Some(2), expected));
    }
}

#[test]
fn address_of_another_machine_is_an_error() {
    // An address of TEST-NET-1 (RFC 5737), which no machine has.
    let (code, message) = start_error(Path::new("."), "192.0.2.1:0");
    assert_eq!(code, Some(2));
    assert!(message.starts_with("error: cannot listen on `192.0.2.1:0`: "), "{message}");
    assert!(message.ends_with("\n\nhint: choose an address of this machine\n"), "{message}");
}

#[test]
fn duplicate_address_is_an_error() {
    let args = ["serve", "--listen", "unix:socket", "--listen", "unix:socket"];
    let ended = Thruway::start_in(Path::new("."), &args).end();
    let expected = "error: another listener has the address `unix:socket`\n\nhint: remove the second listener, or give it another address\n";
    assert_eq!((ended.code, &*ended.stderr), (Some(2), expected));
}

#[test]
fn stale_unix_socket_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let mut thruway = Thruway::start_in(directory.path(), &["serve", "--listen", "unix:socket"]);
    assert_eq!(thruway.address(), "unix:socket");
    assert_eq!(get(&format!("unix:{}", path.display()), "/ok").text(), "ok");
    assert_eq!(thruway.terminate().code, Some(0));
    assert!(!path.exists());
}

#[test]
fn unix_socket_in_use_is_kept_and_start_fails() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = Thruway::start_in(directory.path(), &["serve", "--listen", "unix:socket"]);
    first.address();
    let (code, message) = start_error(directory.path(), "unix:socket");
    assert_eq!(code, Some(2));
    let hint = "\n\nhint: another process already listens on this path; stop it, or choose another path\n";
    assert!(message.ends_with(hint), "{message}");
    let address = format!("unix:{}", directory.path().join("socket").display());
    assert_eq!(get(&address, "/ok").text(), "ok");
}

#[test]
fn file_that_is_not_a_socket_is_kept_and_start_fails() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "precious").unwrap();
    let (code, message) = start_error(directory.path(), "unix:file");
    assert_eq!(code, Some(2));
    let hint =
        "\n\nhint: a file that is not a socket exists at this path; remove it, or choose another path\n";
    assert!(message.ends_with(hint), "{message}");
    assert_eq!(fs::read_to_string(directory.path().join("file")).unwrap(), "precious");
}

#[test]
fn failed_listener_closes_the_other_listeners() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["serve", "--listen", "unix:socket", "--listen", "unix:none/socket"];
    let ended = Thruway::start_in(directory.path(), &args).end();
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.ends_with("\n\nhint: choose a path in a directory that exists\n"),
        "{}",
        ended.stderr
    );
    assert!(!directory.path().join("socket").exists());
}
