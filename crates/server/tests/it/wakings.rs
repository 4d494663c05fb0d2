//! The server must notice new data on a socket, whatever caused its last wakeup.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use thruway_server::{IntoHandler, OwnedRequest, Server};
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;

/// Sends twenty requests in sequence on one connection. `handler` responds `ok`.
fn ask_again_and_again<M>(handler: impl IntoHandler<M>) {
    let server = Server::new(handler).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let mut client = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..20 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("an answer should have come by now");
            answer.push(byte[0]);
        }
    }
    drop(client);
    server.drain();
    server.join();
}

#[test]
fn a_client_is_heard_whose_last_request_was_answered_without_it() {
    ask_again_and_again(async |_: OwnedRequest| {
        for _ in 0..5 {
            yield_now().await;
        }
        "ok"
    });
}

/// When a task has used up its tokio budget, reads on its sockets return `Pending` without registering a
/// waker.
#[test]
fn a_client_is_heard_after_a_handler_that_has_spent_all_that_its_task_may() {
    ask_again_and_again(async |_: OwnedRequest| {
        for _ in 0..500 {
            consume_budget().await;
        }
        "ok"
    });
}

const PATIENCE: Duration = Duration::from_mins(1);
