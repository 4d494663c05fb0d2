//! Compression of streamed bodies.

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use thruway_server::layers::{Compression, Layered};
use thruway_server::{
    AtDrain, BoxError, Content, ContentStream, FieldLinesBuf, Files, Piece, Response, Router,
};
use thruway_testkit::Random;
use thruway_testkit::test_server::TestServer;

use super::{CODINGS, Reply, TEXT, compressed, decode, fetch, get, streamed, text};

fn accept(coding: &str) -> String {
    format!("Accept-Encoding: {coding}\r\n")
}

#[test]
fn compressed_body_decodes_to_original_for_any_piece_size() {
    let noise = Random::new(3).bytes(&(0..=255).collect::<Vec<u8>>(), 150_000);
    let mixed = [text(100_000).as_bytes(), &noise, &vec![0; 300_000], text(5).as_bytes()].concat();
    for coding in CODINGS {
        for piece in [1, 7, 4095, 16_384, 16_385, 65_537, mixed.len()] {
            let mixed = if piece < 100 { mixed[99_000..103_000].to_vec() } else { mixed.clone() };
            let expected = mixed.clone();
            let reply = get(compressed(move || streamed(&mixed, piece)), &accept(coding));
            assert!(reply.is_complete && reply.decoded() == expected, "{coding} in pieces of {piece}");
        }
        let expected = mixed.clone();
        let whole = mixed.clone();
        assert!(
            get(compressed(move || Response::ok(TEXT, whole.clone())), &accept(coding)).decoded() == expected
        );
        assert_eq!(get(compressed(|| streamed(b"", 1)), &accept(coding)).decoded(), b"");
    }
}

#[test]
fn files_are_compressed_unless_precompressed_file_exists() {
    let directory = tempfile::TempDir::new().unwrap();
    let large = text(200_000);
    let write = |name: &str, content: &str| {
        std::fs::File::create(directory.path().join(name)).unwrap().write_all(content.as_bytes()).unwrap();
    };
    write("large.txt", &large);
    write("small.txt", &text(3000));
    write("beside.txt", &text(3000));
    write("beside.txt.gz", "not really gzip");
    let scene = TestServer::new(compressed(Files::new(directory.path()).unwrap().encoded_above(true)));
    let get = |path: &str, fields: &str| {
        let mut client = scene.connect();
        client.send(format!("GET /{path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        Reply::of(&client.received_bytes())
    };
    for coding in CODINGS {
        for (path, content) in [("large.txt", &large), ("small.txt", &text(3000))] {
            let reply = get(path, &format!("Accept-Encoding: {coding}, identity;q=0\r\n"));
            assert_eq!((reply.field("Content-Encoding"), reply.field("Accept-Ranges")), (coding, ""));
            assert!(reply.decoded() == content.as_bytes() && reply.field("ETag").starts_with("W/\""));
            let tag = reply.field("ETag");
            let again = get(path, &format!("{}If-None-Match: {tag}\r\n", accept(coding)));
            assert_eq!((again.status(), again.field("ETag")), ("304", tag));
        }
    }
    let reply = get("beside.txt", &accept("gzip"));
    assert_eq!((reply.field("Content-Encoding"), &reply.content[..]), ("gzip", &b"not really gzip"[..]));
    let part = get("large.txt", &format!("{}Range: bytes=0-999\r\n", accept("gzip")));
    assert_eq!((part.status(), part.field("Content-Encoding")), ("206", ""));
    assert_eq!(part.content, large.as_bytes()[..1000]);
}

/// Encoded and plain responses have the same modification date. A client that resumed an encoded download by
/// date once received the rest of the plain file.
#[test]
fn compressed_download_is_not_resumed_with_plain_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let content = text(100_000);
    std::fs::write(directory.path().join("a.txt"), &content).unwrap();
    let scene = TestServer::new(compressed(Files::new(directory.path()).unwrap()));
    let get = |fields: &str| {
        let mut client = scene.connect();
        client.send(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        Reply::of(&client.received_bytes())
    };
    let (plain, encoded) = (get(""), get(&accept("gzip")));
    let (date, tag) = (encoded.field("Last-Modified"), encoded.field("ETag"));
    assert_eq!((date, encoded.field("Content-Encoding")), (plain.field("Last-Modified"), "gzip"));
    for (coding, validator, status) in [
        ("gzip", date, "200"),
        ("gzip", tag, "200"),
        ("gzip", plain.field("ETag"), "206"),
        ("identity", date, "206"),
    ] {
        let rest = get(&format!("{}Range: bytes=1000-\r\nIf-Range: {validator}\r\n", accept(coding)));
        assert_eq!(rest.status(), status, "{coding} {validator}");
        match status {
            "200" => assert!(rest.decoded() == content.as_bytes()),
            _ => assert!(rest.content == content.as_bytes()[1000..]),
        }
    }
}

#[test]
fn compressed_body_of_truncated_file_does_not_look_complete() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text(50_000).as_bytes()).unwrap();
    let reply = get(
        compressed(move || Response::ok(TEXT, Content::file(file.try_clone().unwrap(), 0, 100_000))),
        &accept("gzip"),
    );
    assert!(!reply.is_complete && !decode("gzip", &reply.content).1);
}

