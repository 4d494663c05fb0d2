//! Requests that are refused (RFC 9113 §8.1.1 to §8.3), written by hand.

use std::sync::{Arc, Mutex};

use thruway_server::{Config, Limits, Record, Request, Response};
use thruway_testkit::scene::Scene;

use super::frames::*;

/// A server that says what it was asked.
fn scene() -> Scene {
    Scene::new(|request: &Request| Response::text(format!("{request}")))
}

/// The fields of a request, and one more.
fn with<'a>(name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    [get("/"), vec![(name, value)]].concat()
}

/// The fields of a request with another value for one of them; without it if there is none.
fn but<'a>(name: &str, value: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let replaced = get("/").into_iter().filter_map(|(known, old)| match (known == name, value) {
        (true, value) => value.map(|value| (known, value)),
        (false, _) => Some((known, old)),
    });
    replaced.collect()
}

#[test]
fn malformed_requests_are_reset_and_the_next_is_answered() {
    let lists = [
        // RFC 9113 §8.2.2: fields of the connection.
        with("connection", "close"),
        with("keep-alive", "5"),
        with("proxy-connection", "close"),
        with("transfer-encoding", "chunked"),
        with("upgrade", "websocket"),
        with("te", "gzip"),
        // RFC 9113 §8.2.1: values.
        with("x", " a"),
        with("x", "a\t"),
        // RFC 9113 §8.3: pseudo-fields of responses, late, repeated, missing, empty.
        with(":status", "200"),
        [vec![("x", "a")], get("/")].concat(),
        with(":path", "/again"),
        with(":method", "GET"),
        with(":scheme", "http"),
        with(":authority", "a.example"),
        but(":method", None),
        but(":scheme", None),
        but(":path", None),
        but(":path", Some("")),
        but(":path", Some("no-slash")),
        but(":path", Some("*")),
        but(":path", Some("http://a.example/")),
        but(":path", Some("/a b")),
        but(":path", Some("/\u{e9}")),
        // RFC 9113 §8.3.1: the authority, and `Host`.
        but(":authority", None),
        but(":authority", Some("")),
        but(":authority", Some("user@a.example")),
        but(":authority", Some("a.example:b")),
        but(":authority", Some("a.example, b.example")),
        with("host", "b.example"),
        with("host", "a.example:80"),
        with("host", "a b"),
        [with("host", "a.example"), vec![("host", "a.example")]].concat(),
        // RFC 9113 §8.1.1: a length that the frames contradict.
        with("content-length", "1"),
        with("content-length", "+0"),
        with("content-length", ""),
        [with("content-length", "0"), vec![("content-length", "0")]].concat(),
        // RFC 9113 §8.5: CONNECT.
        vec![(":method", "CONNECT")],
        vec![(":method", "CONNECT"), (":authority", "a.example")],
        vec![(":method", "CONNECT"), (":authority", "a.example:1"), (":path", "/")],
        vec![(":method", "CONNECT"), (":authority", "a.example:1"), (":scheme", "http")],
    ];
    for lines in lists {
        let scene = scene();
        let mut client = greeted(&scene);
        client.send(request(1, &lines)).send(request(3, &get("/")));
        let frames = received(&mut client);
        assert_eq!(reset_of(&frames, 1), Some(PROTOCOL_ERROR), "{lines:?}");
        assert_eq!(status_of(&frames, 1), None, "{lines:?}");
        assert_eq!(status_of(&frames, 3), Some(200), "{lines:?}");
    }
}

#[test]
fn fields_that_would_end_a_line_of_http11_end_the_connection() {
    for (name, value) in [
        ("x", "a\r\nx-smuggled: b"),
        ("x", "a\nb"),
        ("x", "a\rb"),
        ("x", "a\0b"),
        ("x y", "a"),
        ("x:", "a"),
        ("x\r\ny", "a"),
        ("x\0", "a"),
        ("X", "a"),
        ("", "a"),
        (":unknown", "a"),
    ] {
        let scene = scene();
        let mut client = greeted(&scene);
        client.send(request(1, &with(name, value)));
        let frames = received(&mut client);
        assert_eq!(status_of(&frames, 1), None, "{name:?}: {value:?}");
        let is_refused = reset_of(&frames, 1).or(end_of(&frames));
        assert_eq!(is_refused, Some(PROTOCOL_ERROR), "{name:?}: {value:?}: {frames:?}");
    }
}

#[test]
fn content_that_is_not_as_long_as_it_says_is_refused() {
    for content in ["", "four+"] {
        let scene = scene();
        let mut client = greeted(&scene);
        let lines = [but(":method", Some("POST")), vec![("content-length", "4")]].concat();
        client.send(open_request(1, &lines)).send(frame(DATA, END_STREAM, 1, content));
        let frames = received(&mut client);
        assert_eq!(reset_of(&frames, 1), Some(PROTOCOL_ERROR), "{content:?}");
        assert!(status_of(&frames, 1).is_none_or(|status| status == 400), "{content:?}: {frames:?}");
    }
}

#[test]
fn what_breaks_a_limit_of_all_versions_is_answered() {
    let limits =
        Limits { request_target_bytes: 100, header_section_bytes: 1000, field_lines: 8, ..Limits::default() };
    let statuses = Arc::new(Mutex::new(Vec::new()));
    let taken = statuses.clone();
    let record = move |record: &Record<'_>| taken.lock().unwrap().push(record.status.as_u16());
    let config = Config { limits: Limits { content_bytes: 10, ..limits }, ..Config::default() };
    let scene = Scene::with(|| "ok", config, Some(Box::new(record)));
    let mut client = greeted(&scene);
    let (long, large) = (format!("/{}", "a".repeat(200)), "a".repeat(1000));
    let many = [get("/"), vec![("x", "a"); 8]].concat();
    client.send(request(1, &get(&long)));
    client.send(request(3, &with("x", &large)));
    client.send(request(5, &many));
    client.send(request(7, &with("expect", "something")));
    client.send(open_request(9, &with("content-length", "11")));
    let frames = received(&mut client);
    let answered: Vec<_> = frames.iter().filter(|frame| frame.kind == HEADERS).collect();
    assert_eq!(answered.len(), 5, "{frames:?}");
    assert_eq!(*statuses.lock().unwrap(), [414, 431, 431, 417, 413]);
}

#[test]
fn trailers_that_frame_or_route_are_refused() {
    for name in ["content-length", "host", "expect"] {
        let scene = Scene::new(|mut request: thruway_server::OwnedRequest| async move {
            match request.content().collect(100).await {
                Ok(_) => Response::text("ok"),
                Err(error) => Response::text(error.to_string()).with_status(error.status()),
            }
        });
        let mut client = greeted(&scene);
        client.send(open_request(1, &but(":method", Some("POST")))).send(frame(DATA, 0, 1, "ok"));
        client.send(request(1, &[(name, "1")]));
        let frames = received(&mut client);
        assert_eq!(status_of(&frames, 1), Some(400), "{name}: {frames:?}");
    }
}
