//! Streams that become tunnels: CONNECT, and extended CONNECT (RFC 8441).

use std::cell::RefCell;
use std::future::Ready;
use std::rc::Rc;

use bytes::Bytes;
use h2::Reason;
use h2::ext::Protocol;
use http::Request;
use thruway_server::extractors::websocket::{Message, WebSocketUpgrade};
use thruway_server::{
    Config, OwnedRequest, Record, Request as Received, Response, Router, StatusCode, TakeRecord, Tunnel,
};
use thruway_testkit::test_server::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::frames::{self, PROTOCOL_ERROR, connect_http2, received, reset_code};
use super::library::{H2Client, get, send_some};
use crate::gate::Gates;

/// Echoes its input. At the end of the input, it sends `last_bytes` and closes.
async fn echo(mut tunnel: Tunnel) {
    let mut bytes = [0; 1000];
    while let Ok(read @ 1..) = tunnel.read(&mut bytes).await {
        tunnel.write_all(&bytes[..read]).await.unwrap();
    }
    tunnel.write_all(b"farewell").await.unwrap();
    tunnel.shutdown().await.unwrap();
}

/// Returns a server with handlers that would work the same way with HTTP/1.1.
fn scene() -> TestServer {
    TestServer::new(|request: &Received| match request.path() {
        "/chat" if request.wants_upgrade_to("websocket") => {
            let key = request.field("sec-websocket-key").unwrap();
            Response::upgrade("websocket", echo).with_field("Sec-WebSocket-Accept", key.as_bytes())
        }
        "" => Response::tunnel(echo),
        _ => Response::text(format!("{}", request.method())),
    })
}

fn websocket(path: &str) -> Request<()> {
    Request::builder()
        .method("CONNECT")
        .uri(format!("http://a.example{path}"))
        .extension(Protocol::from_static("websocket"))
        .body(())
        .unwrap()
}

#[test]
fn handlers_open_tunnels_for_connect_and_extended_connect() {
    let scene = scene();
    let mut library = H2Client::connect(&scene);
    for request in [websocket("/chat"), Request::connect("a.example:443").body(()).unwrap()] {
        let (mut response, mut to) = library.begin(request, false);
        let (head, mut content) = library.now(&mut response).unwrap().into_parts();
        assert_eq!(head.status.as_u16(), 200);
        for name in ["upgrade", "connection", "sec-websocket-accept", "content-length"] {
            assert!(!head.headers.contains_key(name), "{name}");
        }
        assert_eq!(send_some(&mut library, &mut to, Bytes::from_static(b"hello")), 5);
        assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "hello");
        to.send_data(Bytes::new(), true).unwrap();
        assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "farewell");
        assert_eq!(library.taken(&mut content), 0);
        assert!(content.is_end_stream());
    }
}

/// Returns a server with the extractor `WebSocketUpgrade`, which echoes texts.
fn chat() -> TestServer {
    TestServer::new(Router::new().get("/chat", |upgrade: WebSocketUpgrade| {
        upgrade.protocols(["chat.v1"]).on_upgrade(async |mut socket| {
            while let Some(Ok(message)) = socket.recv().await {
                if matches!(message, Message::Text(_)) {
                    socket.send(message).await.unwrap();
                }
            }
        })
    }))
}

#[test]
fn websocket_extractor_accepts_extended_connect() {
    let scene = chat();
    let mut library = H2Client::connect(&scene);
    let mut request = websocket("/chat");
    request.headers_mut().insert("sec-websocket-version", "13".parse().unwrap());
    request.headers_mut().insert("sec-websocket-protocol", "chat.v2, chat.v1".parse().unwrap());
    let (mut response, mut to) = library.begin(request, false);
    let (head, mut content) = library.now(&mut response).unwrap().into_parts();
    assert_eq!(head.status.as_u16(), 200);
    assert_eq!(head.headers["sec-websocket-protocol"], "chat.v1");
    for name in ["upgrade", "connection", "sec-websocket-accept"] {
        assert!(!head.headers.contains_key(name), "{name}");
    }
    // Frames of RFC 6455 §5.2: a text and a close message from the client are masked, here with zeros.
    send_some(&mut library, &mut to, Bytes::from_static(b"\x81\x85\0\0\0\0hello"));
    assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), b"\x81\x05hello"[..]);
    send_some(&mut library, &mut to, Bytes::from_static(b"\x88\x82\0\0\0\0\x03\xe8"));
    let close = library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap();
    assert_eq!(close, b"\x88\x02\x03\xe8"[..]);
    assert_eq!(library.taken(&mut content), 0);
    assert!(content.is_end_stream());
}

