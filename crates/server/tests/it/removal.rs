//! Cleanup after the removal of a listener, and replacement of the handler.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_net::{Clock, Transport};
use thruway_server::{ClientStream, Config, ListenAddr, Listener, Response, ServeStream, Server};

/// Keeps a reference while it serves a stream.
struct Holding(Arc<()>);

impl ServeStream for Holding {
    fn serve(&self, mut client: ClientStream) -> Pin<Box<dyn Future<Output = ()>>> {
        let held = self.0.clone();
        Box::pin(async move {
            // The clients send nothing, so a read only returns at the end of the connection.
            let _ = poll_fn(|cx| client.stream.poll_read(cx, &mut [0])).await;
            drop((client, held));
        })
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    let end = Clock::system().now_exact() + TIMEOUT;
    while !is_so() {
        assert!(Clock::system().now_exact() < end, "the condition was not met within {TIMEOUT:?}");
        std::thread::yield_now();
    }
}

/// An earlier version kept this object until the server ended. In a gateway, the object holds an upstream
/// with its health checks and DNS lookups.
#[test]
fn removed_listener_is_dropped_with_its_last_connection() {
    let held = Arc::new(());
    let is_held: Weak<()> = Arc::downgrade(&held);
    let address = || "127.0.0.1:0".parse::<ListenAddr>().unwrap();
    let server = Server::new(|| Response::text("ok")).workers(2);
    let server =
        server.listen_on(address()).listen_on(Listener::new(address()).streams(Arc::new(Holding(held))));
    let server = server.start().unwrap();
    let [http, streams] = [0, 1].map(|place| match server.addresses()[place] {
        ListenAddr::Tcp(address) => address,
        ListenAddr::Unix(_) => panic!("the listener should have a TCP address"),
    });
    let connections = [(); 4].map(|()| TcpStream::connect(streams).unwrap());
    until(|| server.loads().iter().map(|load| load.connections).sum::<usize>() == connections.len());
    let live = server.live();
    live.replace(Config::default(), live.bind(vec![address().into()]).unwrap());
    let [first, rest @ ..] = connections;
    drop(rest);
    until(|| server.loads().iter().map(|load| load.connections).sum::<usize>() == 1);
    assert!(is_held.upgrade().is_some(), "a connection is still open");
    drop(first);
    until(|| is_held.upgrade().is_none());
    // The cleanup needs no new connection. New connections to the other listener still work.
    let mut client = TcpStream::connect(http).unwrap();
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
    server.drain();
    server.join();
}

/// Sends a request on an open connection, and returns the body of the response.
fn get(client: &mut TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    client.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn request_uses_handler_that_is_current_on_arrival() {
    let server = Server::new(|| "0").workers(2).listen("127.0.0.1:0").unwrap().start().unwrap();
    let ListenAddr::Tcp(address) = server.addresses()[0] else {
        panic!("the listener should have a TCP address")
    };
    let mut clients = [(); 4].map(|()| TcpStream::connect(address).unwrap());
    for handler in 0..50 {
        if handler > 0 {
            server.live().replace_handler(move || handler.to_string());
        }
        for client in &mut clients {
            assert_eq!(get(client), handler.to_string());
        }
    }
    server.drain();
    server.join();
}

/// The handler of a gateway holds its upstreams, with their health checks and DNS lookups.
#[test]
fn replaced_handler_is_dropped_without_further_requests() {
    let held = Arc::new(());
    let is_held = Arc::downgrade(&held);
    let handler = move || Arc::strong_count(&held).to_string();
    let server = Server::new(handler).workers(2).listen("127.0.0.1:0").unwrap().start().unwrap();
    let ListenAddr::Tcp(address) = server.addresses()[0] else {
        panic!("the listener should have a TCP address")
    };
    let mut clients = [(); 4].map(|()| TcpStream::connect(address).unwrap());
    for client in &mut clients {
        get(client);
    }
    assert!(is_held.upgrade().is_some(), "the server uses the handler");
    server.live().replace_handler(|| "new");
    until(|| is_held.upgrade().is_none());
    server.drain();
    server.join();
}

const TIMEOUT: Duration = Duration::from_mins(1);
