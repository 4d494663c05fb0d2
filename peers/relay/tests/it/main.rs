//! Tests of the relay process, with simple clients and backends.

mod relay_process;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::thread;

use rustix::process::Signal;

use relay_process::{RelayProcess, unused_address};

/// Echoes the bytes of each connection.
fn echo(listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
}

/// Returns a listener on a free port, and a relay to it.
fn start_with_backend() -> (TcpListener, RelayProcess) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = RelayProcess::with_backend(listener.local_addr().unwrap());
    (listener, relay)
}

fn assert_answers(client: &mut TcpStream, bytes: &[u8]) {
    client.write_all(bytes).unwrap();
    let mut answer = vec![0; bytes.len()];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, bytes);
}

/// Waits for the end of a connection, whether it is closed or reset.
fn assert_ends(stream: &mut TcpStream) {
    match stream.read(&mut [0; 64]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection stays open: {other:?}"),
    }
}

#[test]
fn relay_forwards_requests_and_responses_unchanged() {
    let (backend, relay) = start_with_backend();
    echo(backend);
    let (mut first, mut second) = (relay.connect(), relay.connect());
    for request in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\xff", &[b'x'; 16 * 1024]] {
        assert_answers(&mut first, request);
        assert_answers(&mut second, request);
    }
}

/// A relay that reads only once per request would wait for the next request in the middle of a response.
#[test]
fn response_larger_than_the_buffers_arrives_completely() {
    let (backend, relay) = start_with_backend();
    let content: Vec<u8> = (0..16_u32 << 20).map(|n| (n % 251) as u8).collect();
    let sent = content.clone();
    let backend = thread::spawn(move || {
        let mut upstream = backend.accept().unwrap().0;
        upstream.read_exact(&mut [0; 4]).unwrap();
        upstream.write_all(&sent).unwrap();
        upstream.shutdown(Shutdown::Write).unwrap();
    });
    let mut client = relay.connect();
    client.write_all(b"send").unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert!(received == content, "{} of {} bytes", received.len(), content.len());
    backend.join().unwrap();
}

#[test]
fn client_disconnect_closes_its_backend_connection() {
    let (backend, relay) = start_with_backend();
    let mut client = relay.connect();
    let mut upstream = backend.accept().unwrap().0;
    client.write_all(b"half of a requ").unwrap();
    upstream.read_exact(&mut [0; 14]).unwrap();
    drop(client);
    assert_ends(&mut upstream);
}

#[test]
fn backend_close_disconnects_only_that_client() {
    let (backend, relay) = start_with_backend();
    let mut ended = relay.connect();
    drop(backend.accept().unwrap());
    assert_ends(&mut ended);
    echo(backend);
    assert_answers(&mut relay.connect(), b"still there");
}

#[test]
fn unreachable_backend_disconnects_clients_and_relay_keeps_running() {
    let mut relay = RelayProcess::with_backend(unused_address());
    for _ in 0..3 {
        assert_ends(&mut relay.connect());
    }
    assert_eq!(relay.status(), None);
}

#[test]
fn clients_over_the_descriptor_limit_wait_for_a_free_slot() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Enough file descriptors for two clients and the process itself.
    let mut relay = RelayProcess::with_descriptors(20, listener.local_addr().unwrap());
    echo(listener);
    let mut clients: Vec<_> = (0..20).map(|_| relay.connect()).collect();
    for client in &mut clients {
        client.write_all(b"hello").unwrap();
    }
    for mut client in clients {
        let mut answer = [0; 5];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello");
    }
    assert_eq!(relay.status(), None);
}

#[test]
fn sigterm_stops_the_relay_with_connected_clients() {
    let (backend, mut relay) = start_with_backend();
    echo(backend);
    let mut client = relay.connect();
    assert_answers(&mut client, b"hello");
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().signal(), Some(Signal::TERM.as_raw()));
    assert_ends(&mut client);
}

#[test]
fn invalid_arguments_and_used_addresses_are_rejected() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, code, message) in [
        (
            &["--listen", "here"][..],
            2,
            "error: `here` is not an address of the form `IP:PORT`\n\nhint: `--listen 127.0.0.1",
        ),
        (&["--listen", &address, "--backend", &address], 1, ": Address already in use"),
    ] {
        let output = relay_process::command().args(arguments).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(printed.contains(message), "{printed}");
    }
}
