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
fn the_sibling_that_the_client_likes_best_is_sent() {
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
        let seen = get(&handler, "/a.js", &[("Accept-Encoding", accept)]);
        assert_eq!((seen.status(), seen.text()), (200, content), "{accept}");
        assert_eq!(seen.field("Content-Encoding"), coding, "{accept}");
        assert_eq!(seen.field("Vary"), "Accept-Encoding");
        assert_eq!(seen.field("Content-Type"), "text/javascript; charset=utf-8");
    }
    assert_eq!(get(&handler, "/a.js", &[]).text(), "original");
}

#[test]
fn a_file_without_the_sibling_is_sent_as_it_is_and_varies_nevertheless() {
    let site = site();
    let seen = get(&site.mounted(), "/plain.js", &[("Accept-Encoding", "br")]);
    assert_eq!((seen.text(), seen.field("Content-Encoding")), ("plain", ""));
    assert_eq!(seen.field("Vary"), "Accept-Encoding");
    let seen = get(&site.mounted(), "/dir/", &[("Accept-Encoding", "br, gzip")]);
    assert_eq!((seen.text(), seen.field("Content-Encoding")), ("index gz", "gzip"));
    assert_eq!(seen.field("Content-Type"), "text/html; charset=utf-8");
}

#[test]
fn a_client_that_accepts_nothing_there_is_told_so() {
    let site = site();
    for (target, accept, status) in [
        ("/plain.js", "identity;q=0", 406),
        ("/plain.js", "br, *;q=0", 406),
        ("/a.js", "br, *;q=0", 200),
        ("/none.js", "identity;q=0", 404),
    ] {
        assert_eq!(get(&site.mounted(), target, &[("Accept-Encoding", accept)]).status(), status, "{accept}");
    }
    let seen = get(&site.mounted(), "/plain.js", &[("Accept-Encoding", "identity;q=0")]);
    assert_eq!(seen.field("Vary"), "Accept-Encoding");
}

#[test]
fn each_coding_has_an_entity_tag_of_its_own() {
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
fn a_sibling_older_than_its_original_is_passed_over() {
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
fn a_sibling_that_may_not_be_served_is_passed_over() {
    let site = Site::new(&[("a", "original"), ("b", "original"), ("c", "original"), ("b.gz/x", "")]);
    symlink("/etc/passwd", site.path("a.gz")).unwrap();
    mknodat(CWD, site.path("c.gz"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    for target in ["/a", "/b", "/c"] {
        assert_eq!(get(&site.mounted(), target, &[("Accept-Encoding", "gzip")]).text(), "original");
    }
}

#[test]
fn a_sibling_without_its_original_is_only_a_file() {
    let site = Site::new(&[("a.txt.gz", "gz")]);
    let accept = [("Accept-Encoding", "gzip")];
    assert_eq!(get(&site.mounted(), "/a.txt", &accept).status(), 404);
    let seen = get(&site.mounted(), "/a.txt.gz", &accept);
    assert_eq!((seen.text(), seen.field("Content-Type")), ("gz", "application/gzip"));
    assert_eq!(seen.field("Content-Encoding"), "");
}

#[test]
fn siblings_can_be_left_alone() {
    let site = site();
    let handler: Arc<dyn Handler> = Arc::new(site.files().precompressed(false));
    for accept in ["br, gzip", "identity;q=0"] {
        let seen = get(&handler, "/a.js", &[("Accept-Encoding", accept)]);
        assert_eq!((seen.status(), seen.text(), seen.field("Vary")), (200, "original", ""), "{accept}");
    }
}

#[test]
fn what_is_encoded_above_is_given_to_clients_that_do_not_accept_it_as_it_is() {
    let site = site();
    let handler: Arc<dyn Handler> = Arc::new(site.files().encoded_above(true));
    let seen = get(&handler, "/plain.js", &[("Accept-Encoding", "gzip, identity;q=0")]);
    assert_eq!((seen.status(), seen.text(), seen.field("Vary")), (200, "plain", "Accept-Encoding"));
    let seen = get(&handler, "/a.js", &[("Accept-Encoding", "gzip, identity;q=0")]);
    assert_eq!((seen.status(), seen.text()), (200, "gz"));
}

#[test]
fn a_range_is_one_of_the_encoded_bytes() {
    let site = site();
    let br = ("Accept-Encoding", "br");
    let seen = get(&site.mounted(), "/a.js", &[br, ("Range", "bytes=1-2")]);
    assert_eq!((seen.status(), seen.text()), (206, "ro"));
    assert_eq!((seen.field("Content-Range"), seen.field("Content-Encoding")), ("bytes 1-2/6", "br"));
    let seen = get(&site.mounted(), "/a.js", &[br, ("Range", "bytes=6-")]);
    assert_eq!((seen.status(), seen.field("Content-Range")), (416, "bytes */6"));
    let seen = get(&site.mounted(), "/a.js", &[br, ("Range", "bytes=0-0,2-2")]);
    assert_eq!((seen.status(), seen.text()), (200, "brotli"), "several parts are not sent encoded");
}
