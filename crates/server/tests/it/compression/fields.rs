//! Header fields of compressed responses.

use thruway_server::{Content, Response, StatusCode};
use thruway_testkit::test_server::TestServer;

use super::{Reply, TEXT, compressed, get, streamed, text};

const ACCEPT: &str = "Accept-Encoding: br\r\n";

#[test]
fn compression_weakens_etag_and_removes_accept_ranges() {
    let handler = || {
        Response::text(text(2000))
            .with_field("ETag", "\"a\"")
            .with_field("Accept-Ranges", "bytes")
            .with_field("X-A", "1")
    };
    let reply = get(compressed(handler), ACCEPT);
    assert_eq!((reply.field("ETag"), reply.field("Accept-Ranges"), reply.field("X-A")), ("W/\"a\"", "", "1"));
    let plain = get(compressed(handler), "");
    assert_eq!((plain.field("ETag"), plain.field("Accept-Ranges")), ("\"a\"", "bytes"));
    assert_eq!(plain.field("Content-Length"), text(2000).len().to_string());
}

#[test]
fn weak_or_invalid_entity_tag_is_unchanged() {
    for tag in ["W/\"a\"", "odd"] {
        let reply = get(compressed(move || Response::text(text(2000)).with_field("ETag", tag)), ACCEPT);
        assert_eq!(reply.field("ETag"), tag);
    }
}

#[test]
fn compressed_stream_has_no_content_length() {
    let reply = get(compressed(|| streamed(text(2000).as_bytes(), 100)), ACCEPT);
    assert_eq!((reply.field("Content-Length"), reply.field("Transfer-Encoding")), ("", "chunked"));
    assert!(reply.is_complete);
    assert_eq!(
        get(compressed(|| text(100_000)), ACCEPT).field("Content-Length"),
        "",
        "a large body is also sent as a stream"
    );
}

#[test]
fn vary_accept_encoding_is_not_repeated() {
    for (value, vary_lines) in
        [("Accept-Encoding", 1), ("Origin, accept-encoding", 1), ("*", 1), ("Origin", 2)]
    {
        let scene = TestServer::new(compressed(move || Response::text(text(2000)).with_field("Vary", value)));
        for fields in [ACCEPT, ""] {
            let mut client = scene.connect();
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            let bytes = client.received_bytes();
            let head = String::from_utf8_lossy(&bytes[..300]).to_lowercase();
            assert_eq!(head.matches("vary: ").count(), vary_lines, "{head}");
        }
    }
}

#[test]
fn head_response_has_headers_of_get_except_framing() {
    let bodies: [fn() -> Response; 3] = [
        || Response::text(text(2000)).with_field("ETag", "\"a\"").with_field("Accept-Ranges", "bytes"),
        || streamed(text(2000).as_bytes(), 100).with_field("ETag", "\"a\""),
        || Response::text("little").with_field("ETag", "\"a\""),
    ];
    for body in bodies {
        for fields in [ACCEPT, ""] {
            let scene = TestServer::new(compressed(body));
            let lines = |method: &str| {
                let mut client = scene.connect();
                client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
                let reply = Reply::of(&client.received_bytes());
                assert_eq!(reply.content.is_empty(), method == "HEAD");
                let is_compressed = !reply.field("Content-Encoding").is_empty();
                let is_framing =
                    |line: &str| line.starts_with("Content-Length") || line.starts_with("Transfer-");
                let is_compared = |line: &&str| !(is_compressed && is_framing(line));
                reply.head.lines().filter(is_compared).map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(lines("HEAD"), lines("GET"));
        }
    }
}

#[test]
fn head_response_with_left_out_body_has_compression_headers() {
    for length in [Some(2000), None] {
        let handler = move || Response::ok(TEXT, Content::left_out(length)).with_field("ETag", "\"a\"");
        let mut client = TestServer::new(compressed(handler)).connect();
        client.send(format!("HEAD / HTTP/1.1\r\nHost: a\r\n{ACCEPT}\r\n"));
        let reply = Reply::of(&client.received_bytes());
        assert_eq!((reply.field("Content-Encoding"), reply.field("Vary")), ("br", "Accept-Encoding"));
        assert_eq!((reply.field("Content-Length"), reply.field("ETag")), ("", "W/\"a\""));
    }
}

#[test]
fn not_modified_response_repeats_entity_tag_of_client() {
    let not_modified =
        || Response::new(StatusCode::NOT_MODIFIED).with_field("ETag", "\"a\"").with_field("Vary", "Origin");
    for (condition, tag) in [
        ("If-None-Match: W/\"a\"\r\n", "W/\"a\""),
        ("If-None-Match: \"b\", W/\"a\"\r\n", "W/\"a\""),
        ("If-None-Match: \"a\"\r\n", "\"a\""),
        ("", "\"a\""),
    ] {
        let mut client = TestServer::new(compressed(not_modified)).connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{ACCEPT}{condition}\r\n"));
        let head = client.received();
        assert!(head.contains(&format!("\r\nETag: {tag}\r\n")), "{head}");
        assert!(
            head.contains("\r\nVary: Accept-Encoding\r\n") && !head.contains("Content-Encoding"),
            "{head}"
        );
    }
}