#[test]
fn websocket_extractor_refuses_other_requests_over_http2() {
    let scene = chat();
    let mut library = H2Client::connect(&scene);
    let version = |version: &'static str| {
        let mut request = websocket("/chat");
        request.headers_mut().insert("sec-websocket-version", version.parse().unwrap());
        request
    };
    let mut other_protocol = version("13");
    other_protocol.extensions_mut().insert(Protocol::from_static("connect-udp"));
    for request in [websocket("/chat"), version("8"), other_protocol] {
        let (response, _to) = library.begin(request, false);
        let (head, ..) = library.answer(response);
        assert_eq!(head.status().as_u16(), 426);
        assert!(!head.headers().contains_key("upgrade"));
    }
    assert_eq!(library.get("/chat").0.status().as_u16(), 426);
}

#[test]
fn tunnel_reads_no_more_than_it_can_forward() {
    let scene = scene();
    let mut library = H2Client::connect(&scene);
    let (mut response, mut to) = library.begin(websocket("/chat"), false);
    let mut content = library.now(&mut response).unwrap().into_body();
    // The client does not read the echo, so neither side enlarges its windows.
    let sent = send_some(&mut library, &mut to, Bytes::from(vec![b'x'; 1 << 20]));
    assert!(sent < 256 << 10, "{sent} bytes were accepted");
    let mut back = 0;
    while back < sent {
        let taken = library.taken(&mut content);
        assert!(taken > 0, "{back} of {sent} bytes have come back");
        content.flow_control().release_capacity(taken).unwrap();
        back += taken;
    }
    assert_eq!(back, sent);
}

#[test]
fn extended_connect_without_tunnel_gets_501() {
    let scene = scene();
    let mut library = H2Client::connect(&scene);
    let (response, _to) = library.begin(websocket("/other"), false);
    let (head, content, _) = library.answer(response);
    assert_eq!((head.status().as_u16(), content.as_str()), (501, ""));
}

#[test]
fn tunnel_needs_matching_request_and_response() {
    let scene = TestServer::new(|| Response::upgrade("websocket", echo));
    let (head, ..) = H2Client::connect(&scene).get("/");
    assert_eq!(head.status().as_u16(), StatusCode::UPGRADE_REQUIRED.as_u16());
    let scene = TestServer::new(|| "ok");
    let mut library = H2Client::connect(&scene);
    let (response, _to) = library.begin(Request::connect("a.example:443").body(()).unwrap(), false);
    assert_eq!(
        library.answer(response).0.status().as_u16(),
        501,
        "a CONNECT response without a tunnel must not be a success"
    );
}

#[test]
fn client_reset_ends_its_tunnel() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |_: &Received| {
        let gates = handler.clone();
        Response::tunnel(async move |mut tunnel| {
            let read = tunnel.read(&mut [0]).await;
            assert!(read.is_err(), "the tunnel was aborted");
            gates.pass("over").await;
        })
    });
    let mut library = H2Client::connect(&scene);
    let (mut response, mut to) = library.begin(Request::connect("a.example:443").body(()).unwrap(), false);
    assert!(library.now(&mut response).is_ok());
    to.send_reset(Reason::CANCEL);
    library.run();
    assert_eq!(gates.waiting(), 1, "the handler has noticed the reset");
}

#[test]
fn protocol_with_invalid_name_or_without_connect_is_rejected() {
    for lines in [
        [frames::get("/chat"), vec![(":protocol", "websocket")]].concat(),
        vec![
            (":method", "CONNECT"),
            (":scheme", "http"),
            (":path", "/chat"),
            (":authority", "a.example"),
            (":protocol", "web socket"),
        ],
    ] {
        let scene = scene();
        let mut client = connect_http2(&scene);
        client.send(frames::open_request(1, &lines));
        assert_eq!(reset_code(&received(&mut client), 1), Some(PROTOCOL_ERROR), "{lines:?}");
    }
}

type Records = Rc<RefCell<Vec<(u16, u64, Option<u64>, bool)>>>;

/// Returns a server that responds to every request with `tunnel`, and its access records.
fn recorded(tunnel: fn() -> Response) -> (TestServer, Records) {
    let records = Records::default();
    (TestServer::with(tunnel, Config::default(), Some(take(&records))), records)
}

