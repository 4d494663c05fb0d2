//! Timeouts and shutdown of connections.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use thruway_server::{
    AtDrain, BoxError, Config, Content, ContentStream, HttpProtocol, Limits, OwnedRequest, Piece, Request,
    Response,
};
use thruway_testkit::test_server::TestServer;

use super::frames::*;
use super::library::{self, H2Client, post, send_some};
use crate::gate::Gates;
use crate::timeouts::{collect, reading_while_responding};

/// Returns a server that responds with the path after the gate of that name has been opened.
fn gated() -> (TestServer, Gates) {
    let gates = Gates::default();
    let handler = gates.clone();
    (TestServer::new(move |request: OwnedRequest| handler.clone().answer(request)), gates)
}

#[test]
fn idle_connection_is_closed_with_goaway() {
    let scene = TestServer::new(|| "ok");
    let mut client = connect_http2(&scene);
    scene.advance_time(Duration::from_secs(50));
    client.send(request(1, &get("/")));
    assert_eq!(status_of(&received(&mut client), 1), Some(200));
    // A PING does not count as a request.
    scene.advance_time(Duration::from_secs(50));
    client.send(frame(PING, 0, 0, b"12345678"));
    assert_eq!(goaway_code(&received(&mut client)), None);
    scene.advance_time(Duration::from_secs(11));
    assert_eq!(goaway_code(&received(&mut client)), Some(NO_ERROR));
    assert!(client.is_finished() && !client.is_closed());
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn silent_connection_is_closed_after_timeout() {
    let scene = TestServer::new(|| "ok");
    let (mut silent, mut slow) = (scene.connect_detecting_protocol(), scene.connect_detecting_protocol());
    let mut unsettled = scene.connect_detecting_protocol();
    slow.send("PRI * HT");
    unsettled.send(&PREFACE[..20]);
    unsettled.send(&PREFACE[20..]);
    scene.advance_time(Duration::from_millis(10_300));
    assert!(slow.is_closed(), "the preface has begun");
    assert!(!silent.is_closed());
    scene.advance_time(Duration::from_millis(50_300));
    assert!(silent.is_closed() && unsettled.is_finished());
}

#[test]
fn http1_and_http2_share_one_listener() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect_detecting_protocol();
    client.limit_read_size(1).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.received().starts_with("HTTP/1.1 200 OK\r\n"));
    let mut client = scene.connect_detecting_protocol();
    client.limit_read_size(1).send(PREFACE).send(frame(SETTINGS, 0, 0, b"")).send(request(1, &get("/")));
    assert_eq!(status_of(&received(&mut client), 1), Some(200));
}

#[test]
fn http2_only_connection_without_preface_is_closed_at_once() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect_with_protocol(HttpProtocol::Http2);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.is_finished());
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn slow_header_section_ends_the_connection() {
    for begun in [&request(1, &get("/"))[..5], &frame(HEADERS, END_STREAM, 1, fields(&get("/")))] {
        let scene = TestServer::new(|| "ok");
        let mut client = connect_http2(&scene);
        client.send(begun);
        scene.advance_time(Duration::from_secs(9));
        assert!(!client.is_finished());
        scene.advance_time(Duration::from_millis(1300));
        assert_eq!(goaway_code(&received(&mut client)), Some(ENHANCE_YOUR_CALM));
    }
}

#[test]
fn slow_handler_has_no_timeout() {
    let (scene, gates) = gated();
    let mut client = connect_http2(&scene);
    client.send(request(1, &get("/")));
    scene.advance_time(Duration::from_mins(10));
    gates.open("/");
    assert_eq!(status_of(&received(&mut client), 1), Some(200));
}

/// After a few megabytes, a stream could once be silent for hours, and the server kept its data. A connection
/// could have many such streams.
#[test]
fn fast_uploads_that_stall_or_slow_to_single_bytes_get_408() {
    let scene = TestServer::new(collect);
    let mut library = H2Client::connect(&scene);
    let mut streams: Vec<_> = (0..3).map(|_| library.begin(post("/"), false)).collect();
    for (response, body) in &mut streams {
        body.send_data(Bytes::from(vec![b'x'; 1 << 20]), false).unwrap();
        assert!(library.waits(response));
    }
    scene.advance_time(Duration::from_secs(19));
    let [silent, drips, sends] = &mut streams[..] else { unreachable!() };
    drips.1.send_data(Bytes::from_static(b"x"), false).unwrap();
    sends.1.send_data(Bytes::from(vec![b'x'; 10_000]), false).unwrap();
    assert!([silent, drips, sends].into_iter().all(|(response, _)| library.waits(response)));
    scene.advance_time(Duration::from_secs(2));
    let mut streams = streams.into_iter();
    for (response, _body) in streams.by_ref().take(2) {
        assert_eq!(library.answer(response).0.status().as_u16(), 408);
    }
    let (response, mut body) = streams.next().unwrap();
    body.send_data(Bytes::new(), true).unwrap();
    assert_eq!(library.answer(response).1, ((1 << 20) + 10_000).to_string());
}

