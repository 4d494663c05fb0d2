//! Floods: the server ends expensive connections and does no work for such clients before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thruway_server::{Config, Http2Limits, OwnedRequest, Response};
use thruway_testkit::test_server::{TestClient, TestServer};

use super::frames::*;
use crate::gate::Gates;

/// Returns a server with a handler that waits until its gate is opened, and the number of its calls.
fn scene(limits: Http2Limits) -> (TestServer, Gates, Arc<AtomicUsize>) {
    let (gates, calls) = (Gates::default(), Arc::new(AtomicUsize::new(0)));
    let (handler, counted) = (gates.clone(), calls.clone());
    let handle = move |request: OwnedRequest| {
        counted.fetch_add(1, Ordering::Relaxed);
        handler.clone().answer(request)
    };
    let config = Config { http2: limits, ..Config::default() };
    (TestServer::with_config(handle, config), gates, calls)
}

/// Returns the bytes that a client sends in the given iteration.
type Piece = fn(u32) -> Vec<u8>;

/// Sends pieces until the server ends the connection. Returns their number and the error code of GOAWAY.
fn send_until_end(client: &mut TestClient, piece: impl Fn(u32) -> Vec<u8>) -> (u32, Option<u32>) {
    let mut last = None;
    for n in 0..20_000 {
        client.send(piece(n));
        let frames = received(client);
        last = last.or(goaway_code(&frames));
        if last.is_some() || client.is_closed() {
            return (n, last);
        }
    }
    (20_000, None)
}

