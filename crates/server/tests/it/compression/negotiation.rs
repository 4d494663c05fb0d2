//! Negotiation of the coding.

use thruway_server::ContentCoding;
use thruway_server::layers::{Compression, Layered};

use super::{CODINGS, ask, compressed, get, text};
use thruway_testkit::scene::Scene;

fn coding_for(compression: Compression, accept: &str) -> String {
    let handler = Layered::new(|| text(2000)).layer(compression);
    let seen = get(handler, &format!("Accept-Encoding: {accept}\r\n"));
    assert_eq!((seen.status(), seen.decoded()), ("200", text(2000).into_bytes()), "{accept}");
    assert_eq!(seen.field("Vary"), "Accept-Encoding");
    seen.field("Content-Encoding").to_owned()
}

#[test]
fn the_client_decides_by_weights_and_our_order_among_equals() {
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
fn without_the_field_content_is_as_it_is() {
    let seen = get(compressed(|| text(2000)), "");
    assert_eq!((seen.field("Content-Encoding"), seen.field("Vary")), ("", "Accept-Encoding"));
}

#[test]
fn codings_have_the_order_and_the_levels_that_they_are_given() {
    let only = |coding| Compression::new().codings([(coding, 6)]);
    assert_eq!(coding_for(only(ContentCoding::Gzip), "gzip, br, zstd"), "gzip");
    assert_eq!(coding_for(only(ContentCoding::Brotli), "gzip"), "");
    let two = [(ContentCoding::Gzip, 1), (ContentCoding::Brotli, 1)];
    assert_eq!(coding_for(Compression::new().codings(two), "zstd, br, gzip"), "gzip");
    assert_eq!(coding_for(Compression::new().codings([]), "gzip"), "");
}

#[test]
fn every_level_that_is_allowed_works_and_no_other_is() {
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
fn compressors_are_used_again_without_remembering() {
    let scene = Scene::new(compressed(|request: &thruway_server::Request| {
        let length: usize = request.query_string().unwrap().parse().unwrap();
        text(length)
    }));
    let mut client = scene.connect();
    for length in [1000, 60_000, 200_000, 1000, 200_000] {
        for coding in CODINGS {
            client.send(format!("GET /?{length} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"));
            let seen = super::Seen::of(&client.received_bytes());
            assert_eq!((seen.field("Content-Encoding"), seen.decoded()), (coding, text(length).into_bytes()));
        }
    }
    let seen = ask(&mut scene.connect(), "Accept-Encoding: gzip\r\n");
    assert_eq!(seen.status(), "500", "the handler panics without a query, and the layer does not mind");
}