/// A stream whose pieces the test supplies.
#[derive(Clone, Default)]
struct Tap(Arc<Mutex<Flow>>);

#[derive(Default)]
struct Flow {
    pieces: Vec<Option<Result<Piece, BoxError>>>,
    length: Option<u64>,
    ends_at_drain: bool,
    waker: Option<Waker>,
}

impl Tap {
    fn with_length(bytes: u64) -> Self {
        let tap = Self::default();
        tap.0.lock().unwrap().length = Some(bytes);
        tap
    }

    /// Adds the next piece. `None` ends the stream.
    fn push(&self, piece: Option<Result<Piece, BoxError>>) {
        let mut flow = self.0.lock().unwrap();
        flow.pieces.push(piece);
        if let Some(waker) = flow.waker.take() {
            waker.wake();
        }
    }

    fn send(&self, text: impl Into<Bytes>) {
        self.push(Some(Ok(Piece::Data(text.into()))));
    }

    fn response(&self) -> Response {
        Response::ok(TEXT, Content::from_content_stream(self.clone()))
    }

    fn events(&self) -> Response {
        const EVENTS: FieldLinesBuf =
            FieldLinesBuf::from_static("Content-Type: text/event-stream; charset=utf-8\r\n");
        Response::ok(EVENTS, Content::from_content_stream(self.clone()))
    }
}

impl ContentStream for Tap {
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let mut flow = self.0.lock().unwrap();
        if flow.pieces.is_empty() {
            flow.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(flow.pieces.remove(0))
    }

    fn length(&self) -> Option<u64> {
        self.0.lock().unwrap().length
    }

    fn at_drain(self: Pin<&mut Self>) -> AtDrain {
        if self.0.lock().unwrap().ends_at_drain { AtDrain::Ends("bye".into()) } else { AtDrain::Finishes }
    }
}

#[test]
fn compressed_body_of_failed_source_does_not_look_complete() {
    for coding in CODINGS {
        let tap = Tap::default();
        tap.send(text(30_000));
        tap.push(Some(Err("broken".into())));
        let source = tap.clone();
        let scene = TestServer::new(compressed(move || source.response()));
        let mut client = scene.connect();
        let reply = fetch(&mut client, &accept(coding));
        assert!(!reply.is_complete && !decode(coding, &reply.content).1, "{coding}");
        assert!(client.is_finished());
    }
}

#[test]
fn compressed_body_with_wrong_length_does_not_look_complete() {
    for (announced, sent) in [(1001, 1000), (999, 1000)] {
        let tap = Tap::with_length(announced);
        tap.send(vec![b'a'; sent]);
        tap.push(None);
        let reply = get(compressed(move || tap.response()), &accept("gzip"));
        assert_eq!(reply.field("Content-Encoding"), "gzip");
        assert!(!reply.is_complete && !decode("gzip", &reply.content).1, "{announced} bytes were announced");
    }
}

/// An incompressible body. It counts the calls of `poll_meanwhile`.
struct Noise(Random, Arc<AtomicUsize>);

impl ContentStream for Noise {
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let noise = self.0.bytes(&(0..=255).collect::<Vec<u8>>(), 10_000);
        Poll::Ready(Some(Ok(Piece::Data(noise.into()))))
    }

    fn poll_meanwhile(self: Pin<&mut Self>, _: &mut Context<'_>) -> Result<(), BoxError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn poll_meanwhile_is_called_on_compressed_body_with_attached_guard() {
    let meanwhile = Arc::new(AtomicUsize::new(0));
    let counted = meanwhile.clone();
    let scene = TestServer::new(compressed(move || {
        let noise = Noise(Random::new(7), counted.clone());
        Response::ok(TEXT, Content::from_content_stream(noise)).holding(())
    }));
    let mut client = scene.connect();
    client.set_receive_capacity(1000).send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    scene.advance_time(Duration::from_secs(1));
    assert!(meanwhile.load(Ordering::Relaxed) > 0);
}

#[test]
fn trailers_follow_compressed_body() {
    let tap = Tap::default();
    tap.send(text(1000));
    tap.push(Some(Ok(Piece::Trailers(FieldLinesBuf::from_static("X-Checked: yes\r\n")))));
    tap.push(None);
    let scene = TestServer::new(compressed(move || tap.response()));
    let mut client = scene.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", accept("gzip")));
    let bytes = client.received_bytes();
    assert_eq!(Reply::of(&bytes).decoded(), text(1000).into_bytes());
    assert!(bytes.ends_with(b"\r\n0\r\nX-Checked: yes\r\n\r\n"));
}