#[test]
fn slow_body_gets_408_and_other_streams_continue() {
    let scene = TestServer::new(collect);
    let mut library = H2Client::connect(&scene);
    let (mut slow, mut to) = library.begin(post("/"), false);
    for _ in 0..19 {
        scene.advance_time(Duration::from_secs(1));
        to.send_data(Bytes::from_static(b"x"), false).unwrap();
        assert!(library.waits(&mut slow));
    }
    let (fast, mut to_fast) = library.begin(post("/"), false);
    scene.advance_time(Duration::from_secs(2));
    assert_eq!(library.answer(slow).0.status().as_u16(), 408);
    to_fast.send_data(Bytes::from_static(b"ok"), true).unwrap();
    assert_eq!(library.answer(fast).1, "2");
}

#[test]
fn stream_without_window_updates_is_reset() {
    let scene = TestServer::new(|request: &Request| match request.path() {
        "/large" => "x".repeat(1 << 20),
        _ => "ok".to_owned(),
    });
    let mut client = connect_http2(&scene);
    client.send(request(1, &get("/large")));
    received(&mut client);
    scene.advance_time(Duration::from_secs(20));
    client.send(frame(WINDOW_UPDATE, 0, 1, b"\0\0\x10\0")).send(frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0"));
    assert!(!received(&mut client).is_empty(), "the client enlarged its window");
    scene.advance_time(Duration::from_secs(20));
    assert_eq!(reset_code(&received(&mut client), 1), None, "the client reads slowly");
    scene.advance_time(Duration::from_secs(11));
    assert_eq!(reset_code(&received(&mut client), 1), Some(CANCEL));
    client.send(frame(WINDOW_UPDATE, 0, 0, b"\0\x01\0\0")).send(request(3, &get("/")));
    assert_eq!(status_of(&received(&mut client), 3), Some(200));
}

#[test]
fn client_that_never_reads_is_disconnected() {
    let scene = TestServer::new(|| "ok");
    let mut client = connect_http2(&scene);
    client.set_receive_capacity(3).send(request(1, &get("/")));
    scene.advance_time(Duration::from_secs(29));
    assert!(!client.is_closed());
    scene.advance_time(Duration::from_secs(2));
    assert!(client.is_closed() && client.is_unsent_discarded());
}

#[test]
fn drain_sends_goaway_and_answers_accepted_streams() {
    let (scene, gates) = gated();
    let mut client = connect_http2(&scene);
    client.send(request(1, &get("/first")));
    scene.drain();
    let frames = received(&mut client);
    assert_eq!(goaway_code(&frames), Some(NO_ERROR));
    let goaway = frames.iter().find(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(goaway.content[..4], [0x7f, 0xff, 0xff, 0xff], "requests in flight are also answered");
    let ping = frames.iter().find(|frame| frame.kind == PING).unwrap().content.clone();
    client.send(request(3, &get("/second"))).send(frame(PING, ACK, 0, ping));
    let frames = received(&mut client);
    let goaway = frames.iter().find(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(goaway.content[..4], [0, 0, 0, 3]);
    gates.open("/first");
    gates.open("/second");
    let frames = received(&mut client);
    assert_eq!((status_of(&frames, 1), status_of(&frames, 3)), (Some(200), Some(200)));
    assert!(client.is_finished());
    client.finish();
    assert!(client.is_closed());
}

/// A drain once treated a connection without open streams as idle, although the client had not read all
/// responses.
#[test]
fn drain_waits_until_client_has_read_responses() {
    let scene = TestServer::new(|| "x".repeat(60_000));
    let mut client = connect_http2(&scene);
    client.set_receive_capacity(1000).send(request(1, &get("/")));
    scene.drain();
    let mut bytes = client.received_bytes();
    while String::from_utf8_lossy(&bytes).matches('x').count() < 60_000 {
        scene.advance_time(Duration::from_secs(5));
        assert!(!client.is_closed() && !client.is_finished(), "after {} bytes", bytes.len());
        client.add_receive_capacity(1000);
        bytes.extend(client.received_bytes());
    }
    scene.advance_time(Duration::from_millis(1500));
    assert!(!client.is_finished(), "the client has time to acknowledge the last data");
    scene.advance_time(Duration::from_millis(800));
    assert!(client.is_finished());
}

#[test]
fn drain_closes_silent_connections_soon() {
    let scene = TestServer::new(|| "ok");
    let mut client = connect_http2(&scene);
    scene.drain();
    assert_eq!(goaway_code(&received(&mut client)), Some(NO_ERROR));
    scene.advance_time(Duration::from_millis(2300));
    assert!(client.is_finished());
    scene.advance_time(Duration::from_millis(2300));
    assert!(client.is_closed());
}

/// If the client had no window for the response, the server once did not read the request body.
#[test]
fn client_may_send_whole_body_before_reading_response() {
    let (scene, taken) = reading_while_responding();
    let mut library = H2Client::connect(&scene);
    let (response, mut to) = library.begin(post("/"), false);
    for n in 1..=100 {
        scene.advance_time(Duration::from_secs(1));
        assert_eq!(send_some(&mut library, &mut to, Bytes::from(vec![b'x'; 1000])), 1000);
        assert_eq!(taken.load(Ordering::Relaxed), n * 1000);
    }
    to.send_data(Bytes::new(), true).unwrap();
    assert_eq!(library.answer(response).1.len(), 1_000_000);
}

#[test]
fn body_timeout_applies_while_client_does_not_read_response() {
    let (scene, taken) = reading_while_responding();
    let mut library = H2Client::connect(&scene);
    let (mut response, mut to) = library.begin(post("/"), false);
    to.send_data(Bytes::from_static(b"slowly"), false).unwrap();
    let mut content = library.now(&mut response).unwrap().into_body();
    assert!(library.taken(&mut content) > 0);
    // Within the time that a client has to read the response.
    scene.advance_time(Duration::from_secs(25));
    assert!(library.now_with(|cx| content.poll_data(cx)).unwrap().is_err());
    assert_eq!(taken.load(Ordering::Relaxed), "slowly".len());
}

/// An endless stream.
struct Events;

impl ContentStream for Events {
    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        Poll::Pending
    }

    fn at_drain(self: Pin<&mut Self>) -> AtDrain {
        AtDrain::Ends(Bytes::from_static(b"farewell"))
    }
}

#[test]
fn drain_ends_endless_streams() {
    let scene = TestServer::new(|| Response::text(Content::from_content_stream(Events)));
    let mut library = H2Client::connect(&scene);
    let (mut response, _) = library.begin(library::get("/"), true);
    assert!(library.now(&mut response).is_ok());
    let (mut response, _) = library.begin(library::get("/"), true);
    let mut content = library.now(&mut response).unwrap().into_body();
    assert!(library.waits(&mut std::future::poll_fn(|cx| content.poll_data(cx))));
    scene.drain();
    assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "farewell");
    assert_eq!(library.taken(&mut content), 0);
    assert!(content.is_end_stream(), "the stream has ended normally");
    drop(content);
    assert!(library.is_over());
}

#[test]
fn requests_per_connection_limit_sends_goaway() {
    let limits = Limits { requests_per_connection: 2, ..Limits::default() };
    let scene = TestServer::with_config(|| "ok", Config { limits, ..Config::default() });
    let mut client = connect_http2(&scene);
    client.send(request(1, &get("/")));
    assert_eq!(goaway_code(&received(&mut client)), None);
    client.send(request(3, &get("/")));
    let frames = received(&mut client);
    assert_eq!((status_of(&frames, 3), goaway_code(&frames)), (Some(200), Some(NO_ERROR)));
}

#[test]
fn connection_over_limit_gets_503() {
    let scene = TestServer::new(|| "ok");
    let mut library = H2Client::connect_over_limit(&scene);
    let (head, ..) = library.get("/");
    assert_eq!((head.status().as_u16(), head.headers()["retry-after"].as_bytes()), (503, &b"5"[..]));
    assert!(library.is_over());
}

#[test]
fn broken_connection_drops_its_handlers() {
    let (scene, gates) = gated();
    let mut client = connect_http2(&scene);
    client.send(request(1, &get("/first"))).send(request(3, &get("/second")));
    assert_eq!(gates.waiting(), 2);
    client.reset();
    assert!(client.is_closed());
    assert_eq!(gates.waiting(), 0);
}

#[test]
fn streamed_body_is_sent_as_it_is_produced() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move || {
        let gates = handler.clone();
        Response::text(Content::written_by(async move |mut to| {
            to.write("one").await;
            gates.pass("two").await;
            to.write("two").await;
            Ok(())
        }))
    });
    let mut library = H2Client::connect(&scene);
    let (mut response, _) = library.begin(library::get("/"), true);
    let mut content = library.now(&mut response).unwrap().into_body();
    assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "one");
    assert!(library.waits(&mut std::future::poll_fn(|cx| content.poll_data(cx))));
    gates.open("two");
    assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "two");
    assert_eq!(library.taken(&mut content), 0);
    assert!(content.is_end_stream());
}