fn take(records: &Records) -> TakeRecord {
    let taken = records.clone();
    Box::new(move |record: &Record<'_>| {
        let status = record.status.as_u16();
        taken.borrow_mut().push((status, record.content_bytes, record.received_bytes, record.is_complete));
    })
}

/// A tunnel was once recorded at its start, without its byte counts.
#[test]
fn tunnel_is_recorded_at_its_end_with_byte_counts() {
    let (scene, records) = recorded(|| Response::upgrade("websocket", echo));
    let mut library = H2Client::connect(&scene);
    let (mut response, mut to) = library.begin(websocket("/"), false);
    assert!(library.now(&mut response).is_ok());
    assert_eq!(send_some(&mut library, &mut to, Bytes::from_static(b"hello")), 5);
    assert_eq!(*records.borrow(), []);
    to.send_data(Bytes::new(), true).unwrap();
    library.run();
    assert_eq!(*records.borrow(), [(200, 13, Some(5), true)]);
}

#[test]
fn interrupted_tunnel_is_recorded_as_incomplete() {
    let (scene, records) = recorded(|| {
        Response::upgrade("websocket", async |mut tunnel| {
            while let Ok(1..) = tunnel.read(&mut [0; 100]).await {
                tunnel.write_all(b"half").await.unwrap();
            }
        })
    });
    let mut library = H2Client::connect(&scene);
    let (_, mut to) = library.begin(websocket("/"), false);
    send_some(&mut library, &mut to, Bytes::from_static(b"a"));
    to.send_reset(Reason::CANCEL);
    library.run();
    assert_eq!(*records.borrow(), [(200, 4, Some(1), false)], "aborted by the client");
    let (_, mut to) = library.begin(websocket("/"), false);
    send_some(&mut library, &mut to, Bytes::from_static(b"ab"));
    library.server().drop_connection();
    assert_eq!(records.borrow()[1..], [(200, 4, Some(2), false)], "cut off by the drain");
}

/// A panic in a tunnel once ended the task of the connection, and so all its streams.
#[test]
fn panic_in_tunnel_resets_only_that_tunnel() {
    let at_once: fn() -> Response =
        || Response::upgrade("websocket", |_: Tunnel| -> Ready<()> { panic!("before it begins") });
    let later: fn() -> Response = || {
        Response::upgrade("websocket", async |mut tunnel: Tunnel| {
            tunnel.write_all(b"half").await.unwrap();
            tunnel.read_u8().await.unwrap();
            panic!("on the way");
        })
    };
    for (panics, carried) in [(at_once, (0, 0)), (later, (4, 1))] {
        let (gates, records) = (Gates::default(), Records::default());
        let handler = gates.clone();
        let app = Router::new()
            .get("/tunnel", panics)
            .get("/other", move |request: OwnedRequest| handler.clone().answer(request));
        let scene = TestServer::with(app, Config::default(), Some(take(&records)));
        let mut library = H2Client::connect(&scene);
        let (mut other, _) = library.begin(get("/other"), true);
        let (mut response, mut to) = library.begin(websocket("/tunnel"), false);
        let mut content = library.now(&mut response).unwrap().into_body();
        send_some(&mut library, &mut to, Bytes::from_static(b"a"));
        let error = loop {
            match library.now_with(|cx| content.poll_data(cx)).expect("the tunnel should end with an error") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!((error.is_remote(), error.reason()), (true, Some(Reason::CANCEL)));
        assert_eq!(*records.borrow(), [(200, carried.0, Some(carried.1), false)]);
        gates.open("/other");
        assert_eq!(library.now(&mut other).unwrap().status().as_u16(), 200);
    }
}

/// When the handler ended, the server once discarded its unsent data with the stream.
#[test]
fn tunnel_output_is_sent_after_handler_has_returned() {
    let (scene, records) = recorded(|| {
        Response::upgrade("websocket", async |mut tunnel| tunnel.write_all(b"through").await.unwrap())
    });
    let mut library = H2Client::connect(&scene);
    let (mut response, _to) = library.begin(websocket("/"), false);
    let mut content = library.now(&mut response).unwrap().into_body();
    assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "through");
    assert_eq!(library.taken(&mut content), 0);
    assert!(content.is_end_stream());
    assert_eq!(*records.borrow(), [(200, 7, Some(0), true)]);
}
