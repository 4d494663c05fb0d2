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
use thruway_testkit::scene::Scene;

use super::frames::*;
use super::library::{self, Library, post, send_some};
use crate::gate::Gates;
use crate::timeouts::{collect, taking};

/// Returns a server that responds with the path after the gate of that name has been opened.
fn gated() -> (Scene, Gates) {
    let gates = Gates::default();
    let handler = gates.clone();
    (Scene::new(move |request: OwnedRequest| handler.clone().answer(request)), gates)
}

#[test]
fn a_connection_without_requests_is_closed_with_a_word() {
    let scene = Scene::new(|| "ok");
    let mut client = greeted(&scene);
    scene.pass(Duration::from_secs(50));
    client.send(request(1, &get("/")));
    assert_eq!(status_of(&received(&mut client), 1), Some(200));
    // A PING does not count as a request.
    scene.pass(Duration::from_secs(50));
    client.send(frame(PING, 0, 0, b"12345678"));
    assert_eq!(end_of(&received(&mut client)), None);
    scene.pass(Duration::from_secs(11));
    assert_eq!(end_of(&received(&mut client)), Some(NO_ERROR));
    assert!(client.is_finished() && !client.is_closed());
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn a_client_that_says_nothing_is_closed_at_last() {
    let scene = Scene::new(|| "ok");
    let (mut silent, mut slow) = (scene.connect_recognised(), scene.connect_recognised());
    let mut unsettled = scene.connect_recognised();
    slow.send("PRI * HT");
    unsettled.send(&PREFACE[..20]);
    unsettled.send(&PREFACE[20..]);
    scene.pass(Duration::from_millis(10_300));
    assert!(slow.is_closed(), "it has begun");
    assert!(!silent.is_closed());
    scene.pass(Duration::from_millis(50_300));
    assert!(silent.is_closed() && unsettled.is_finished());
}

#[test]
fn http11_is_spoken_where_http2_is() {
    let scene = Scene::new(|| "ok");
    let mut client = scene.connect_recognised();
    client.cut_into(1).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.received().starts_with("HTTP/1.1 200 OK\r\n"));
    let mut client = scene.connect_recognised();
    client.cut_into(1).send(PREFACE).send(frame(SETTINGS, 0, 0, b"")).send(request(1, &get("/")));
    assert_eq!(status_of(&received(&mut client), 1), Some(200));
}

#[test]
fn what_is_no_preface_is_closed_at_once_where_nothing_else_is_spoken() {
    let scene = Scene::new(|| "ok");
    let mut client = scene.connect_as(HttpProtocol::Http2);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.is_finished());
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn a_header_section_that_drips_ends_the_connection() {
    for begun in [&request(1, &get("/"))[..5], &frame(HEADERS, END_STREAM, 1, fields(&get("/")))] {
        let scene = Scene::new(|| "ok");
        let mut client = greeted(&scene);
        client.send(begun);
        scene.pass(Duration::from_secs(9));
        assert!(!client.is_finished());
        scene.pass(Duration::from_millis(1300));
        assert_eq!(end_of(&received(&mut client)), Some(ENHANCE_YOUR_CALM));
    }
}

#[test]
fn a_handler_may_take_its_time() {
    let (scene, gates) = gated();
    let mut client = greeted(&scene);
    client.send(request(1, &get("/")));
    scene.pass(Duration::from_mins(10));
    gates.open("/");
    assert_eq!(status_of(&received(&mut client), 1), Some(200));
}

/// After a few megabytes, a stream could once be silent for hours, and the server kept its data. A connection
/// could have many such streams.
#[test]
fn streams_whose_body_arrived_fast_must_not_fall_silent() {
    let scene = Scene::new(collect);
    let mut library = Library::connect(&scene);
    let mut streams: Vec<_> = (0..3).map(|_| library.begin(post("/"), false)).collect();
    for (response, body) in &mut streams {
        body.send_data(Bytes::from(vec![b'x'; 1 << 20]), false).unwrap();
        assert!(library.waits(response));
    }
    scene.pass(Duration::from_secs(19));
    let [silent, drips, sends] = &mut streams[..] else { unreachable!() };
    drips.1.send_data(Bytes::from_static(b"x"), false).unwrap();
    sends.1.send_data(Bytes::from(vec![b'x'; 10_000]), false).unwrap();
    assert!([silent, drips, sends].into_iter().all(|(response, _)| library.waits(response)));
    scene.pass(Duration::from_secs(2));
    let mut streams = streams.into_iter();
    for (response, _body) in streams.by_ref().take(2) {
        assert_eq!(library.answer(response).0.status().as_u16(), 408);
    }
    let (response, mut body) = streams.next().unwrap();
    body.send_data(Bytes::new(), true).unwrap();
    assert_eq!(library.answer(response).1, ((1 << 20) + 10_000).to_string());
}

