//! Negotiation of files that are stored in several encodings.

use super::*;

fn site() -> Site {
    Site::new(&[
        ("a.js", "original"),
        ("a.js.br", "brotli"),
        ("a.js.zst", "zstd"),
        ("a.js.gz", "gz"),
        ("plain.js", "plain"),
        ("dir/index.html", "index"),
        ("dir/index.html.gz", "index gz"),
    ])
}

#[test]
fn client_gets_its_preferred_precompressed_file() {
    let site = site();
    let handler = site.mounted();
    for (accept, coding, content) in [
        ("gzip, deflate, br, zstd", "br", "brotli"),
        ("gzip, zstd", "zstd", "zstd"),
        ("gzip", "gzip", "gz"),
        ("br;q=0.5, gzip;q=0.6", "gzip", "gz"),
        ("br;q=0, *", "zstd", "zstd"),
        ("deflate", "", "original"),
        ("identity, br;q=0.9", "", "original"),
        ("", "", "original"),
    ] {
        let reply = get(&handler, "/a.js", &[("Accept-Encoding", accept)]);
        assert_eq!((reply.status(), reply.text()), (200, content), "{accept}");
        assert_eq!(reply.field("Content-Encoding"), coding, "{accept}");
        assert_eq!(reply.field("Vary"), "Accept-Encoding");
        assert_eq!(reply.field("Content-Type"), "text/javascript; charset=utf-8");
    }
    assert_eq!(get(&handler, "/a.js", &[]).text(), "original");
}

#[test]
fn file_without_precompressed_sibling_is_plain_but_has_vary() {
    let site = site();
    let reply = get(&site.mounted(), "/plain.js", &[("Accept-Encoding", "br")]);
    assert_eq!((reply.text(), reply.field("Content-Encoding")), ("plain", ""));
    assert_eq!(reply.field("Vary"), "Accept-Encoding");
    let reply = get(&site.mounted(), "/dir/", &[("Accept-Encoding", "br, gzip")]);
    assert_eq!((reply.text(), reply.field("Content-Encoding")), ("index gz", "gzip"));
    assert_eq!(reply.field("Content-Type"), "text/html; charset=utf-8");
}

#[test]
fn client_that_accepts_no_available_coding_gets_406() {
    let site = site();
    for (target, accept, status) in [
        ("/plain.js", "identity;q=0", 406),
        ("/plain.js", "br, *;q=0", 406),
        ("/a.js", "br, *;q=0", 200),
        ("/none.js", "identity;q=0", 404),
    ] {
        assert_eq!(get(&site.mounted(), target, &[("Accept-Encoding", accept)]).status(), status, "{accept}");
    }
    let reply = get(&site.mounted(), "/plain.js", &[("Accept-Encoding", "identity;q=0")]);
    assert_eq!(reply.field("Vary"), "Accept-Encoding");
}

#[test]
fn each_coding_has_its_own_entity_tag() {
    // All files have the same modification time and length and differ only in their coding.
    let site = Site::new(&[("a", "1234"), ("a.br", "brbr"), ("a.zst", "zstd"), ("a.gz", "gzip")]);
    let handler = site.mounted();
    let tags = ["", "br", "zstd", "gzip"]
        .map(|accept| get(&handler, "/a", &[("Accept-Encoding", accept)]).field("ETag").to_owned());
    for (i, tag) in tags.iter().enumerate() {
        assert!(tag.starts_with('"') && !tags[..i].contains(tag), "{tags:?}");
    }
    let not_modified = get(&handler, "/a", &[("Accept-Encoding", "br"), ("If-None-Match", &tags[1])]);
    assert_eq!((not_modified.status(), not_modified.field("ETag")), (304, &*tags[1]));
    let other = get(&handler, "/a", &[("Accept-Encoding", "br"), ("If-None-Match", &tags[0])]);
    assert_eq!((other.status(), other.text()), (200, "brbr"));
}

#[test]
fn precompressed_file_older_than_original_is_skipped() {
    let site = site();
    let read = || get(&site.mounted(), "/a.js", &[("Accept-Encoding", "br, gzip;q=0.5")]).text().to_owned();
    let (seconds, nanoseconds) = (MODIFIED.as_secs(), MODIFIED.subsec_nanos());
    for (modified, expected) in [
        (Duration::new(seconds + 1, 0), "brotli"),
        (MODIFIED, "brotli"),
        (Duration::new(seconds, nanoseconds - 1), "gz"),
        (Duration::new(seconds, 0), "brotli"),
        (Duration::new(seconds - 1, 0), "gz"),
    ] {
        site.set_modified("a.js.br", modified);
        assert_eq!(read(), expected, "{modified:?}");
    }
}

#[test]
fn unservable_precompressed_file_is_skipped() {
    let site = Site::new(&[("a", "original"), ("b", "original"), ("c", "original"), ("b.gz/x", "")]);
    symlink("/etc/passwd", site.path("a.gz")).unwrap();
    mknodat(CWD, site.path("c.gz"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    for target in ["/a", "/b", "/c"] {
        assert_eq!(get(&site.mounted(), target, &[("Accept-Encoding", "gzip")]).text(), "original");
    }
}

#[test]
fn precompressed_file_without_original_is_an_ordinary_file() {
    let site = Site::new(&[("a.txt.gz", "gz")]);
    let accept = [("Accept-Encoding", "gzip")];
    assert_eq!(get(&site.mounted(), "/a.txt", &accept).status(), 404);
    let reply = get(&site.mounted(), "/a.txt.gz", &accept);
    assert_eq!((reply.text(), reply.field("Content-Type")), ("gz", "application/gzip"));
    assert_eq!(reply.field("Content-Encoding"), "");
}

#[test]
fn precompressed_files_can_be_disabled() {
    let site = site();
    let handler: Arc<dyn Handler> = Arc::new(site.files().precompressed(false));
    for accept in ["br, gzip", "identity;q=0"] {
        let reply = get(&handler, "/a.js", &[("Accept-Encoding", accept)]);
        assert_eq!((reply.status(), reply.text(), reply.field("Vary")), (200, "original", ""), "{accept}");
    }
}

#[test]
fn encoded_above_serves_plain_file_even_if_identity_is_rejected() {
    let site = site();
    let handler: Arc<dyn Handler> = Arc::new(site.files().encoded_above(true));
    let reply = get(&handler, "/plain.js", &[("Accept-Encoding", "gzip, identity;q=0")]);
    assert_eq!((reply.status(), reply.text(), reply.field("Vary")), (200, "plain", "Accept-Encoding"));
    let reply = get(&handler, "/a.js", &[("Accept-Encoding", "gzip, identity;q=0")]);
    assert_eq!((reply.status(), reply.text()), (200, "gz"));
}

#[test]
fn range_applies_to_precompressed_bytes() {
    let site = site();
    let br = ("Accept-Encoding", "br");
    let reply = get(&site.mounted(), "/a.js", &[br, ("Range", "bytes=1-2")]);
    assert_eq!((reply.status(), reply.text()), (206, "ro"));
    assert_eq!((reply.field("Content-Range"), reply.field("Content-Encoding")), ("bytes 1-2/6", "br"));
    let reply = get(&site.mounted(), "/a.js", &[br, ("Range", "bytes=6-")]);
    assert_eq!((reply.status(), reply.field("Content-Range")), (416, "bytes */6"));
    let reply = get(&site.mounted(), "/a.js", &[br, ("Range", "bytes=0-0,2-2")]);
    assert_eq!(
        (reply.status(), reply.text()),
        (200, "brotli"),
        "several ranges of a compressed file are not sent"
    );
}
