//! Malformed requests (RFC 9113 §8.1.1 to §8.3), sent as raw frames.

use std::sync::{Arc, Mutex};

use thruway_server::{Config, Limits, OwnedRequest, Record, Request, Response};
use thruway_testkit::test_server::TestServer;

use super::frames::*;
use crate::gate::Gates;

/// Returns a server that responds with the request line.
fn scene() -> TestServer {
    TestServer::new(|request: &Request| Response::text(format!("{request}")))
}

/// Returns the fields of a request with one additional field.
fn with<'a>(name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    [get("/"), vec![(name, value)]].concat()
}

/// Returns the fields of a request with one value replaced. `None` removes the field.
fn replacing<'a>(name: &str, value: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let replaced = get("/").into_iter().filter_map(|(known, old)| match (known == name, value) {
        (true, value) => value.map(|value| (known, value)),
        (false, _) => Some((known, old)),
    });
    replaced.collect()
}

#[test]
fn malformed_request_is_reset_and_next_request_is_answered() {
    let lists = [
        // Connection-specific fields (RFC 9113 §8.2.2).
        with("connection", "close"),
        with("keep-alive", "5"),
        with("proxy-connection", "close"),
        with("transfer-encoding", "chunked"),
        with("upgrade", "websocket"),
        with("te", "gzip"),
        // Invalid values (RFC 9113 §8.2.1).
        with("x", " a"),
        with("x", "a\t"),
        // Pseudo-header fields that belong to responses, or are late, repeated, missing or empty (RFC 9113
        // §8.3).
        with(":status", "200"),
        [vec![("x", "a")], get("/")].concat(),
        with(":path", "/again"),
        with(":method", "GET"),
        with(":scheme", "http"),
        with(":authority", "a.example"),
        replacing(":method", None),
        replacing(":scheme", None),
        replacing(":path", None),
        replacing(":path", Some("")),
        replacing(":path", Some("no-slash")),
        replacing(":path", Some("*")),
        replacing(":path", Some("http://a.example/")),
        replacing(":path", Some("/a b")),
        replacing(":path", Some("/a#b")),
        replacing(":path", Some("/a?b#c")),
        replacing(":path", Some("#")),
        replacing(":path", Some("/\u{e9}")),
        // The authority and `Host` (RFC 9113 §8.3.1).
        replacing(":authority", None),
        replacing(":authority", Some("")),
        replacing(":authority", Some("user@a.example")),
        replacing(":authority", Some("a.example:b")),
        replacing(":authority", Some("a.example, b.example")),
        with("host", "b.example"),
        with("host", "a.example:80"),
        with("host", "a b"),
        with("host", "%61.example"),
        replacing(":authority", Some("%61.example")),
        [with("host", "a.example"), vec![("host", "a.example")]].concat(),
        // A `Content-Length` that contradicts the frames (RFC 9113 §8.1.1).
        with("content-length", "1"),
        with("content-length", "+0"),
        with("content-length", ""),
        [with("content-length", "0"), vec![("content-length", "0")]].concat(),
        // Invalid CONNECT requests (RFC 9113 §8.5).
        vec![(":method", "CONNECT")],
        vec![(":method", "CONNECT"), (":authority", "a.example")],
        vec![(":method", "CONNECT"), (":authority", "a.example:1"), (":path", "/")],
        vec![(":method", "CONNECT"), (":authority", "a.example:1"), (":scheme", "http")],
    ];
    for lines in lists {
        let scene = scene();
        let mut client = connect_http2(&scene);
        client.send(request(1, &lines)).send(request(3, &get("/")));
        let frames = received(&mut client);
        assert_eq!(reset_code(&frames, 1), Some(PROTOCOL_ERROR), "{lines:?}");
        assert_eq!(status_of(&frames, 1), None, "{lines:?}");
        assert_eq!(status_of(&frames, 3), Some(200), "{lines:?}");
    }
}

/// Names and values that HPACK can encode but HTTP forbids.
const INVALID_FIELDS: [(&str, &str); 13] = [
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
    (":method", "GET?"),
    (":status", "99"),
];

/// The library once ended the connection for one invalid field, and with it all other requests (RFC 9113
/// §8.1.1). Behind a gateway, these are requests of other clients.
#[test]
fn invalid_header_resets_only_its_stream() {
    for (name, value) in INVALID_FIELDS {
        let gates = Gates::default();
        let handler = gates.clone();
        let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
        let mut client = connect_http2(&scene);
        client.send(request(1, &get("/open")));
        let lines = if name == ":method" { replacing(name, Some(value)) } else { with(name, value) };
        client.send(request(3, &lines)).send(request(5, &get("/next")));
        gates.open("/open");
        gates.open("/next");
        let frames = received(&mut client);
        assert_eq!(reset_code(&frames, 3), Some(PROTOCOL_ERROR), "{name:?}: {value:?}: {frames:?}");
        let statuses = [1, 3, 5].map(|stream| status_of(&frames, stream));
        assert_eq!(statuses, [Some(200), None, Some(200)], "{name:?}: {value:?}: {frames:?}");
        assert_eq!(goaway_code(&frames), None, "{name:?}: {value:?}");
    }
}