#[test]
fn content_that_drips_is_given_up_and_other_streams_are_not() {
    let scene = Scene::new(collect);
    let mut library = Library::connect(&scene);
    let (mut slow, mut to) = library.begin(post("/"), false);
    for _ in 0..19 {
        scene.pass(Duration::from_secs(1));
        to.send_data(Bytes::from_static(b"x"), false).unwrap();
        assert!(library.waits(&mut slow));
    }
    let (fast, mut to_fast) = library.begin(post("/"), false);
    scene.pass(Duration::from_secs(2));
    assert_eq!(library.answer(slow).0.status().as_u16(), 408);
    to_fast.send_data(Bytes::from_static(b"ok"), true).unwrap();
    assert_eq!(library.answer(fast).1, "2");
}

#[test]
fn a_stream_whose_client_opens_no_window_is_given_up() {
    let scene = Scene::new(|request: &Request| match request.path() {
        "/large" => "x".repeat(1 << 20),
        _ => "ok".to_owned(),
    });
    let mut client = greeted(&scene);
    client.send(request(1, &get("/large")));
    received(&mut client);
    scene.pass(Duration::from_secs(20));
    client.send(frame(WINDOW_UPDATE, 0, 1, b"\0\0\x10\0")).send(frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0"));
    assert!(!received(&mut client).is_empty(), "there is room for more");
    scene.pass(Duration::from_secs(20));
    assert_eq!(reset_of(&received(&mut client), 1), None, "it takes some, if slowly");
    scene.pass(Duration::from_secs(11));
    assert_eq!(reset_of(&received(&mut client), 1), Some(CANCEL));
    client.send(frame(WINDOW_UPDATE, 0, 0, b"\0\x01\0\0")).send(request(3, &get("/")));
    assert_eq!(status_of(&received(&mut client), 3), Some(200));
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let scene = Scene::new(|| "ok");
    let mut client = greeted(&scene);
    client.take_only(3).send(request(1, &get("/")));
    scene.pass(Duration::from_secs(29));
    assert!(!client.is_closed());
    scene.pass(Duration::from_secs(2));
    assert!(client.is_closed() && client.is_unsent_discarded());
}

#[test]
fn a_drain_answers_what_was_accepted_and_says_so() {
    let (scene, gates) = gated();
    let mut client = greeted(&scene);
    client.send(request(1, &get("/first")));
    scene.drain();
    let frames = received(&mut client);
    assert_eq!(end_of(&frames), Some(NO_ERROR));
    let goaway = frames.iter().find(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(goaway.content[..4], [0x7f, 0xff, 0xff, 0xff], "requests under way are answered too");
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
fn a_drain_waits_for_answers_that_are_on_their_way() {
    let scene = Scene::new(|| "x".repeat(60_000));
    let mut client = greeted(&scene);
    client.take_only(1000).send(request(1, &get("/")));
    scene.drain();
    let mut come = client.received_bytes();
    while String::from_utf8_lossy(&come).matches('x').count() < 60_000 {
        scene.pass(Duration::from_secs(5));
        assert!(!client.is_closed() && !client.is_finished(), "after {} bytes", come.len());
        client.take_more(1000);
        come.extend(client.received_bytes());
    }
    scene.pass(Duration::from_millis(1500));
    assert!(!client.is_finished(), "it has time to say that it has taken the last of it");
    scene.pass(Duration::from_millis(800));
    assert!(client.is_finished());
}

#[test]
fn a_drain_does_not_wait_for_clients_that_say_nothing() {
    let scene = Scene::new(|| "ok");
    let mut client = greeted(&scene);
    scene.drain();
    assert_eq!(end_of(&received(&mut client)), Some(NO_ERROR));
    scene.pass(Duration::from_millis(2300));
    assert!(client.is_finished());
    scene.pass(Duration::from_millis(2300));
    assert!(client.is_closed());
}

/// If the client had no window for the response, the server once did not read the request body.
#[test]
fn a_client_may_send_everything_before_it_reads() {
    let (scene, taken) = taking();
    let mut library = Library::connect(&scene);
    let (response, mut to) = library.begin(post("/"), false);
    for n in 1..=100 {
        scene.pass(Duration::from_secs(1));
        assert_eq!(send_some(&mut library, &mut to, Bytes::from(vec![b'x'; 1000])), 1000);
        assert_eq!(taken.load(Ordering::Relaxed), n * 1000);
    }
    to.send_data(Bytes::new(), true).unwrap();
    assert_eq!(library.answer(response).1.len(), 1_000_000);
}

#[test]
fn content_that_does_not_come_is_noticed_though_its_answer_is_not_taken() {
    let (scene, taken) = taking();
    let mut library = Library::connect(&scene);
    let (mut response, mut to) = library.begin(post("/"), false);
    to.send_data(Bytes::from_static(b"slowly"), false).unwrap();
    let mut content = library.now(&mut response).unwrap().into_body();
    assert!(library.taken(&mut content) > 0);
    // Within the time that a client has to read the response.
    scene.pass(Duration::from_secs(25));
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
fn streams_that_would_never_end_do_with_a_drain() {
    let scene = Scene::new(|| Response::text(Content::from_content_stream(Events)));
    let mut library = Library::connect(&scene);
    let (mut response, _) = library.begin(library::get("/"), true);
    assert!(library.now(&mut response).is_ok());
    let (mut response, _) = library.begin(library::get("/"), true);
    let mut content = library.now(&mut response).unwrap().into_body();
    assert!(library.waits(&mut std::future::poll_fn(|cx| content.poll_data(cx))));
    scene.drain();
    assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "farewell");
    assert_eq!(library.taken(&mut content), 0);
    assert!(content.is_end_stream(), "it has ended in good order");
    drop(content);
    assert!(library.is_over());
}

#[test]
fn there_is_an_end_to_the_requests_of_a_connection_if_that_is_wanted() {
    let limits = Limits { requests_per_connection: 2, ..Limits::default() };
    let scene = Scene::with_config(|| "ok", Config { limits, ..Config::default() });
    let mut client = greeted(&scene);
    client.send(request(1, &get("/")));
    assert_eq!(end_of(&received(&mut client)), None);
    client.send(request(3, &get("/")));
    let frames = received(&mut client);
    assert_eq!((status_of(&frames, 3), end_of(&frames)), (Some(200), Some(NO_ERROR)));
}

#[test]
fn one_connection_too_many_is_told_so() {
    let scene = Scene::new(|| "ok");
    let mut library = Library::connect_over_limit(&scene);
    let (head, ..) = library.get("/");
    assert_eq!((head.status().as_u16(), head.headers()["retry-after"].as_bytes()), (503, &b"5"[..]));
    assert!(library.is_over());
}

#[test]
fn a_connection_that_breaks_ends_what_is_done_for_it() {
    let (scene, gates) = gated();
    let mut client = greeted(&scene);
    client.send(request(1, &get("/first"))).send(request(3, &get("/second")));
    assert_eq!(gates.waiting(), 2);
    client.reset();
    assert!(client.is_closed());
    assert_eq!(gates.waiting(), 0);
}

#[test]
fn content_that_is_streamed_is_sent_as_it_comes() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = Scene::new(move || {
        let gates = handler.clone();
        Response::text(Content::written_by(async move |mut to| {
            to.write("one").await;
            gates.pass("two").await;
            to.write("two").await;
            Ok(())
        }))
    });
    let mut library = Library::connect(&scene);
    let (mut response, _) = library.begin(library::get("/"), true);
    let mut content = library.now(&mut response).unwrap().into_body();
    assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "one");
    assert!(library.waits(&mut std::future::poll_fn(|cx| content.poll_data(cx))));
    gates.open("two");
    assert_eq!(library.now_with(|cx| content.poll_data(cx)).unwrap().unwrap(), "two");
    assert_eq!(library.taken(&mut content), 0);
    assert!(content.is_end_stream());
}
