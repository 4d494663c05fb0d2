//! Requests and responses, with the client of the crate `h2`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use thruway_message::FieldLinesBuf;
use thruway_server::{
    BoxError, Config, Content, ContentStream, OwnedRequest, Piece, Record, Request, Response, Router,
    StatusCode, Tower, Version, send_interim,
};
use thruway_testkit::test_server::TestServer;

use super::frames::{self, DATA, connect_http2, received};
use super::library::{H2Client, get, post, send_some};
use crate::gate::Gates;

#[test]
fn handler_sees_http2_request_like_http1_request() {
    let scene = TestServer::new(|request: &Request| {
        let lines = request.field_lines().iter().map(|line| format!("{}: {}\n", line.name, line.value));
        let head = format!("{request} {} {}\n", request.version(), request.host());
        Response::text(head + &lines.collect::<String>())
    });
    let mut library = H2Client::connect(&scene);
    let mut request = get("/a%20b?c=d");
    for cookie in ["a=1", "b=2"] {
        request.headers_mut().append("cookie", cookie.parse().unwrap());
    }
    request.headers_mut().append("x-field", "value".parse().unwrap());
    let (response, _) = library.begin(request, true);
    let (_, content, _) = library.answer(response);
    assert_eq!(
        content,
        "GET /a%20b?c=d HTTP/2.0 a.example\nhost: a.example\ncookie: a=1; b=2\nx-field: value\n"
    );
}

/// The library flushes after each request that it returns. So each response was once a write of its own.
#[test]
fn simultaneous_responses_are_sent_in_one_write() {
    let scene = TestServer::new(|| Response::text("hello"));
    let mut client = connect_http2(&scene);
    let before = client.writes();
    let requests: Vec<u8> = (0..50).flat_map(|n| frames::request(2 * n + 1, &frames::get("/"))).collect();
    client.send(requests);
    let answered = received(&mut client).iter().filter(|frame| frame.kind == DATA).count();
    assert_eq!((answered, client.writes() - before), (50, 1));
}