/// The decoder must keep an invalid field in its dynamic table: other streams may refer to the fields before
/// and after it.
#[test]
fn invalid_header_keeps_hpack_table_in_sync() {
    let scene = TestServer::new(|request: &Request| {
        let value =
            |name| request.field(name).and_then(|value| value.as_str()).unwrap_or("nothing").to_owned();
        Response::text(format!("{} {}", value("x-before"), value("x-after")))
    });
    for (name, value) in INVALID_FIELDS {
        let mut client = connect_http2(&scene);
        let added =
            [indexed_field("x-before", "b"), indexed_field(name, value), indexed_field("x-after", "a")];
        client.send(frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            1,
            [fields(&get("/")), added.concat()].concat(),
        ));
        // The table has `x-after` at 62, the invalid field at 63 and `x-before` at 64.
        for (stream, index, is_answered) in [(3, 0xbf, false), (5, 0xbe, true)] {
            let lines = [fields(&get("/")), vec![index, 0xc0]].concat();
            client.send(frame(HEADERS, END_STREAM | END_HEADERS, stream, lines));
            let frames = received(&mut client);
            let expected = if is_answered { Some(200) } else { None };
            assert_eq!(status_of(&frames, stream), expected, "{name:?}: {value:?}: {frames:?}");
            let body: Vec<u8> = frames
                .iter()
                .filter(|frame| frame.kind == DATA)
                .flat_map(|frame| frame.content.clone())
                .collect();
            assert_eq!(body, if is_answered { &b"b a"[..] } else { b"" }, "{name:?}: {value:?}");
        }
    }
}

/// If a field has a valid name and an invalid value, later fields may refer to its name.
#[test]
fn name_of_header_with_invalid_value_can_be_referenced_again() {
    let scene = TestServer::new(|request: &Request| {
        Response::text(request.field("x-name").map_or_else(String::new, |value| value.to_string()))
    });
    let mut client = connect_http2(&scene);
    let invalid = [fields(&get("/")), indexed_field("x-name", "a\r\nb")].concat();
    client.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, invalid));
    // Refers to the name at index 62, with another value.
    let valid = [fields(&get("/")), vec![0x0f, 62 - 15, 2, b'o', b'k']].concat();
    client.send(frame(HEADERS, END_STREAM | END_HEADERS, 3, valid));
    let frames = received(&mut client);
    assert_eq!(reset_code(&frames, 1), Some(PROTOCOL_ERROR));
    assert_eq!(frames.iter().find(|frame| frame.kind == DATA).unwrap().content, b"ok");
}

/// The library mishandled malformed header sections of several frames: it forgot the error, or it took the
/// second frame for a stray one and ended the connection.
#[test]
fn invalid_header_split_over_frames_resets_its_stream() {
    for (name, value) in INVALID_FIELDS.into_iter().chain([("connection", "close"), (":path", "/again")]) {
        let lines = fields(&[with(name, value), vec![("x-last", "a")]].concat());
        for cut in 1..lines.len() {
            let scene = scene();
            let mut client = connect_http2(&scene);
            client.send(frame(HEADERS, END_STREAM, 1, &lines[..cut]));
            client.send(frame(CONTINUATION, END_HEADERS, 1, &lines[cut..])).send(request(3, &get("/")));
            let frames = received(&mut client);
            assert_eq!(reset_code(&frames, 1), Some(PROTOCOL_ERROR), "{name:?} cut at {cut}: {frames:?}");
            assert_eq!(status_of(&frames, 3), Some(200), "{name:?} cut at {cut}: {frames:?}");
        }
    }
}

#[test]
fn invalid_trailer_resets_its_stream() {
    for (name, value) in INVALID_FIELDS {
        let scene = scene();
        let mut client = connect_http2(&scene);
        client.send(open_request(1, &replacing(":method", Some("POST")))).send(frame(DATA, 0, 1, "ok"));
        client.send(request(1, &[(name, value)])).send(request(3, &get("/")));
        let frames = received(&mut client);
        assert_eq!(reset_code(&frames, 1), Some(PROTOCOL_ERROR), "{name:?}: {value:?}: {frames:?}");
        assert_eq!(status_of(&frames, 3), Some(200), "{name:?}: {value:?}: {frames:?}");
    }
}

