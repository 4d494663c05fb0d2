//! Responses that are not compressed.

use thruway_server::layers::{Compression, Layered};
use thruway_server::{Content, FieldLinesBuf, Response, StatusCode};
use thruway_testkit::test_server::TestServer;

use super::{CODINGS, Reply, TEXT, compressed, get, streamed, text};

const ACCEPT: &str = "Accept-Encoding: gzip\r\n";

/// Returns `Content-Encoding` and `Vary` of the response for a client that accepts gzip.
fn outcome(response: impl Fn() -> Response + Send + Sync + 'static, fields: &str) -> (String, String) {
    let reply = get(compressed(response), &format!("{ACCEPT}{fields}"));
    (reply.field("Content-Encoding").to_owned(), reply.field("Vary").to_owned())
}

fn pair(coding: &str, vary: &str) -> (String, String) {
    (coding.to_owned(), vary.to_owned())
}

#[test]
fn incompressible_media_types_are_not_compressed_and_have_no_vary() {
    let of_type =
        |content_type: &'static str| outcome(move || Response::text(text(2000)).with_type(content_type), "");
    for content_type in ["image/png", "application/zip", "application/grpc", "text/event-stream", "video/mp4"]
    {
        assert_eq!(of_type(content_type), pair("", ""), "{content_type}");
    }
    for content_type in [
        "text/html; charset=utf-8",
        "TEXT/CSS",
        "application/json",
        "application/problem+json",
        "image/svg+xml",
        "application/wasm",
    ] {
        assert_eq!(of_type(content_type), pair("gzip", "Accept-Encoding"), "{content_type}");
    }
    assert_eq!(outcome(|| Response::new(StatusCode::OK).with_content(text(2000)), ""), pair("", ""));
    let only = Compression::new().types(["text/html"]).unwrap();
    let reply = get(Layered::new(|| text(2000)).layer(only), ACCEPT);
    assert_eq!((reply.field("Content-Encoding"), reply.field("Vary")), ("", ""));
}

#[test]
fn small_body_is_not_compressed_unless_its_length_is_unknown() {
    for (bytes, coding) in [(511, ""), (512, "gzip")] {
        let reply = get(compressed(move || "a".repeat(bytes)), ACCEPT);
        assert_eq!(reply.field("Content-Encoding"), coding, "{bytes}");
        assert_eq!(reply.field("Vary").is_empty(), coding.is_empty());
    }
    let reply = get(compressed(|| streamed(b"little", 2)), ACCEPT);
    assert_eq!((reply.field("Content-Encoding"), reply.decoded()), ("gzip", b"little".to_vec()));
    let everything = Compression::new().minimum_bytes(0);
    let reply = get(Layered::new(|| "").layer(everything.clone()), ACCEPT);
    assert_eq!((reply.field("Content-Encoding"), reply.field("Content-Length")), ("", "0"));
    assert_eq!(get(Layered::new(|| "a").layer(everything), ACCEPT).decoded(), b"a");
}

#[test]
fn encoded_response_is_not_compressed_again() {
    for coding in ["gzip", "br", "identity", "unknown"] {
        let response = move || Response::text(text(2000)).with_field("Content-Encoding", coding);
        assert_eq!(outcome(response, ""), pair(coding, "Accept-Encoding"));
    }
    let twice = compressed(compressed(|| text(2000)));
    let reply = get(twice, ACCEPT);
    assert_eq!((reply.field("Content-Encoding"), reply.decoded()), ("gzip", text(2000).into_bytes()));
}

#[test]
fn no_transform_prevents_compression() {
    for value in ["no-transform", "public, NO-TRANSFORM, max-age=5"] {
        let response = move || Response::text(text(2000)).with_field("Cache-Control", value);
        assert_eq!(outcome(response, ""), pair("", ""), "{value}");
        let fields = format!("Cache-Control: {value}\r\n");
        assert_eq!(outcome(|| Response::text(text(2000)), &fields), pair("", "Accept-Encoding"));
    }
    let response = || Response::text(text(2000)).with_field("Cache-Control", "public, max-age=5");
    assert_eq!(outcome(response, ""), pair("gzip", "Accept-Encoding"));
}