#[test]
fn each_compressed_event_is_flushed_at_once() {
    for coding in CODINGS {
        let tap = Tap::default();
        let source = tap.clone();
        let events = Compression::new().types(["text/event-stream"]).unwrap();
        let scene = TestServer::new(Layered::new(move || source.events()).layer(events));
        let mut client = scene.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", accept(coding)));
        let mut received = client.received_bytes();
        let mut expected = String::new();
        for i in 0..20 {
            let event = format!("data: {i} {}\n\n", text(i * 100));
            expected.push_str(&event);
            tap.send(event);
            received.extend(client.received_bytes());
            let (decoded, is_whole) = decode(coding, &Reply::of(&received).content);
            assert!(decoded == expected.as_bytes() && !is_whole, "{coding}, event {i}");
        }
        tap.push(None);
        received.extend(client.received_bytes());
        assert_eq!(Reply::of(&received).decoded(), expected.as_bytes());
    }
}

#[test]
fn drain_completes_compressed_event_stream() {
    for coding in CODINGS {
        let tap = Tap::default();
        tap.0.lock().unwrap().ends_at_drain = true;
        tap.send("data: one\n\n");
        let source = tap.clone();
        let events = Compression::new().types(["text/event-stream"]).unwrap();
        let scene = TestServer::new(Layered::new(move || source.events()).layer(events));
        let mut client = scene.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", accept(coding)));
        scene.drain();
        let reply = Reply::of(&client.received_bytes());
        assert!(reply.is_complete);
        assert_eq!(reply.decoded(), b"data: one\n\nbye", "{coding}");
    }
}

#[test]
fn compressed_data_of_slow_source_is_flushed_after_delay() {
    for coding in CODINGS {
        let tap = Tap::default();
        let source = tap.clone();
        let scene = TestServer::new(compressed(move || source.response()));
        let mut client = scene.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", accept(coding)));
        let mut received = client.received_bytes();
        let mut decoded = |client: &mut thruway_testkit::test_server::TestClient| {
            received.extend(client.received_bytes());
            decode(coding, &Reply::of(&received).content).0
        };
        tap.send("first line\n");
        assert_eq!(decoded(&mut client), b"", "{coding}: the server waits briefly for more data");
        scene.advance_time(Duration::from_millis(200));
        assert_eq!(decoded(&mut client), b"first line\n", "{coding}");
        scene.advance_time(Duration::from_secs(5));
        let writes = client.writes();
        scene.advance_time(Duration::from_secs(5));
        client.run();
        assert_eq!(client.writes(), writes, "the server sends nothing without new data");
        tap.send("second line\n");
        client.run();
        scene.advance_time(Duration::from_millis(200));
        assert_eq!(decoded(&mut client), b"first line\nsecond line\n", "{coding}");
        tap.push(None);
        assert_eq!(decoded(&mut client), b"first line\nsecond line\n");
    }
}

#[test]
fn server_does_not_compress_ahead_of_client_that_does_not_read() {
    let taken = Arc::new(Mutex::new(0_usize));
    let count = taken.clone();
    let scene = TestServer::new(compressed(move || {
        let (count, mut random) = (count.clone(), Random::new(5));
        let pieces = std::iter::from_fn(move || {
            *count.lock().unwrap() += 50_000;
            Some(Ok::<_, Infallible>(Bytes::from(random.bytes(&(0..=255).collect::<Vec<u8>>(), 50_000))))
        });
        Response::ok(TEXT, Content::stream(futures_util::stream::iter(pieces)))
    }));
    for coding in CODINGS {
        *taken.lock().unwrap() = 0;
        let mut client = scene.connect();
        client.set_receive_capacity(100_000);
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", accept(coding)));
        let at_first = *taken.lock().unwrap();
        assert!(at_first < 1_000_000, "{coding}: {at_first}");
        client.add_receive_capacity(1_000_000);
        let more = *taken.lock().unwrap() - at_first;
        assert!((900_000..2_000_000).contains(&more), "{coding}: {more}");
        client.reset();
    }
}

#[test]
fn streams_max_limits_compressed_streams() {
    let taps: Vec<Tap> = (0..3).map(|_| Tap::default()).collect();
    let router = taps.iter().enumerate().fold(Router::new(), |router, (i, tap)| {
        let tap = tap.clone();
        router.get(&format!("/{i}"), move || tap.response())
    });
    let scene = TestServer::new(Layered::new(router).layer(Compression::new().streams_max(2)));
    let coding_of = |client: &mut thruway_testkit::test_server::TestClient, path: usize| {
        client.send(format!("GET /{path} HTTP/1.1\r\nHost: a\r\n{}\r\n", accept("gzip")));
        let head = String::from_utf8(client.received_bytes()).unwrap();
        assert!(head.contains("\r\nVary: Accept-Encoding\r\n"));
        head.contains("Content-Encoding: gzip")
    };
    let (mut first, mut second, mut third) = (scene.connect(), scene.connect(), scene.connect());
    assert!(coding_of(&mut first, 0) && coding_of(&mut second, 1) && !coding_of(&mut third, 2));
    second.reset();
    let mut fourth = scene.connect();
    assert!(coding_of(&mut fourth, 2), "a closed connection frees its stream");
    let whole = get(Layered::new(|| text(1000)).layer(Compression::new().streams_max(0)), &accept("gzip"));
    assert_eq!(whole.field("Content-Encoding"), "gzip", "a complete body does not count as a stream");
}