#[test]
fn response_has_headers_of_http1_except_connection() {
    let scene =
        TestServer::new(|| Response::text("hello").with_field("X-Field", "value").with_connection_upgrade());
    let (head, content, trailers) = H2Client::connect(&scene).get("/");
    assert_eq!((head.status().as_u16(), content.as_str()), (200, "hello"));
    let field = |name: &str| head.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(field("server"), Some("thruway"));
    assert_eq!(field("date"), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    assert_eq!(field("content-length"), Some("5"));
    assert_eq!(field("x-field"), Some("value"));
    assert_eq!(field("connection"), None, "the server removes HTTP/1.1 connection fields");
    assert!(trailers.is_empty());
}

/// The server caches encoded heads for responses with the same field lines, as long as the date is unchanged.
#[test]
fn cached_response_heads_have_correct_length_and_date() {
    let router = Router::new()
        .get("/short", || "ok")
        .get("/long", || "longer")
        .get("/page", || Response::html("page"))
        .get("/dated", || Response::text("ok").with_field("Date", "once"))
        .get("/unmeasured", || Response::text(Content::from_content_stream(WithTrailers(Vec::new()))))
        .get("/missing", || Response::text("no").with_status(StatusCode::NOT_FOUND));
    let scene = TestServer::new(router);
    let mut library = H2Client::connect(&scene);
    let (text, page) = ("text/plain; charset=utf-8", "text/html; charset=utf-8");
    for now in ["Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:02 GMT"] {
        for (path, status, kind, length, date) in [
            ("/short", 200, text, Some("2"), now),
            ("/unmeasured", 200, text, None, now),
            ("/long", 200, text, Some("6"), now),
            ("/page", 200, page, Some("4"), now),
            ("/dated", 200, text, Some("2"), "once"),
            ("/missing", 404, text, Some("2"), now),
            ("/short", 200, text, Some("2"), now),
        ] {
            let (head, ..) = library.get(path);
            let fields = head.headers();
            let values = ["content-type", "content-length", "date", "server"]
                .map(|name| fields.get(name).map(|value| value.to_str().unwrap()));
            assert_eq!(values, [Some(kind), length, Some(date), Some("thruway")], "{path}");
            assert_eq!(
                (head.status().as_u16(), fields.len()),
                (status, values.iter().flatten().count()),
                "{path}"
            );
        }
        scene.advance_time(Duration::from_secs(2));
    }
}

#[test]
fn long_response_header_is_delivered() {
    let scene = TestServer::new(|| Response::text("ok").with_field("X-Long", "a".repeat(1 << 20)));
    let (head, content, _) = H2Client::connect(&scene).get("/");
    assert_eq!((head.headers()["x-long"].len(), content.as_str()), (1 << 20, "ok"));
}

#[test]
fn server_header_of_handler_is_not_duplicated() {
    let scene = TestServer::new(|| Response::text("").with_field("Server", "other"));
    let (head, ..) = H2Client::connect(&scene).get("/");
    let servers: Vec<_> = head.headers().get_all("server").iter().collect();
    assert_eq!(servers, ["other"]);
    assert!(head.headers().contains_key("date"));
}

#[test]
fn head_response_has_content_length_but_no_body() {
    let scene = TestServer::new(|_: &Request| "hello");
    let mut library = H2Client::connect(&scene);
    let request = http::Request::head("http://a.example/").body(()).unwrap();
    let (response, _) = library.begin(request, true);
    let (head, content, _) = library.answer(response);
    assert_eq!((head.headers()["content-length"].as_bytes(), content.as_str()), (&b"5"[..], ""));
}

/// The handler left out a body that the client had requested. The client must still get the end of the
/// response.
#[test]
fn response_with_left_out_body_ends_its_stream() {
    let scene = TestServer::new(|| Response::new(StatusCode::OK).with_content(Content::left_out(None)));
    assert_eq!(H2Client::connect(&scene).get("/").1, "");
}

#[test]
fn options_asterisk_request_is_accepted() {
    let scene = TestServer::new(|request: &Request| Response::text(format!("{request}")));
    let mut client = connect_http2(&scene);
    let lines = [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), (":authority", "a.example")];
    client.send(frames::request(1, &lines));
    let frames = received(&mut client);
    let content = frames.iter().find(|frame| frame.kind == DATA).map(|frame| &frame.content[..]);
    assert_eq!(content, Some(&b"OPTIONS *"[..]));
}

/// A stream with a trailer section.
struct WithTrailers(Vec<Piece>);

impl ContentStream for WithTrailers {
    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Piece, BoxError>>> {
        std::task::Poll::Ready(self.0.pop().map(Ok))
    }
}

#[test]
fn trailers_work_in_both_directions() {
    let scene = TestServer::new(|mut request: OwnedRequest| async move {
        let content = request.content().collect(100).await.unwrap();
        let trailers = request.content().take_trailers().unwrap();
        let value = trailers.field("x-checksum").unwrap().as_bytes().to_vec();
        let mut back = FieldLinesBuf::new();
        back.append("Grpc-Status", value).unwrap();
        let pieces = vec![Piece::Trailers(back), Piece::Data(content)];
        Response::new(StatusCode::OK).with_content(Content::from_content_stream(WithTrailers(pieces)))
    });
    let mut library = H2Client::connect(&scene);
    let (response, mut to) = library.begin(post("/"), false);
    to.send_data(Bytes::from_static(b"content"), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.append("x-checksum", "42".parse().unwrap());
    to.send_trailers(trailers).unwrap();
    let (head, content, trailers) = library.answer(response);
    assert_eq!(content, "content");
    assert!(!head.headers().contains_key("content-length"));
    assert_eq!(trailers["grpc-status"], "42");
}

#[test]
fn interim_response_is_sent_before_final_response() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| {
        let gates = handler.clone();
        async move {
            send_interim(&Response::new(StatusCode::EARLY_HINTS).with_field("Link", "</a.css>"));
            gates.answer(request).await
        }
    });
    let mut library = H2Client::connect(&scene);
    let (mut response, _) = library.begin(get("/a"), true);
    let interim = library.now_with(|cx| response.poll_informational(cx)).unwrap().unwrap();
    assert_eq!((interim.status().as_u16(), interim.headers()["link"].as_bytes()), (103, &b"</a.css>"[..]));
    gates.open("/a");
    assert_eq!(library.answer(response).1, "/a");
}

