//! Negotiation of the coding.

use thruway_server::ContentCoding;
use thruway_server::layers::{Compression, Layered};

use super::{CODINGS, compressed, fetch, get, text};
use thruway_testkit::test_server::TestServer;

fn coding_for(compression: Compression, accept: &str) -> String {
    let handler = Layered::new(|| text(2000)).layer(compression);
    let reply = get(handler, &format!("Accept-Encoding: {accept}\r\n"));
    assert_eq!((reply.status(), reply.decoded()), ("200", text(2000).into_bytes()), "{accept}");
    assert_eq!(reply.field("Vary"), "Accept-Encoding");
    reply.field("Content-Encoding").to_owned()
}

#[test]
fn client_weights_choose_coding_and_server_order_breaks_ties() {
    for (accept, coding) in [
        ("gzip", "gzip"),
        ("x-gzip", "gzip"),
        ("br", "br"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, deflate, br", "br"),
        ("gzip, br;q=0.9", "gzip"),
        ("*", "zstd"),
        ("*;q=0.5, zstd;q=0", "br"),
        ("deflate, *;q=0", ""),
        ("gzip;q=0", ""),
        ("identity", ""),
        ("identity, gzip;q=0.5", ""),
        ("identity;q=0.5, gzip;q=0.5", "gzip"),
        ("identity;q=0, gzip;q=0.1", "gzip"),
        ("identity;q=0, *;q=0", ""),
        ("deflate", ""),
        ("", ""),
    ] {
        assert_eq!(coding_for(Compression::new(), accept), coding, "{accept}");
    }
}

#[test]
fn missing_accept_encoding_gives_uncompressed_body() {
    let reply = get(compressed(|| text(2000)), "");
    assert_eq!((reply.field("Content-Encoding"), reply.field("Vary")), ("", "Accept-Encoding"));
}

#[test]
fn only_configured_codings_are_used_in_configured_order() {
    let only = |coding| Compression::new().codings([(coding, 6)]);
    assert_eq!(coding_for(only(ContentCoding::Gzip), "gzip, br, zstd"), "gzip");
    assert_eq!(coding_for(only(ContentCoding::Brotli), "gzip"), "");
    let two = [(ContentCoding::Gzip, 1), (ContentCoding::Brotli, 1)];
    assert_eq!(coding_for(Compression::new().codings(two), "zstd, br, gzip"), "gzip");
    assert_eq!(coding_for(Compression::new().codings([]), "gzip"), "");
}

#[test]
fn valid_compression_levels_work_and_others_panic() {
    for coding in [ContentCoding::Brotli, ContentCoding::Gzip, ContentCoding::Zstandard] {
        for level in Compression::levels(coding) {
            assert_eq!(
                coding_for(Compression::new().codings([(coding, level)]), "br, gzip, zstd"),
                coding.name()
            );
        }
        let beyond = *Compression::levels(coding).end() + 1;
        let refused = std::panic::catch_unwind(|| Compression::new().codings([(coding, beyond)]));
        assert!(refused.is_err(), "{} {beyond}", coding.name());
    }
}

#[test]
fn reused_compressor_keeps_no_state() {
    let scene = TestServer::new(compressed(|request: &thruway_server::Request| {
        let length: usize = request.query_string().unwrap().parse().unwrap();
        text(length)
    }));
    let mut client = scene.connect();
    for length in [1000, 60_000, 200_000, 1000, 200_000] {
        for coding in CODINGS {
            client.send(format!("GET /?{length} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"));
            let reply = super::Reply::of(&client.received_bytes());
            assert_eq!(
                (reply.field("Content-Encoding"), reply.decoded()),
                (coding, text(length).into_bytes())
            );
        }
    }
    let reply = fetch(&mut scene.connect(), "Accept-Encoding: gzip\r\n");
    assert_eq!(reply.status(), "500", "the handler panics without a query, and the layer still works");
}
