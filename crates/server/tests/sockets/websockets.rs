//! The WebSocket extractor over real sockets, with a client library.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

use futures_util::{SinkExt, StreamExt, future};
use thruway_server::extractors::websocket::{
    CloseFrame, Message, WebSocket, WebSocketError, WebSocketUpgrade, close_code,
};
use thruway_server::testing::TestClient;
use thruway_server::{Config, Response, Router, StatusCode};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message as Sent, protocol};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::site::{Site, TIMEOUT, rest};

type Client = WebSocketStream<TcpStream>;
type Received = Option<Result<Message, WebSocketError>>;

/// Receives messages until the end, and passes all of them to the test. Echoes data.
async fn echo(mut socket: WebSocket, report: Sender<Received>) {
    loop {
        let received = socket.recv().await;
        match &received {
            Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                socket.send(message.clone()).await.unwrap();
            }
            Some(_) => {}
            None => return report.send(None).unwrap(),
        }
        report.send(received).unwrap();
    }
}

/// Starts a server with an echo whose messages have at most 1000 bytes, and frames at most 600 bytes.
fn start() -> (Site, Receiver<Received>) {
    let (report, received) = channel();
    let app = Router::new().get("/", move |upgrade: WebSocketUpgrade| {
        let report = report.clone();
        upgrade.max_message_size(1000).max_frame_size(600).on_upgrade(|socket| echo(socket, report))
    });
    (Site::start(app, Config::default()), received)
}

async fn connect(site: &Site) -> Client {
    let stream = TcpStream::connect(site.address).await.unwrap();
    client_async(format!("ws://{}/", site.address), stream).await.unwrap().0
}

async fn receive(client: &mut Client) -> Sent {
    client.next().await.expect("the WebSocket should be open").expect("the message should be valid")
}

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(TIMEOUT, scenario).await })
        .expect("the server should respond");
}

fn close(code: CloseCode, reason: &'static str) -> Sent {
    Sent::Close(Some(protocol::CloseFrame { code, reason: reason.into() }))
}

/// Returns the next message that the handler has received.
fn next(received: &Receiver<Received>) -> Message {
    received.recv_timeout(TIMEOUT).unwrap().unwrap().unwrap()
}

fn error(received: &Receiver<Received>) -> WebSocketError {
    received.recv_timeout(TIMEOUT).unwrap().unwrap().unwrap_err()
}

fn is_ended(received: &Receiver<Received>) -> bool {
    received.recv_timeout(TIMEOUT).unwrap().is_none()
}

#[test]
fn messages_are_echoed_and_pings_are_answered() {
    let (site, received) = start();
    run(async {
        let mut client = connect(&site).await;
        for message in [Sent::text("héllo"), Sent::binary(vec![0, 255]), Sent::text("")] {
            client.send(message.clone()).await.unwrap();
            assert_eq!(receive(&mut client).await, message);
        }
        client.send(Sent::Ping("still there?".into())).await.unwrap();
        assert_eq!(receive(&mut client).await, Sent::Pong("still there?".into()));
        client.send(Sent::Pong("unasked".into())).await.unwrap();
        for expected in [
            Message::text("héllo"),
            Message::binary(vec![0, 255]),
            Message::from(""),
            Message::Ping("still there?".into()),
            Message::Pong("unasked".into()),
        ] {
            assert_eq!(next(&received), expected);
        }
    });
}

#[test]
fn close_of_the_client_is_answered_and_reported() {
    let (site, received) = start();
    run(async {
        let mut client = connect(&site).await;
        let frame = protocol::CloseFrame { code: CloseCode::Away, reason: "leaving".into() };
        client.close(Some(frame)).await.unwrap();
        assert_eq!(receive(&mut client).await, close(CloseCode::Away, "leaving"));
        assert!(client.next().await.is_none());
    });
    assert_eq!(next(&received), Message::Close(Some(CloseFrame::new(close_code::AWAY, "leaving"))));
    assert!(is_ended(&received));
    site.until_open(0);
}

/// The library answers a close message only when the handler receives again, but most handlers end before.
#[test]
fn close_is_answered_even_if_the_handler_ends_at_once() {
    let app = Router::new().get("/", |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket: WebSocket| drop(socket.recv().await))
    });
    let site = Site::start(app, Config::default());
    run(async {
        let mut client = connect(&site).await;
        client.send(close(CloseCode::Normal, "done")).await.unwrap();
        assert_eq!(receive(&mut client).await, close(CloseCode::Normal, "done"));
        assert!(client.next().await.is_none());
    });
}