#[test]
fn each_kind_of_flood_ends_the_connection() {
    let pieces: [(&str, Piece); 11] = [
        ("settings", |_| frame(SETTINGS, 0, 0, b"")),
        ("pings", |_| frame(PING, 0, 0, b"12345678")),
        ("ping acknowledgments", |_| frame(PING, ACK, 0, b"12345678")),
        ("priorities", |_| frame(PRIORITY, 0, 1, b"\0\0\0\0\0")),
        ("window updates", |_| frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01")),
        ("unknown frames", |_| frame(99, 0, 0, b"")),
        ("rapid resets", |n| {
            let stream = 2 * n + 1;
            [request(stream, &get("/")), frame(RST_STREAM, 0, stream, b"\0\0\0\x08")].concat()
        }),
        ("resets that the server must send", |n| {
            let stream = 2 * n + 1;
            [open_request(stream, &get("/")), frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff")].concat()
        }),
        ("window updates with an increment of 0", |n| {
            let stream = 2 * n + 1;
            [open_request(stream, &get("/")), frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\0")].concat()
        }),
        ("malformed fields", |n| request(2 * n + 1, &[get("/"), vec![("x", "a\r\nb")]].concat())),
        ("malformed paths", |n| request(2 * n + 1, &get("/#"))),
    ];
    for (name, piece) in pieces {
        let (scene, gates, _) = scene(Http2Limits::default());
        let mut client = connect_http2(&scene);
        let (taken, code) = send_until_end(&mut client, piece);
        assert!((100..=2000).contains(&taken), "{name}: {taken} pieces were accepted");
        assert_eq!(code, Some(ENHANCE_YOUR_CALM), "{name}");
        assert_eq!(gates.waiting(), 0, "{name}: the handlers are dropped");
    }
}

/// Such a connection once kept its worker busy until a timeout. The server tried to write GOAWAY, but the
/// client did not read.
#[test]
fn flooding_client_that_does_not_read_is_disconnected() {
    let (scene, ..) = scene(Http2Limits::default());
    let mut client = connect_http2(&scene);
    client.set_receive_capacity(0).send(frame(PING, 0, 0, b"12345678").repeat(2000));
    assert!(!client.is_closed());
    scene.advance_time(Config::default().timeouts.write_stall + Duration::from_secs(1));
    assert!(client.is_closed());
}

#[test]
fn empty_data_frames_are_counted_per_connection() {
    let (scene, ..) = scene(Http2Limits::default());
    let mut client = connect_http2(&scene);
    let outcome = send_until_end(&mut client, |n| {
        let stream = 2 * n + 1;
        [open_request(stream, &get("/")), frame(DATA, 0, stream, b"").repeat(2)].concat()
    });
    assert_eq!(outcome, (50, Some(ENHANCE_YOUR_CALM)));
}

#[test]
fn endless_continuation_frames_end_the_connection() {
    for piece in ["", "\0\u{1}a\u{1}b"] {
        let (scene, _, calls) = scene(Http2Limits::default());
        let mut client = connect_http2(&scene);
        client.send(frame(HEADERS, END_STREAM, 1, fields(&get("/"))));
        let (taken, code) = send_until_end(&mut client, |_| frame(CONTINUATION, 0, 1, piece));
        assert!(taken < 100, "{taken} pieces were accepted");
        assert_eq!(code, Some(ENHANCE_YOUR_CALM));
        assert_eq!(calls.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn hpack_bomb_ends_the_connection() {
    let (scene, _, calls) = scene(Http2Limits::default());
    let mut client = connect_http2(&scene);
    // One field of 4000 bytes goes into the dynamic table. Then each further byte of the block refers to it.
    let mut bomb = fields(&get("/"));
    bomb.extend([0x40, 1, b'x', 127, 0xa1, 0x1e]);
    bomb.extend([b'a'; 4000]);
    bomb.extend([0xbe; 8000]);
    client.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, bomb));
    let frames = received(&mut client);
    assert_eq!(goaway_code(&frames), Some(ENHANCE_YOUR_CALM), "{frames:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[test]
fn requests_reset_at_once_reach_no_handler() {
    let (scene, _, calls) = scene(Http2Limits::default());
    let mut client = connect_http2(&scene);
    let piece = |stream| [request(stream, &get("/")), frame(RST_STREAM, 0, stream, b"\0\0\0\x08")].concat();
    client.send([1, 3, 5].map(piece).concat());
    assert_eq!(goaway_code(&received(&mut client)), None);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    client.send(request(7, &get("/")));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn streams_over_limit_get_refused_stream() {
    let (scene, gates, calls) = scene(Http2Limits { concurrent_streams: 2, ..Http2Limits::default() });
    let mut client = connect_http2(&scene);
    for stream in [1, 3, 5] {
        client.send(request(stream, &get(&format!("/{stream}"))));
    }
    assert_eq!(reset_code(&received(&mut client), 5), Some(REFUSED_STREAM));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    gates.open("/1");
    assert_eq!(status_of(&received(&mut client), 1), Some(200));
    client.send(request(7, &get("/7")));
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[test]
fn all_concurrent_streams_up_to_limit_are_accepted() {
    let (scene, _, calls) = scene(Http2Limits { concurrent_streams: 250, ..Http2Limits::default() });
    let mut client = connect_http2(&scene);
    client.send((0..250).flat_map(|n| request(2 * n + 1, &get("/"))).collect::<Vec<_>>());
    assert_eq!(calls.load(Ordering::Relaxed), 250);
}

#[test]
fn body_beyond_flow_control_window_is_an_error() {
    let (scene, ..) = scene(Http2Limits::default());
    let mut client = connect_http2(&scene);
    client.send(open_request(1, &[get("/"), vec![("x", "y")]].concat()));
    let mut frames = Vec::new();
    // The handler does not read. The server buffers 64 KiB, and the flow-control window allows 64 KiB more.
    for _ in 0..40 {
        client.send(frame(DATA, 0, 1, vec![b'x'; 16 << 10]));
        frames.extend(received(&mut client));
    }
    let code = reset_code(&frames, 1).or(goaway_code(&frames));
    assert_eq!(code, Some(0x3), "FLOW_CONTROL_ERROR: {frames:?}");
}

#[test]
fn well_behaved_client_never_triggers_flood_guard() {
    let scene = TestServer::new(|| Response::text("ok"));
    let mut client = connect_http2(&scene);
    for n in 0..5000 {
        client.send(request(2 * n + 1, &get("/"))).send(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x02"));
        client.send(frame(PING, 0, 0, b"12345678"));
        let frames = received(&mut client);
        assert_eq!(status_of(&frames, 2 * n + 1), Some(200), "request {n}");
    }
}

/// Resets that are still in the send buffer do not count as a flood, but each keeps the state of its stream
/// in memory.
#[test]
fn server_stops_reading_when_unsent_resets_pile_up() {
    let (scene, ..) = scene(Http2Limits { flood_guard: u32::MAX, ..Http2Limits::default() });
    let mut client = connect_http2(&scene);
    client.set_receive_capacity(0);
    let piece = |n: u32| {
        let stream = 2 * n + 1;
        let overflow = frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff");
        [open_request(stream, &get("/")), overflow].concat()
    };
    let mut begun = 0;
    while client.unread() == 0 && begun < 20_000 {
        client.send((begun..begun + 250).flat_map(piece).collect::<Vec<_>>());
        begun += 250;
    }
    assert!((4000..5000).contains(&begun), "{begun} requests were sent");
}

/// `PRIORITY_UPDATE` frames (RFC 9218 §7.1) may refer to streams that are open, closed or not yet opened.
#[test]
fn priority_update_frames_are_accepted() {
    let (scene, gates, calls) = scene(Http2Limits::default());
    let mut client = connect_http2(&scene);
    client.send(request(1, &[get("/1"), vec![("priority", "u=5")]].concat()));
    for stream in [1_u32, 3, 77] {
        client.send(frame(PRIORITY_UPDATE, 0, 0, [&stream.to_be_bytes()[..], b"u=0, i"].concat()));
    }
    client.send(request(3, &get("/3")));
    gates.open("/1");
    gates.open("/3");
    client.send(frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=7"));
    let frames = received(&mut client);
    assert_eq!(
        (status_of(&frames, 1), status_of(&frames, 3), goaway_code(&frames)),
        (Some(200), Some(200), None)
    );
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}
