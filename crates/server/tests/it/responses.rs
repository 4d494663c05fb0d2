//! Responses on the wire: framing, fields, streams and events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use thruway_server::{
    Content, ContentStream, Event, FieldLinesBuf, IntoResponse, Json, Piece, Request, Response, Router,
    StatusCode,
};
use thruway_testkit::test_server::TestServer;

fn get(scene: &TestServer, path: &str) -> String {
    let mut client = scene.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.received()
}

fn head(scene: &TestServer, path: &str) -> String {
    let mut client = scene.connect();
    client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.received()
}

/// A stream of the given pieces, with the given length.
struct Pieces(Vec<Result<Piece, &'static str>>, Option<u64>);

impl ContentStream for Pieces {
    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Piece, thruway_server::BoxError>>> {
        let next = (!self.0.is_empty()).then(|| self.0.remove(0).map_err(Into::into));
        std::task::Poll::Ready(next)
    }

    fn length(&self) -> Option<u64> {
        self.1
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a stream is made of results")]
fn data(text: &'static str) -> Result<Piece, &'static str> {
    Ok(Piece::Data(Bytes::from_static(text.as_bytes())))
}

#[test]
fn response_headers_have_fixed_order() {
    let scene = TestServer::new(|| Response::text("hi").with_field("X-A", "1"));
    assert_eq!(
        get(&scene, "/"),
        "HTTP/1.1 200 OK\r\nServer: thruway\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Content-Type: text/plain; charset=utf-8\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nhi"
    );
}

#[test]
fn tuple_with_headers_replaces_headers_of_the_value() {
    let router = Router::new()
        .get("/headers", || ([("Content-Type", "text/css"), ("X-A", "1")], "a {}"))
        .get("/status", || (StatusCode::CREATED, [("Location", format!("/{}", 7))], Json([1])))
        .get("/invalid", || ([("X-A", "1\r\nX-B: 2")], "not sent"));
    let scene = TestServer::new(router);
    let reply = get(&scene, "/headers");
    assert!(
        reply.contains("\r\nContent-Type: text/css\r\nX-A: 1\r\n") && !reply.contains("plain"),
        "{reply}"
    );
    assert!(reply.ends_with("\r\n\r\na {}"), "{reply}");
    let reply = get(&scene, "/status");
    assert!(reply.starts_with("HTTP/1.1 201 ") && reply.contains("\r\nLocation: /7\r\n"), "{reply}");
    assert!(reply.contains("\r\nContent-Type: application/json\r\n") && reply.ends_with("[1]"), "{reply}");
    let reply = get(&scene, "/invalid");
    assert!(reply.starts_with("HTTP/1.1 500 ") && !reply.contains("X-B"), "{reply}");
}

#[test]
fn date_header_follows_the_clock() {
    let scene = TestServer::new(|| "ok");
    scene.advance_time(Duration::from_secs(2));
    assert!(get(&scene, "/").contains("Date: Thu, 01 Jan 1970 00:00:02 GMT\r\n"));
}

/// The server prepares the heads of the first few kinds of responses, and writes all other heads anew.
#[test]
fn prepared_heads_equal_other_heads() {
    const TEXT: &str = "Content-Type: text/plain; charset=utf-8\r\n";
    let router = (200..212).fold(Router::new(), |router, status| {
        let status = StatusCode::try_from(status).unwrap();
        router.get(&format!("/{}", status.as_u16()), move || Response::text("ok").with_status(status))
    });
    let router = router.get("/long", || "a longer text").get("/last", || Response::text("x").and_close());
    let scene = TestServer::new(router);
    for seconds in ["00", "02"] {
        let fields = format!("Server: thruway\r\nDate: Thu, 01 Jan 1970 00:00:{seconds} GMT\r\n{TEXT}");
        for status in (200..212).chain(200..212).filter(|status| !matches!(status, 204 | 205)) {
            let answer = get(&scene, &format!("/{status}"));
            let after_status_line = answer.split_once("\r\n").unwrap().1;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert_eq!(after_status_line, format!("{fields}Content-Length: 2\r\n\r\nok"));
        }
        let long = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 13\r\n\r\na longer text");
        let last = format!("HTTP/1.1 200 OK\r\n{fields}Connection: close\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!((get(&scene, "/long"), get(&scene, "/last")), (long, last));
        scene.advance_time(Duration::from_secs(2));
    }
}

#[test]
fn handler_return_types_become_responses() {
    let router = Router::new()
        .get("/status", || StatusCode::NOT_FOUND)
        .get("/nothing", || ())
        .get("/json", || Json([1, 2]))
        .get("/pair", || (StatusCode::CREATED, "made"))
        .get("/result", || Err::<&str, StatusCode>(StatusCode::CONFLICT))
        .get("/option", || None::<&str>)
        .get("/bytes", || vec![1_u8, 2]);
    let scene = TestServer::new(router);
    for (path, status, ending) in [
        ("/status", "404 Not Found", "Content-Length: 0\r\n\r\n"),
        ("/nothing", "204 No Content", "GMT\r\n\r\n"),
        ("/json", "200 OK", "[1,2]"),
        ("/pair", "201 Created", "made"),
        ("/result", "409 Conflict", "\r\n\r\n"),
        ("/option", "404 Not Found", "\r\n\r\n"),
        ("/bytes", "200 OK", "\x01\x02"),
    ] {
        let answer = get(&scene, path);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")) && answer.ends_with(ending),
            "{answer}"
        );
    }
}

#[test]
fn head_response_has_headers_of_get_without_body() {
    let streamed = || Content::from_content_stream(Pieces(vec![data("abc")], None));
    let measured = || Content::from_content_stream(Pieces(vec![data("abc")], Some(3)));
    let router = Router::new().get("/", || "hello").get("/streamed", streamed).get("/measured", measured);
    let scene = TestServer::new(router);
    for path in ["/", "/streamed", "/measured"] {
        let (full, without) = (get(&scene, path), head(&scene, path));
        assert_eq!(without, full[..full.find("\r\n\r\n").unwrap() + 4], "{path}");
    }
}

#[test]
fn not_modified_response_has_no_content_length() {
    let scene = TestServer::new(Router::new().get("/304", || (StatusCode::NOT_MODIFIED, "ignored")));
    let answer = get(&scene, "/304");
    assert!(!answer.contains("Content-Length") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn handler_cannot_set_framing_headers() {
    let scene = TestServer::new(|| {
        Response::text("hello")
            .with_field("Content-Length", "3")
            .with_field("Transfer-Encoding", "chunked")
            .with_field("Keep-Alive", "timeout=5")
    });
    let answer = get(&scene, "/");
    assert!(answer.ends_with("Content-Length: 5\r\n\r\nhello"), "{answer}");
    assert!(!answer.contains("chunked") && !answer.contains("Keep-Alive"));
}

#[test]
fn handler_can_override_server_and_date_headers() {
    let scene =
        TestServer::new(|| Response::text("x").with_field("Date", "today").with_field("SERVER", "mine"));
    let answer = get(&scene, "/");
    assert_eq!(answer.matches("Date: ").count(), 1);
    assert!(
        answer.contains("Date: today\r\n")
            && answer.contains("SERVER: mine\r\n")
            && !answer.contains("thruway")
    );
}

#[test]
fn header_value_with_line_break_cannot_split_response() {
    let scene = TestServer::new(|request: &Request| {
        let name = request.query_string().unwrap_or_default().replace("%0d%0a", "\r\n");
        Response::text("x").with_field("X-Name", name)
    });
    let answer = get(&scene, "/?a%0d%0aEvil:%201");
    assert!(answer.starts_with("HTTP/1.1 500 ") && !answer.contains("Evil"), "{answer}");
}

#[test]
fn streamed_body_is_sent_in_chunks_with_trailers() {
    let scene = TestServer::new(|| {
        let mut trailers = FieldLinesBuf::new();
        trailers.append("X-Sum", "42").unwrap();
        let pieces = vec![data("hello"), data(""), data(" world"), Ok(Piece::Trailers(trailers))];
        Content::from_content_stream(Pieces(pieces, None))
    });
    assert!(get(&scene, "/").ends_with("\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 42\r\n\r\n"));
}

#[test]
fn body_with_wrong_announced_length_never_looks_complete() {
    for pieces in [vec![data("abc")], vec![data("abcde")], vec![data("ab"), Err("broken")]] {
        let pieces = std::sync::Mutex::new(Some(pieces));
        let scene = TestServer::new(move || {
            Content::from_content_stream(Pieces(pieces.lock().unwrap().take().unwrap(), Some(4)))
        });
        let mut client = scene.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.received();
        let content = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(content.len() < 4, "{answer}");
        assert!(client.is_closed());
    }
}

#[test]
fn failed_stream_closes_connection_without_last_chunk() {
    let scene =
        TestServer::new(|| Content::from_content_stream(Pieces(vec![data("abc"), Err("broken")], None)));
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.received().ends_with("\r\n\r\n3\r\nabc\r\n"));
    assert!(client.is_closed());
}

/// The server once closed the connection as after a complete response. An HTTP/1.0 client, which has no
/// chunks, could not tell the difference.
#[test]
fn failed_stream_to_http10_client_aborts_the_connection() {
    let failing = || Content::from_content_stream(Pieces(vec![data("abc"), Err("broken")], None));
    let whole = || Content::from_content_stream(Pieces(vec![data("abc")], None));
    let scene = TestServer::new(Router::new().get("/failing", failing).get("/whole", whole));
    for (path, is_broken_off) in [("/failing", true), ("/whole", false)] {
        let mut client = scene.connect();
        client.send(format!("GET {path} HTTP/1.0\r\n\r\n"));
        assert!(client.received().ends_with("\r\n\r\nabc"));
        client.finish();
        assert!(client.is_closed());
        assert_eq!(client.is_unsent_discarded(), is_broken_off, "{path}");
    }
}

#[test]
fn server_polls_stream_only_as_fast_as_client_reads() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let scene = TestServer::new(move || {
        let count = counted.clone();
        Content::written_by(async move |mut writer| {
            for _ in 0..1000 {
                count.fetch_add(1, Ordering::Relaxed);
                writer.write(vec![b'x'; 10_000]).await;
            }
            Ok(())
        })
    });
    let mut client = scene.connect();
    client.set_receive_capacity(50_000).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(count.load(Ordering::Relaxed) < 20);
    client.add_receive_capacity(usize::MAX);
    assert!(client.received().len() > 10_000_000);
}

#[test]
fn slow_client_gets_large_bodies_intact() {
    let text: String = ('a'..='z').cycle().take(200_000).collect();
    let expected = text.clone();
    let router = Router::new().get("/whole", {
        let text = text.clone();
        move || text.clone()
    });
    let router = router.get("/streamed", move || {
        let text = text.clone();
        Content::written_by(async move |mut writer| {
            for piece in text.as_bytes().chunks(30_000) {
                writer.write(piece.to_vec()).await;
            }
            Ok(())
        })
    });
    let scene = TestServer::new(router);
    let mut client = scene.connect();
    client
        .set_receive_capacity(0)
        .send("GET /whole HTTP/1.1\r\nHost: a\r\n\r\nGET /streamed HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut answers = Vec::new();
    for step in [1, 7, 1000, 4096].into_iter().cycle().take(400) {
        client.add_receive_capacity(step);
        answers.extend(client.received_bytes());
    }
    let answers = String::from_utf8(answers).unwrap();
    let (first, second) = answers.split_once(&expected).expect("the first response should be complete");
    assert!(first.contains("Content-Length: 200000"));
    let chunks = second.split_once("\r\n\r\n").unwrap().1;
    let decoded: String = chunks.split("\r\n").skip(1).step_by(2).collect();
    assert_eq!(decoded, expected);
}

#[test]
fn drain_ends_event_stream() {
    let scene = TestServer::new(|| {
        Response::events(Duration::from_secs(15), async |mut events| {
            events.send(Event::data("one")).await;
            std::future::pending().await
        })
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.received().ends_with("data: one\n\n\r\n"));
    scene.drain();
    assert_eq!(client.received(), "0\r\n\r\n", "the body is complete, so the client reconnects");
    scene.advance_time(Duration::from_millis(400));
    assert!(client.is_closed());
}

#[test]
fn drain_sends_last_event_after_stream_has_begun() {
    let scene = TestServer::new(|| {
        let begun = Arc::new(AtomicBool::new(false));
        let has_begun = begun.clone();
        let last_event = move || has_begun.load(Ordering::Relaxed).then(|| Event::data("farewell"));
        Response::events_with_last_event(Duration::from_secs(15), last_event, async move |mut events| {
            events.send(Event::data("one")).await;
            begun.store(true, Ordering::Relaxed);
            std::future::pending().await
        })
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    let (mut early, mut late) = (scene.connect(), scene.connect());
    early.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(early.received().ends_with("data: one\n\n\r\n"));
    late.send("GET / HTTP/1.1\r\nHost: a\r\n");
    scene.drain();
    let end = "data: farewell\n\n\r\n0\r\n\r\n";
    assert!(early.received().ends_with(end));
    late.send("\r\n");
    let answer = late.received();
    assert!(answer.contains("data: one\n\n") && answer.ends_with(end), "{answer}");
    scene.advance_time(Duration::from_millis(400));
    assert!(early.is_closed());
}

#[test]
fn events_have_standard_format() {
    let scene = TestServer::new(|| {
        Response::events(Duration::from_secs(15), async |mut events| {
            events.send(Event::data("one\ntwo").with_type("greeting")).await;
            events.send(Event::data("three").with_id("3")).await;
            Ok(())
        })
    });
    // The timer for keep-alive comments needs a tokio runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    let answer = get(&scene, "/");
    assert!(answer.contains("Content-Type: text/event-stream\r\n"));
    assert!(answer.contains("data: one\ndata: two\nevent: greeting\n\n"));
    assert!(answer.ends_with("data: three\nid: 3\n\n\r\n0\r\n\r\n"), "{answer}");
}

#[test]
fn handler_can_read_and_set_cookies() {
    let scene = TestServer::new(|request: &Request| {
        let name = request.cookie("name").map(|cookie| cookie.value().to_owned()).unwrap_or_default();
        let cookie = thruway_server::Cookie::build(("seen", "yes")).path("/").http_only(true).build();
        Response::text(name).with_cookie(&cookie).into_response()
    });
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nCookie: a=b; name=thru\r\n\r\n");
    let answer = client.received();
    assert!(
        answer.contains("Set-Cookie: seen=yes; HttpOnly; Path=/\r\n") && answer.ends_with("thru"),
        "{answer}"
    );
}

#[test]
fn response_guard_is_dropped_after_body_is_sent() {
    let guard = Arc::new(());
    let held = guard.clone();
    let scene = TestServer::new(move |request: &Request| {
        let bytes = match request.path() {
            "/none" => 0,
            "/small" => 10,
            _ => 1 << 20,
        };
        Response::text(vec![b'x'; bytes]).holding(held.clone())
    });
    let is_free = || Arc::strong_count(&guard) == 2;
    assert!(head(&scene, "/large").contains("Content-Length: 1048576\r\n") && is_free());
    for (path, length) in [("/none", 0), ("/small", 10), ("/large", 1 << 20)] {
        let answer = get(&scene, path);
        assert!(answer.ends_with(&format!("\r\n\r\n{}", "x".repeat(length))) && is_free(), "{path}");
    }
    let mut slow = scene.connect();
    slow.set_receive_capacity(1000).send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!is_free());
    slow.reset();
    assert!(is_free());
}
