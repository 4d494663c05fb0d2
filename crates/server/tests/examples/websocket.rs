use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::programs::websocket::app;
use crate::site::{Site, TIMEOUT};

type Client = WebSocketStream<TcpStream>;

/// Connects with a client library that checks `Sec-WebSocket-Accept`.
async fn connect(site: &Site, path: &str) -> Client {
    let stream = TcpStream::connect(site.address).await.unwrap();
    let (client, _) = client_async(format!("ws://{}{path}", site.address), stream).await.unwrap();
    client
}

async fn receive(client: &mut Client) -> Message {
    client.next().await.expect("the connection should be open").expect("the message should be valid")
}

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(TIMEOUT, scenario).await };
    runtime.block_on(bounded).expect("the server should answer");
}

#[test]
fn websocket_echo_returns_each_message() {
    let site = Site::start(app());
    run(async {
        let mut client = connect(&site, "/echo").await;
        for message in [Message::text("héllo"), Message::binary(vec![0; 60_000]), Message::text("")] {
            client.send(message.clone()).await.unwrap();
            assert_eq!(receive(&mut client).await, message);
        }
        client.send(Message::Ping("are you there?".into())).await.unwrap();
        assert_eq!(receive(&mut client).await, Message::Pong("are you there?".into()));
        client.close(None).await.unwrap();
        assert!(receive(&mut client).await.is_close());
        assert!(client.next().await.is_none());
    });
}

#[test]
fn room_message_reaches_all_clients() {
    let site = Site::start(app());
    run(async {
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(&site, "/room").await);
        }
        clients[0].send(Message::text("one")).await.unwrap();
        for client in &mut clients {
            assert_eq!(receive(client).await, Message::text("one"));
        }
        // One client leaves without a close message, another with one. The others stay connected.
        drop(clients.pop());
        clients.pop().unwrap().close(None).await.unwrap();
        clients[1].send(Message::text("two")).await.unwrap();
        for client in &mut clients {
            assert_eq!(receive(client).await, Message::text("two"));
        }
    });
}

#[test]
fn too_large_message_closes_the_connection() {
    let site = Site::start(app());
    run(async {
        let mut client = connect(&site, "/echo").await;
        // The server may close the connection before the client has sent everything.
        let _ = client.send(Message::binary(vec![0; 70_000])).await;
        assert!(!matches!(client.next().await, Some(Ok(Message::Binary(_)))));
        assert_eq!(site.get("/").status, 200);
    });
}

#[test]
fn incomplete_websocket_handshake_is_rejected() {
    let site = Site::start(app());
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut connection = site.connect();
    connection.send(format!(
        "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
         Sec-WebSocket-Version: 13\r\n{key}\r\n"
    ));
    let accepted = connection.read_until("\r\n\r\n");
    assert!(accepted.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{accepted}");
    // Example from RFC 6455 §1.3.
    assert!(accepted.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{accepted}");

    let handshake = |fields: &str| {
        let mut connection = site.connect();
        connection
            .send(format!("GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close, Upgrade\r\n{fields}\r\n"));
        connection.into_reply()
    };
    for fields in ["", "Upgrade: h2c\r\nSec-WebSocket-Version: 13\r\n"] {
        let reply = handshake(&format!("{fields}{key}"));
        assert_eq!((reply.status, reply.field("Upgrade")), (426, Some("websocket")), "{fields:?}");
    }
    let old = handshake(&format!("Upgrade: websocket\r\nSec-WebSocket-Version: 8\r\n{key}"));
    assert_eq!((old.status, old.field("Sec-WebSocket-Version")), (400, Some("13")));
    assert_eq!(handshake("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n").status, 400);
}