/// HTTP/2 once silently dropped everything after `#`, and HTTP/1.1 accepted targets that HTTP/2 rejected. A
/// rule for a path then applied to only one version.
#[test]
fn http1_and_http2_accept_the_same_targets_and_hosts() {
    let answers_of = |method: &str, target: &str, host: &str| {
        let scene = scene();
        let mut client = scene.connect();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let http1 = client.received();
        assert!(
            http1.starts_with("HTTP/1.1 200 ") || http1.starts_with("HTTP/1.1 400 "),
            "{target}: {http1}"
        );
        let mut client = connect_http2(&scene);
        let lines = [(":method", method), (":scheme", "http"), (":path", target), (":authority", host)];
        client.send(request(1, &lines));
        let frames = received(&mut client);
        assert_eq!(goaway_code(&frames), None, "{target} {host}: {frames:?}");
        (http1.starts_with("HTTP/1.1 200 "), status_of(&frames, 1) == Some(200))
    };
    // The loop skips spaces and line ends, because they delimit the target in HTTP/1.1.
    for byte in (0x21..0x7f).map(char::from) {
        let is_path_byte = !"#<>\\`".contains(byte);
        let is_query_byte = !"\"#<>".contains(byte);
        let is_host_byte = byte.is_ascii_alphanumeric() || "-._~!$&'()*+,;=".contains(byte);
        for (target, host, is_valid) in [
            (format!("/a{byte}b"), "a.example".to_owned(), is_path_byte),
            (format!("/a?b{byte}c"), "a.example".to_owned(), is_query_byte),
            ("/".to_owned(), format!("a{byte}b.example"), is_host_byte),
        ] {
            assert_eq!(answers_of("GET", &target, &host), (is_valid, is_valid), "{target} {host}");
        }
    }
    for host in ["a%2eb", "%61dmin.example", "admin.exampl%65:80", "[::1%25lo]"] {
        assert_eq!(answers_of("GET", "/", host), (false, false), "{host}");
    }
}

#[test]
fn body_with_wrong_content_length_resets_its_stream() {
    for content in ["", "four+"] {
        let scene = scene();
        let mut client = connect_http2(&scene);
        let lines = [replacing(":method", Some("POST")), vec![("content-length", "4")]].concat();
        client.send(open_request(1, &lines)).send(frame(DATA, END_STREAM, 1, content));
        let frames = received(&mut client);
        assert_eq!(reset_code(&frames, 1), Some(PROTOCOL_ERROR), "{content:?}");
        assert!(status_of(&frames, 1).is_none_or(|status| status == 400), "{content:?}: {frames:?}");
    }
}

#[test]
fn requests_over_shared_limits_get_error_status() {
    let limits =
        Limits { request_target_bytes: 100, header_section_bytes: 1000, field_lines: 8, ..Limits::default() };
    let statuses = Arc::new(Mutex::new(Vec::new()));
    let taken = statuses.clone();
    let record = move |record: &Record<'_>| taken.lock().unwrap().push(record.status.as_u16());
    let config = Config { limits: Limits { content_bytes: 10, ..limits }, ..Config::default() };
    let scene = TestServer::with(|| "ok", config, Some(Box::new(record)));
    let mut client = connect_http2(&scene);
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
fn trailers_with_framing_or_routing_fields_are_rejected() {
    for name in ["content-length", "host", "expect"] {
        let scene = TestServer::new(|mut request: OwnedRequest| async move {
            match request.content().collect(100).await {
                Ok(_) => Response::text("ok"),
                Err(error) => Response::text(error.to_string()).with_status(error.status()),
            }
        });
        let mut client = connect_http2(&scene);
        client.send(open_request(1, &replacing(":method", Some("POST")))).send(frame(DATA, 0, 1, "ok"));
        client.send(request(1, &[(name, "1")]));
        let frames = received(&mut client);
        assert_eq!(status_of(&frames, 1), Some(400), "{name}: {frames:?}");
    }
}

/// A gateway once forwarded requests for any scheme (RFC 9110 §7.4). `https` is allowed, because a proxy may
/// have terminated TLS and forwarded the bytes.
#[test]
fn scheme_other_than_http_or_https_is_misdirected() {
    for (scheme, is_served) in [("http", true), ("https", true), ("ftp", false), ("coap+tcp", false)] {
        let scene = scene();
        let mut client = connect_http2(&scene);
        client.send(request(1, &replacing(":scheme", Some(scheme)))).send(request(3, &get("/")));
        let frames = received(&mut client);
        assert_eq!(status_of(&frames, 1) == Some(200), is_served, "{scheme}: {frames:?}");
        let body = frames.iter().find(|frame| frame.kind == DATA && frame.stream == 1).unwrap();
        let is_misdirected = body.content.starts_with(b"this scheme or host is not served");
        assert_eq!(is_misdirected, !is_served, "{scheme}: {frames:?}");
        assert_eq!(status_of(&frames, 3), Some(200), "{scheme}");
    }
}