#[test]
fn client_gets_100_continue_when_handler_reads_body() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |mut request: OwnedRequest| {
        let gates = handler.clone();
        async move {
            gates.pass("read").await;
            Response::text(request.content().collect(100).await.unwrap())
        }
    });
    let mut library = H2Client::connect(&scene);
    let mut request = post("/");
    request.headers_mut().append("expect", "100-continue".parse().unwrap());
    let (mut response, mut to) = library.begin(request, false);
    assert!(library.waits(&mut std::future::poll_fn(|cx| response.poll_informational(cx))));
    gates.open("read");
    let interim = library.now_with(|cx| response.poll_informational(cx)).unwrap().unwrap();
    assert_eq!(interim.status().as_u16(), 100);
    to.send_data(Bytes::from_static(b"content"), true).unwrap();
    assert_eq!(library.answer(response).1, "content");
}

#[test]
fn concurrent_streams_are_answered_in_any_order() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut library = H2Client::connect(&scene);
    let paths: Vec<_> = (0..100).map(|n| format!("/{n}")).collect();
    let mut responses: Vec<_> = paths.iter().map(|path| library.begin(get(path), true).0).collect();
    assert_eq!(gates.waiting(), 100);
    while let (Some(path), Some(response)) = (paths.get(responses.len() - 1), responses.pop()) {
        gates.open(path);
        assert_eq!(&library.answer(response).1, path);
        if responses.is_empty() {
            return;
        }
    }
}

#[test]
fn client_reset_cancels_only_its_handler() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut library = H2Client::connect(&scene);
    let (first, mut to) = library.begin(get("/first"), true);
    let (second, _) = library.begin(get("/second"), true);
    assert_eq!(gates.waiting(), 2);
    to.send_reset(h2::Reason::CANCEL);
    drop(first);
    library.run();
    assert_eq!(gates.waiting(), 1);
    gates.open("/second");
    assert_eq!(library.answer(second).1, "/second");
}

#[test]
fn unread_body_blocks_only_its_own_stream() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |mut request: OwnedRequest| {
        let gates = handler.clone();
        async move {
            let path = request.path().to_owned();
            gates.pass(&path).await;
            Response::text(request.content().collect(usize::MAX).await.unwrap().len().to_string())
        }
    });
    let mut library = H2Client::connect(&scene);
    let (response, mut to) = library.begin(post("/one"), false);
    let all = Bytes::from(vec![b'x'; 1 << 20]);
    let sent = send_some(&mut library, &mut to, all.clone());
    assert!(sent <= 256 << 10, "{sent} bytes were accepted without a reader");
    // Another stream has its own window.
    let (other, mut to_other) = library.begin(post("/other"), false);
    assert!(send_some(&mut library, &mut to_other, all.slice(..64 << 10)) == 64 << 10);
    gates.open("/one");
    let mut rest = all.slice(sent..);
    while !rest.is_empty() {
        let sent = send_some(&mut library, &mut to, rest.clone());
        assert!(sent > 0, "the server should enlarge its windows");
        rest = rest.slice(sent..);
    }
    to.send_data(Bytes::new(), true).unwrap();
    assert_eq!(library.answer(response).1, (1 << 20).to_string());
    gates.open("/other");
    to_other.send_data(Bytes::new(), true).unwrap();
    assert_eq!(library.answer(other).1, (64 << 10).to_string());
}

#[test]
fn server_produces_no_more_body_than_client_reads() {
    struct Endless {
        made: usize,
        made_max: Arc<AtomicUsize>,
    }
    impl ContentStream for Endless {
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Piece, BoxError>>> {
            self.made += 1;
            self.made_max.fetch_max(self.made, Ordering::Relaxed);
            std::task::Poll::Ready(Some(Ok(Piece::Data(Bytes::from(vec![b'x'; 10_000])))))
        }
    }
    let made_max = Arc::new(AtomicUsize::new(0));
    let of_handler = made_max.clone();
    let scene = TestServer::new(move || {
        let endless = Endless { made: 0, made_max: of_handler.clone() };
        Response::new(StatusCode::OK).with_content(Content::from_content_stream(endless))
    });
    let mut library = H2Client::connect(&scene);
    let (mut response, _) = library.begin(get("/"), true);
    let mut content = library.now(&mut response).unwrap().into_body();
    let before = made_max.load(Ordering::Relaxed);
    assert!(before * 10_000 < 256 << 10, "{before} pieces were made for a window of 64 KiB");
    let taken = library.taken(&mut content);
    assert_eq!(taken, (64 << 10) - 1);
    content.flow_control().release_capacity(taken).unwrap();
    library.run();
    assert!(made_max.load(Ordering::Relaxed) > before, "the client enlarged its window");
}

