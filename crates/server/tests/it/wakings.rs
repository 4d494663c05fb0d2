//! The server must notice new data on a socket, whatever caused its last wakeup.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use thruway_server::{IntoHandler, OwnedRequest, Server};
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;

/// Sends twenty requests in sequence on one connection. `handler` responds `ok`.
fn send_requests_in_sequence<M>(handler: impl IntoHandler<M>) {
    let server = Server::new(handler).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let mut client = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    for _ in 0..20 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("the server should respond within the timeout");
            answer.push(byte[0]);
        }
    }
    drop(client);
    server.drain();
    server.join();
}

#[test]
fn next_request_is_noticed_after_handler_wakeups() {
    send_requests_in_sequence(async |_: OwnedRequest| {
        for _ in 0..5 {
            yield_now().await;
        }
        "ok"
    });
}

/// When a task has used up its tokio budget, reads on its sockets return `Pending` without registering a
/// waker.
#[test]
fn next_request_is_noticed_after_handler_exhausted_tokio_budget() {
    send_requests_in_sequence(async |_: OwnedRequest| {
        for _ in 0..500 {
            consume_budget().await;
        }
        "ok"
    });
}

const TIMEOUT: Duration = Duration::from_mins(1);
