//! Tunnels over real sockets.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use thruway_server::{Config, Response, Router, Server, Timeouts};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::site::{GET, Site, TIMEOUT};

const UPGRADE: &[u8] = b"GET /fill HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: fill\r\n\r\n";

/// Writes until the tunnel accepts no more data. The pieces fit into a batch of sends. Then it sends the number of written bytes to the test and
/// drops the tunnel.
fn fill(sender: Sender<usize>) -> Response {
    Response::upgrade("fill", async move |mut tunnel| {
        let mut written = 0;
        while let Ok(taken) = timeout(Duration::from_millis(50), tunnel.write(&[b'x'; 8_000])).await {
            written += taken.unwrap();
        }
        sender.send(written).unwrap();
    })
}

/// Starts a server with one worker, which handles requests in order.
fn site(write_stall: Duration) -> (Site, Receiver<usize>) {
    let (sender, receiver) = channel();
    let app = Router::new().get("/fill", move || fill(sender.clone())).get("/", || "ok");
    let config = Config { timeouts: Timeouts { write_stall, ..Timeouts::default() }, ..Config::default() };
    let server = Server::new(app).config(config).workers(1).listen("127.0.0.1:0").unwrap();
    (Site::of(server), receiver)
}

/// The server once counted the connection as closed while most of its data was still unsent.
#[test]
fn connection_counts_until_remaining_tunnel_data_is_sent() {
    let (site, receiver) = site(TIMEOUT);
    let mut client = site.connect();
    client.write_all(UPGRADE).unwrap();
    let written = receiver.recv().unwrap();
    let mut other = site.connect();
    other.write_all(GET).unwrap();
    other.read_exact(&mut [0; 15]).unwrap();
    assert_eq!(site.connections(), [2], "after {written} bytes");
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert!(bytes.ends_with(&[b"\r\n\r\n", &vec![b'x'; written][..]].concat()), "{written}");
    site.until_open(1);
}

#[test]
fn client_that_does_not_read_remaining_tunnel_data_is_disconnected() {
    let (site, receiver) = site(Duration::from_millis(100));
    let mut client = site.connect();
    client.write_all(UPGRADE).unwrap();
    receiver.recv().unwrap();
    site.until_open(0);
    let outcome = client.read_to_end(&mut Vec::new());
    assert!(outcome.is_err(), "the response must not look complete");
}