#[test]
fn handler_can_close_and_receives_the_answer() {
    let (report, received) = channel();
    let app = Router::new().get("/", move |upgrade: WebSocketUpgrade| {
        let report = report.clone();
        upgrade.on_upgrade(async move |mut socket: WebSocket| {
            socket.send(Message::Ping("1".into())).await.unwrap();
            report.send(socket.recv().await).unwrap();
            let frame = CloseFrame::new(close_code::RESTART, "new version");
            socket.send(Message::Close(Some(frame))).await.unwrap();
            assert!(matches!(socket.send(Message::text("late")).await, Err(WebSocketError::Closed)));
            echo(socket, report).await;
        })
    });
    let site = Site::start(app, Config::default());
    run(async {
        let mut client = connect(&site).await;
        assert_eq!(receive(&mut client).await, Sent::Ping("1".into()));
        assert_eq!(receive(&mut client).await, close(CloseCode::Restart, "new version"));
        assert!(client.next().await.is_none());
    });
    assert_eq!(next(&received), Message::Pong("1".into()));
    assert_eq!(next(&received), Message::Close(Some(CloseFrame::new(1012, "new version"))));
    assert!(is_ended(&received));
}

#[test]
fn socket_can_be_split() {
    let app = Router::new().get("/", |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |socket: WebSocket| {
            let (sender, receiver) = socket.split();
            let _ = receiver.forward(sender).await;
        })
    });
    let site = Site::start(app, Config::default());
    run(async {
        let mut client = connect(&site).await;
        client.send(Sent::text("round trip")).await.unwrap();
        assert_eq!(receive(&mut client).await, Sent::text("round trip"));
    });
}

#[test]
fn message_above_the_limit_closes_with_1009() {
    let parts = [
        // A frame above the limit. It does not fit into the buffers of the sockets, so the client still sends
        // when the server closes.
        vec![Sent::binary(vec![0; 16 << 20])],
        // Two frames below the limit, whose message is above the limit.
        vec![
            Sent::Frame(Frame::message(vec![b'a'; 600], OpCode::Data(Data::Text), false)),
            Sent::Frame(Frame::message(vec![b'a'; 401], OpCode::Data(Data::Continue), true)),
        ],
    ];
    for messages in parts {
        let (site, received) = start();
        run(async {
            let (mut sender, mut messages_in) = connect(&site).await.split();
            let send = async {
                for message in messages {
                    let _ = sender.send(message).await;
                }
                future::pending::<()>().await;
            };
            let closed = async {
                assert_eq!(messages_in.next().await.unwrap().unwrap(), close(CloseCode::Size, ""));
            };
            tokio::select! {
                () = send => {}
                () = closed => {}
            }
        });
        assert!(matches!(error(&received), WebSocketError::TooLarge));
        assert!(is_ended(&received));
        site.until_open(0);
    }
}