#[test]
fn response_with_digest_is_not_compressed() {
    for name in ["Content-Digest", "Repr-Digest", "Digest", "Content-MD5"] {
        let response = move || Response::text(text(2000)).with_field(name, "sha-256=:AAAA:");
        assert_eq!(outcome(response, ""), pair("", ""), "{name}");
    }
}

#[test]
fn partial_content_is_not_compressed_but_has_vary() {
    let part = || {
        Response::text(text(2000))
            .with_status(StatusCode::PARTIAL_CONTENT)
            .with_field("Content-Range", "bytes 0-1999/4000")
    };
    assert_eq!(outcome(part, "Range: bytes=0-1999\r\n"), pair("", "Accept-Encoding"));
    let several = || Response::text(text(2000)).with_status(StatusCode::PARTIAL_CONTENT);
    assert_eq!(outcome(several, "Range: bytes=0-1,5-1999\r\n"), pair("", "Accept-Encoding"));
    let odd = || Response::text(text(2000)).with_field("Content-Range", "bytes 0-1999/4000");
    assert_eq!(outcome(odd, ""), pair("", "Accept-Encoding"));
}

#[test]
fn responses_without_body_are_not_compressed() {
    let no_content = || Response::ok(TEXT, "").with_status(StatusCode::NO_CONTENT);
    assert_eq!(outcome(no_content, ""), pair("", ""));
    let unknown = || Response::ok(TEXT, Content::left_out(None)).with_status(StatusCode::NO_CONTENT);
    assert_eq!(outcome(unknown, ""), pair("", ""));
    let redirect = || Response::redirect(StatusCode::SEE_OTHER, "/b");
    assert_eq!(outcome(redirect, ""), pair("", ""));
}

#[test]
fn error_responses_are_compressed() {
    let response = || Response::text(text(2000)).with_status(StatusCode::NOT_FOUND);
    assert_eq!(outcome(response, ""), pair("gzip", "Accept-Encoding"));
}

#[test]
fn http10_client_gets_uncompressed_body() {
    let scene = TestServer::new(compressed(|| text(2000)));
    let mut client = scene.connect();
    client.send(format!("GET / HTTP/1.0\r\n{ACCEPT}\r\n"));
    let reply = Reply::of(&client.received_bytes());
    assert_eq!((reply.field("Content-Encoding"), reply.field("Vary")), ("", "Accept-Encoding"));
    assert_eq!(reply.content, text(2000).into_bytes());
}

#[test]
fn tunnels_are_not_compressed() {
    let scene = TestServer::new(compressed(|| {
        Response::upgrade("echo", |_| async {}).with_field("Content-Type", "text/plain")
    }));
    let mut client = scene.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n{ACCEPT}\r\n"));
    let reply = Reply::of(&client.received_bytes());
    assert_eq!((reply.status(), reply.field("Content-Encoding"), reply.field("Vary")), ("101", "", ""));
}

#[test]
fn request_bodies_are_not_decompressed() {
    let handler = compressed(|request: &thruway_server::Request| {
        assert_eq!(request.field("content-encoding").unwrap(), "gzip");
        Response::ok(FieldLinesBuf::new(), request.content().to_vec())
    });
    let scene = TestServer::new(handler);
    let mut client = scene.connect();
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\0\0\0");
    assert_eq!(Reply::of(&client.received_bytes()).content, b"\x1f\0\0\0");
}

#[test]
fn every_coding_shrinks_a_small_page() {
    for coding in CODINGS {
        let reply = get(compressed(|| text(20_000)), &format!("Accept-Encoding: {coding}\r\n"));
        assert!(reply.content.len() < 7000, "{coding}: {}", reply.content.len());
        assert_eq!(reply.field("Content-Length"), reply.content.len().to_string());
    }
}

/// Sets another media type.
trait WithType {
    fn with_type(self, content_type: &str) -> Self;
}

impl WithType for Response {
    fn with_type(mut self, content_type: &str) -> Self {
        self.set_field("Content-Type", content_type).unwrap();
        self
    }
}
