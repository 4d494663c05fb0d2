//! Tests of upgrades over HTTP/2, in virtual time.

use std::io::IoSlice;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use thruway_client::http2::{Exchange, Tunnel};
use thruway_client::{Error, RequestToSend, ResponseEvent};
use thruway_http1::{BodyLength, Error as Rule};
use thruway_message::Method;
use thruway_net::Transport;

use crate::http2::{Scene, event, poll};

/// The settings of an upstream server that accepts upgrades and this number of streams.
const fn settings(streams: u8) -> [u8; 21] {
    [0, 0, 12, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams, 0, 8, 0, 0, 0, 1]
}

/// Status 200 on the first stream, which stays open.
const OK: &[u8] = &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88];

const DATA: u8 = 0;
const RST_STREAM: u8 = 3;

fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.send_frames(&[&settings(1)]);
    scene
}

fn start(scene: &mut Scene, lines: &str) -> Result<Exchange, Error> {
    let request =
        RequestToSend { asks_for_upgrade: true, ..RequestToSend::new(Method::Get, BodyLength::NONE) };
    let head = format!("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n{lines}\r\n");
    let write = |output: &mut Vec<u8>| output.extend_from_slice(head.as_bytes());
    let exchange = scene.connection.start(request, Duration::ZERO, write)?;
    assert!(scene.drive().is_pending());
    Ok(exchange)
}

const WEBSOCKET: &str = "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Returns a stream that has become a tunnel.
fn tunnel(scene: &mut Scene) -> Tunnel {
    let mut exchange = start(scene, WEBSOCKET).unwrap();
    scene.send_frames(&[OK]);
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("tunnel".to_owned())));
    scene.kinds();
    exchange.into_tunnel().unwrap()
}

#[test]
fn upgrade_support_is_known_after_the_settings_arrive() {
    for (settings, expected) in [(&settings(9)[..], true), (&[0, 0, 0, 4, 0, 0, 0, 0, 0], false)] {
        let mut scene = Scene::new();
        let connection = scene.connection.clone();
        let mut takes_upgrades = pin!(connection.takes_upgrades());
        assert!(poll(takes_upgrades.as_mut()).is_pending());
        // The frame can arrive in any pieces.
        for byte in settings {
            assert!(poll(takes_upgrades.as_mut()).is_pending());
            scene.send_frames(&[&[*byte]]);
        }
        assert_eq!(poll(takes_upgrades), Poll::Ready(Ok(expected)));
        assert_eq!(poll(pin!(connection.takes_upgrades())), Poll::Ready(Ok(expected)), "later, too");
    }
}

#[test]
fn waiting_for_settings_fails_if_the_connection_closes() {
    let scene = Scene::new();
    let connection = scene.connection.clone();
    let mut takes_upgrades = pin!(connection.takes_upgrades());
    assert!(poll(takes_upgrades.as_mut()).is_pending());
    drop(scene);
    assert_eq!(poll(takes_upgrades), Poll::Ready(Err(Error::ClosedBeforeRequest)));
}

#[test]
fn successful_upgrade_is_reported_as_101_with_upgrade_header() {
    let mut scene = scene();
    let mut exchange = start(&mut scene, WEBSOCKET).unwrap();
    scene.send_frames(&[b"\0\0\x19\x01\x04\0\0\0\x01\x88\0\x14sec-websocket-accept\x01x"]);
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(ResponseEvent::Tunnel(head))) = exchange.poll_event(&mut cx, Duration::ZERO) else {
        panic!("not a tunnel")
    };
    assert_eq!((head.status.as_u16(), head.field("upgrade").unwrap().as_bytes()), (101, &b"websocket"[..]));
    let accepts: Vec<_> =
        head.field_lines.all("sec-websocket-accept").map(|value| value.as_bytes()).collect();
    assert_eq!(accepts, [b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="], "the upstream server's own value is ignored");
    assert!(!exchange.is_complete() && !exchange.wants_content());
}

#[test]
fn tunnel_occupies_a_stream_until_it_ends() {
    let mut scene = scene();
    let mut tunnel = tunnel(&mut scene);
    assert!(!scene.connection.has_capacity(), "the server allows only one stream");
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(tunnel.poll_write(&mut cx, &[IoSlice::new(b"said")]), Poll::Ready(Ok(4))));
    assert!(scene.drive().is_pending());
    assert_eq!(scene.kinds(), [DATA]);
    scene.send_frames(&[b"\0\0\x05\0\x01\0\0\0\x01heard"]);
    let mut bytes = [0; 9];
    assert!(matches!(tunnel.poll_read(&mut cx, &mut bytes), Poll::Ready(Ok(5))));
    assert!(matches!(tunnel.poll_read(&mut cx, &mut bytes), Poll::Ready(Ok(0))));
    assert!(tunnel.poll_shutdown(&mut cx).is_ready());
    drop(tunnel);
    assert!(scene.drive().is_pending());
    assert_eq!(scene.kinds(), [DATA], "and no reset");
    assert!(scene.connection.has_capacity());
}

#[test]
fn dropped_tunnel_resets_its_stream() {
    let mut scene = scene();
    let tunnel = tunnel(&mut scene);
    // The h2 library frees the stream when it is polled again.
    assert!(!scene.connection.has_capacity());
    drop(tunnel);
    assert!(scene.drive().is_pending());
    assert_eq!(scene.kinds(), [RST_STREAM]);
}

#[test]
fn refused_upgrade_ends_the_request_stream() {
    let mut scene = scene();
    let mut exchange = start(&mut scene, WEBSOCKET).unwrap();
    scene.kinds();
    // Status 404 with its body.
    scene.send_frames(&[&[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x8d], b"\0\0\x03\0\x01\0\0\0\x01why"]);
    for expected in ["final 404 Chunked", "content why", "end {}"] {
        assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok(expected.to_owned())));
    }
    assert!(scene.drive().is_pending());
    assert_eq!(scene.kinds(), [DATA]);
    assert!(exchange.into_tunnel().is_none());
}

#[test]
fn invalid_upgrade_requests_are_rejected() {
    for lines in [
        "",
        "Upgrade: web socket\r\n",
        "Upgrade: websocket\r\n",
        "Upgrade: websocket\r\nSec-WebSocket-Key: short\r\n",
        "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Key: x\r\n",
    ] {
        let mut scene = scene();
        assert_eq!(start(&mut scene, lines).unwrap_err(), Error::RequestNotSendable, "{lines}");
    }
    assert!(start(&mut scene(), "Upgrade: a/1, other\r\n").is_ok(), "the first valid protocol name");
}

/// The response was once forwarded as an interim response, and the client would have left HTTP.
#[test]
fn status_101_is_a_protocol_error() {
    let mut scene = Scene::allowing(1);
    let mut exchange = start(&mut scene, WEBSOCKET).unwrap();
    scene.send_frames(&[b"\0\0\x05\x01\x04\0\0\0\x01\x08\x03101"]);
    let unexpected = Error::HeadMalformed(Rule::UnexpectedMessage);
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Err(unexpected)));
}