#[test]
fn message_at_the_limit_is_accepted() {
    let (site, _received) = start();
    run(async {
        let mut client = connect(&site).await;
        for (length, op, is_final) in [(600, Data::Binary, false), (400, Data::Continue, true)] {
            let frame = Frame::message(vec![b'a'; length], OpCode::Data(op), is_final);
            client.send(Sent::Frame(frame)).await.unwrap();
        }
        assert_eq!(receive(&mut client).await, Sent::binary(vec![b'a'; 1000]));
    });
}

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Sends `bytes` after the handshake. Returns the bytes that the server sends after the handshake.
fn answer_to(site: &Site, bytes: &[u8]) -> Vec<u8> {
    let mut stream = site.connect();
    stream.write_all(&[UPGRADE, bytes].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    // RFC 6455 §1.3 has this key and this value.
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    assert!(head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
    answer.split_off(end)
}

#[test]
fn broken_rules_close_with_their_codes() {
    let (site, received) = start();
    // A text frame with the mask 0 and the byte 0xff.
    assert_eq!(answer_to(&site, &[0x81, 0x81, 0, 0, 0, 0, 0xff]), [0x88, 2, 0x03, 0xef]);
    assert!(matches!(error(&received), WebSocketError::NotUtf8));
    assert!(is_ended(&received));
    for broken in [
        &[0x81, 1, b'a'][..],         // not masked
        &[0x83, 0x80, 0, 0, 0, 0],    // an unknown type
        &[0xc1, 0x80, 0, 0, 0, 0],    // a reserved bit
        &[0x80, 0x80, 0, 0, 0, 0],    // a continuation without a start
        &[0x09, 0x80, 0, 0, 0, 0],    // a ping in several frames
        &[0x88, 0x81, 0, 0, 0, 0, 3], // half a close code
    ] {
        assert_eq!(answer_to(&site, broken), [0x88, 2, 0x03, 0xea], "{broken:?}");
        assert!(matches!(error(&received), WebSocketError::Protocol(_)), "{broken:?}");
        assert!(is_ended(&received), "{broken:?}");
    }
}

#[test]
fn lost_connection_is_an_error() {
    let (site, received) = start();
    run(async { drop(connect(&site).await) });
    assert!(matches!(error(&received), WebSocketError::Disconnected | WebSocketError::Io(_)));
    assert!(is_ended(&received));
    site.until_open(0);
}

#[test]
fn first_known_subprotocol_is_selected() {
    let app = Router::new().get("/", |upgrade: WebSocketUpgrade| {
        let offered: Vec<_> = upgrade.requested_protocols().map(str::to_owned).collect();
        let upgrade = upgrade.protocols(["chat.v2", "chat.v1"]);
        let selected = upgrade.selected_protocol().map(str::to_owned);
        upgrade.on_upgrade(async move |mut socket: WebSocket| {
            assert_eq!(socket.protocol(), selected.as_deref());
            let _ = socket.send(Message::text(format!("{offered:?}"))).await;
        })
    });
    let site = Site::start(app, Config::default());
    run(async {
        let connect = async |protocols: &'static str| {
            let mut request = format!("ws://{}/", site.address).into_client_request().unwrap();
            request.headers_mut().insert("Sec-WebSocket-Protocol", protocols.parse().unwrap());
            client_async(request, TcpStream::connect(site.address).await.unwrap()).await
        };
        let (mut client, response) = connect("chat.v1, other,chat.v2").await.unwrap();
        assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "chat.v2");
        assert_eq!(receive(&mut client).await, Sent::text(r#"["chat.v1", "other", "chat.v2"]"#));
        let (_, response) = connect("chat.v1").await.unwrap();
        assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "chat.v1");
        // The library requires one of its protocols.
        let error = connect("other").await.unwrap_err();
        assert!(matches!(error, Error::Protocol(_)), "{error}");
    });
}

#[test]
fn invalid_handshakes_are_rejected() {
    let app =
        || Router::new().any("/", |upgrade: WebSocketUpgrade| upgrade.on_upgrade(|_| future::ready(())));
    let key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let (connection, upgrade) = (("Connection", "upgrade"), ("Upgrade", "websocket"));
    let version = ("Sec-WebSocket-Version", "13");
    let required = (426, Some("websocket"), None);
    let other_version = (426, Some("websocket"), Some("13"));
    run(async {
        let client = TestClient::new(app());
        for (method, headers, expected) in [
            ("GET", vec![connection, upgrade, version, key], (101, Some("websocket"), None)),
            ("GET", vec![], required),
            ("GET", vec![version, key], required),
            ("GET", vec![connection, ("Upgrade", "other"), version, key], required),
            ("GET", vec![connection, upgrade, key], other_version),
            ("GET", vec![connection, upgrade, ("Sec-WebSocket-Version", "12"), key], other_version),
            ("GET", vec![connection, upgrade, version], (400, None, None)),
            ("GET", vec![connection, upgrade, version, key, key], (400, None, None)),
            ("GET", vec![connection, upgrade, version, ("Sec-WebSocket-Key", "c2hvcnQ=")], (400, None, None)),
            ("GET", vec![connection, upgrade, version, ("Sec-WebSocket-Key", "*")], (400, None, None)),
            ("POST", vec![connection, upgrade, version, key], (405, None, None)),
        ] {
            let method = thruway_server::Method::from_token(method.as_bytes()).unwrap();
            let mut request = client.request(method, "/");
            for (name, value) in &headers {
                request = request.header(name, value);
            }
            let response = request.send().await.unwrap();
            let found = (
                response.status().as_u16(),
                response.header("Upgrade"),
                response.header("Sec-WebSocket-Version"),
            );
            assert_eq!(found, expected, "{method} {headers:?}");
        }
    });
}

#[test]
fn handler_can_reject_a_handshake() {
    let app = Router::new().get("/", |upgrade: Result<WebSocketUpgrade, _>| match upgrade {
        Ok(_) => Response::new(StatusCode::FORBIDDEN),
        Err(rejection) => Response::text(format!("{rejection:?}")),
    });
    let site = Site::start(app, Config::default());
    let mut stream = site.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert!(rest(&mut stream).ends_with("\r\n\r\nNotAnUpgrade"));
    run(async {
        let stream = TcpStream::connect(site.address).await.unwrap();
        let error = client_async(format!("ws://{}/", site.address), stream).await.unwrap_err();
        assert!(matches!(error, Error::Http(response) if response.status() == 403));
    });
}