#[test]
fn large_body_arrives_complete() {
    let scene = TestServer::new(|_: &Request| "0123456789".repeat(100_000));
    let (head, content, _) = H2Client::connect(&scene).get("/");
    assert_eq!(head.headers()["content-length"], "1000000");
    assert_eq!(content, "0123456789".repeat(100_000));
}

#[test]
fn file_arrives_complete() {
    let folder = tempfile::tempdir().unwrap();
    let content = "0123456789".repeat(20_000);
    std::fs::write(folder.path().join("a.txt"), &content).unwrap();
    let files = thruway_server::Files::new(folder.path()).unwrap();
    let scene = TestServer::new(Router::new().mount("/files", files));
    let (head, received, _) = H2Client::connect(&scene).get("/files/a.txt");
    assert_eq!(head.headers()["content-length"], "200000");
    assert!(received == content);
}

#[test]
fn failed_body_resets_only_its_stream() {
    let scene = TestServer::new(|request: &Request| match request.path() {
        "/fails" => Response::new(StatusCode::OK).with_content(Content::written_by(|mut to| async move {
            to.write("some").await;
            Err("it fails".into())
        })),
        _ => Response::text("ok"),
    });
    let mut library = H2Client::connect(&scene);
    let (mut response, _) = library.begin(get("/fails"), true);
    let reason = library.now(&mut response).err().and_then(|error| error.reason());
    assert_eq!(reason, Some(h2::Reason::INTERNAL_ERROR));
    assert_eq!(library.get("/").1, "ok");
}

#[test]
fn handler_panic_gives_500_and_keeps_connection() {
    let scene = TestServer::new(|request: &Request| match request.path() {
        "/panics" => panic!("on purpose"),
        _ => Response::text("ok"),
    });
    let mut library = H2Client::connect(&scene);
    assert_eq!(library.get("/panics").0.status().as_u16(), 500);
    assert_eq!(library.get("/").1, "ok");
}

#[test]
fn http2_requests_are_recorded_with_outcome() {
    let records = Rc::new(RefCell::new(Vec::new()));
    let taken = records.clone();
    let record = move |record: &Record<'_>| {
        let head = record.head.unwrap();
        assert_eq!(head.version, Version::Http2);
        taken.borrow_mut().push((
            head.target.to_string(),
            record.status.as_u16(),
            record.content_bytes,
            record.is_complete,
        ));
    };
    let gates = Gates::default();
    let handler = gates.clone();
    let handle = move |request: OwnedRequest| handler.clone().answer(request);
    let scene = TestServer::with(handle, Config::default(), Some(Box::new(record)));
    let mut library = H2Client::connect(&scene);
    gates.open("/first");
    library.get("/first");
    let (_kept, _) = library.begin(get("/second"), true);
    library.server().reset();
    library.run();
    assert_eq!(
        *records.borrow(),
        [("/first".to_owned(), 200, 6, true), ("/second".to_owned(), 499, 0, false)]
    );
}

#[test]
fn axum_application_works_over_http2() {
    let app = axum::Router::new()
        .route("/hello/{name}", axum::routing::get(|path: axum::extract::Path<String>| async move { path.0 }))
        .route("/echo", axum::routing::post(|body: String| async move { body }));
    let scene = TestServer::new(Tower::new(app));
    let mut library = H2Client::connect(&scene);
    let (head, content, _) = library.get("/hello/world");
    assert_eq!((head.headers()["server"].as_bytes(), content.as_str()), (&b"thruway"[..], "world"));
    let (response, mut to) = library.begin(post("/echo"), false);
    to.send_data(Bytes::from_static(b"said"), true).unwrap();
    assert_eq!(library.answer(response).1, "said");
}
