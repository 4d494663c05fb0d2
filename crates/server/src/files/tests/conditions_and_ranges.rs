//! Conditional and range requests, except the parts that have unit tests of their own.

use super::*;

const TAG: &str = "\"2ebc98a1-75bcd15-a\"";

fn site() -> Site {
    Site::new(&[("a.txt", "0123456789"), ("empty", "")])
}

#[test]
fn not_modified_response_has_only_etag_vary_and_cache_control() {
    let site = site();
    let handler: Arc<dyn Handler> = Arc::new(site.files().cache_control("no-cache"));
    for line in [("If-None-Match", TAG), ("If-None-Match", "*"), ("If-Modified-Since", MODIFIED_DATE)] {
        for reply in [get(&handler, "/a.txt", &[line]), head(&handler, "/a.txt", &[line])] {
            assert_eq!((reply.status(), reply.content.len()), (304, 0), "{line:?}");
            assert_eq!(reply.field_names(), ["ETag", "Vary", "Cache-Control"]);
            assert_eq!(
                (reply.field("ETag"), reply.field("Vary"), reply.field("Cache-Control")),
                (TAG, "Accept-Encoding", "no-cache")
            );
        }
    }
}

#[test]
fn failed_precondition_gives_412() {
    let site = site();
    for line in [
        ("If-Match", "\"other\""),
        ("If-Match", &*format!("W/{TAG}")),
        ("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:36 GMT"),
    ] {
        for reply in [get(&site.mounted(), "/a.txt", &[line]), head(&site.mounted(), "/a.txt", &[line])] {
            assert_eq!((reply.status(), reply.content.len()), (412, 0), "{line:?}");
        }
    }
    let reply = get(&site.mounted(), "/a.txt", &[("If-Match", TAG), ("If-None-Match", "\"x\"")]);
    assert_eq!((reply.status(), reply.text()), (200, "0123456789"));
}

/// Section 13.2.1 of RFC 9110: a server evaluates conditions only where it would otherwise respond with 2xx.
#[test]
fn preconditions_are_ignored_for_404_and_redirects() {
    let site = Site::new(&[("dir/x", "")]);
    for line in [("If-Match", "\"x\""), ("If-None-Match", "*"), ("If-Match", "*")] {
        assert_eq!(get(&site.mounted(), "/none", &[line]).status(), 404);
        assert_eq!(get(&site.mounted(), "/dir", &[line]).status(), 301);
    }
}

#[test]
fn changed_file_gets_new_entity_tag() {
    let site = site();
    let tag = || get(&site.mounted(), "/a.txt", &[]).field("ETag").to_owned();
    assert_eq!(tag(), TAG);
    site.set_modified("a.txt", MODIFIED + Duration::from_nanos(1));
    assert_ne!(tag(), TAG);
    site.write("a.txt", "012345678");
    assert_ne!(tag(), TAG);
}

#[test]
fn single_range_is_sent_with_206_and_content_range() {
    let site = site();
    for (range, content, content_range) in [
        ("bytes=0-3", "0123", "bytes 0-3/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=0-99", "0123456789", "bytes 0-9/10"),
        ("bytes=5-5", "5", "bytes 5-5/10"),
        ("bytes=0-1,1-2", "012", "bytes 0-2/10"),
        ("bytes=0-1,20-30", "01", "bytes 0-1/10"),
    ] {
        let reply = get(&site.mounted(), "/a.txt", &[("Range", range)]);
        assert_eq!((reply.status(), reply.text()), (206, content), "{range}");
        assert_eq!(reply.field("Content-Range"), content_range);
        assert_eq!(reply.field("Content-Type"), "text/plain; charset=utf-8");
        assert_eq!((reply.field("ETag"), reply.field("Last-Modified")), (TAG, MODIFIED_DATE));
    }
}

#[test]
fn ignored_range_gives_the_whole_file() {
    let site = site();
    for lines in [
        &[("Range", "bytes=2-1")][..],
        &[("Range", "bytes=0-1,x")],
        &[("Range", "lines=0-1")],
        &[("Range", "bytes=0-1"), ("Range", "bytes=0-1")],
        &[("If-Range", TAG)],
    ] {
        let reply = get(&site.mounted(), "/a.txt", lines);
        assert_eq!((reply.status(), reply.text(), reply.field("Content-Range")), (200, "0123456789", ""));
    }
}

/// Section 14.2 of RFC 9110: GET is the only method with ranges.
#[test]
fn head_request_ignores_range() {
    let site = site();
    for range in ["bytes=0-1", "bytes=99-", "bytes=0-0,2-2"] {
        let reply = head(&site.mounted(), "/a.txt", &[("Range", range), ("If-Range", "\"other\"")]);
        assert_eq!((reply.status(), reply.field("Content-Range")), (200, ""));
    }
}

#[test]
fn unsatisfiable_range_gives_416_with_file_length() {
    let site = site();
    for (target, range, content_range) in [
        ("/a.txt", "bytes=10-", "bytes */10"),
        ("/a.txt", "bytes=-0", "bytes */10"),
        ("/empty", "bytes=0-", "bytes */0"),
    ] {
        let reply = get(&site.mounted(), target, &[("Range", range)]);
        assert_eq!((reply.status(), reply.field("Content-Range")), (416, content_range), "{range}");
        assert_eq!((reply.field("Cache-Control"), reply.content.len()), ("", 0));
    }
    let reply = get(&site.mounted(), "/empty", &[("Range", "bytes=-1")]);
    assert_eq!((reply.status(), reply.content.len()), (200, 0));
}

#[test]
fn failed_if_range_disables_the_range() {
    let site = site();
    for (if_range, status) in [
        (TAG, 206),
        (MODIFIED_DATE, 206),
        ("\"other\"", 200),
        (&*format!("W/{TAG}"), 200),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
    ] {
        let reply = get(&site.mounted(), "/a.txt", &[("Range", "bytes=0-1"), ("If-Range", if_range)]);
        assert_eq!(reply.status(), status, "{if_range}");
        let lines = [("Range", "bytes=99-"), ("If-Range", if_range)];
        let unsatisfiable = get(&site.mounted(), "/a.txt", &lines).status();
        assert_eq!(unsatisfiable, if status == 206 { 416 } else { 200 }, "{if_range}");
    }
}

#[test]
fn preconditions_are_checked_before_ranges() {
    let site = site();
    let status = |lines: &[(&str, &str)]| get(&site.mounted(), "/a.txt", lines).status();
    for range in [("Range", "bytes=0-1"), ("Range", "bytes=99-")] {
        assert_eq!(status(&[range, ("If-None-Match", TAG)]), 304);
        assert_eq!(status(&[range, ("If-Match", "\"other\"")]), 412);
    }
    assert_eq!(status(&[("Range", "bytes=0-1"), ("If-Match", TAG)]), 206);
}

#[test]
fn several_ranges_are_sent_as_multipart() {
    let site = site();
    let reply = get(&site.mounted(), "/a.txt", &[("Range", "bytes=8-,0-1,4-5")]);
    assert_eq!((reply.status(), reply.field("Content-Range")), (206, ""));
    assert_eq!((reply.field("ETag"), reply.field("Accept-Ranges")), (TAG, "bytes"));
    let boundary = reply.field("Content-Type").strip_prefix("multipart/byteranges; boundary=").unwrap();
    assert!(boundary.len() == 32 && boundary.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let part = |range, content| {
        format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes {range}/10\r\n\r\n{content}\r\n"
        )
    };
    let expected = [part("8-9", "89"), part("0-1", "01"), part("4-5", "45"), format!("--{boundary}--\r\n")];
    assert_eq!(reply.text(), expected.concat());
    let again = get(&site.mounted(), "/a.txt", &[("Range", "bytes=8-,0-1,4-5")]);
    assert_ne!(again.field("Content-Type"), reply.field("Content-Type"), "the boundary is random");
}

#[test]
fn many_overlapping_ranges_never_send_more_than_the_file() {
    let site = site();
    let set = "bytes=".to_owned() + &["0-"; 1000].join(",");
    let reply = get(&site.mounted(), "/a.txt", &[("Range", &set)]);
    assert_eq!((reply.status(), reply.text()), (200, "0123456789"));
    let set = "bytes=".to_owned() + &["0-"; 64].join(",");
    let reply = get(&site.mounted(), "/a.txt", &[("Range", &set)]);
    assert_eq!((reply.status(), reply.field("Content-Range")), (206, "bytes 0-9/10"));
}

#[test]
fn large_ranges_and_multipart_bodies_are_complete() {
    let bytes: String = (0..300_000u32).map(|i| char::from(b'a' + (i % 23) as u8)).collect();
    let site = Site::new(&[("large.txt", &bytes)]);
    let handler = site.mounted();
    let reply = get(&handler, "/large.txt", &[("Range", "bytes=10-200009,250000-299999")]);
    assert!(reply.text().contains(&bytes[10..200_010]) && reply.text().contains(&bytes[250_000..]));
    assert!(reply.content.len() > 250_000 && reply.content.len() < 250_500);
    let reply = get(&handler, "/large.txt", &[("Range", "bytes=100000-199999")]);
    assert_eq!(reply.text(), &bytes[100_000..200_000]);
    assert_eq!(get(&handler, "/large.txt", &[]).text(), bytes);
}

#[test]
fn files_near_the_read_size_limit_are_complete() {
    for length in [0, 1, 16_384, 32_767, 32_768, 32_769, 65_536] {
        let bytes = "x".repeat(length);
        let site = Site::new(&[("a", &bytes)]);
        assert_eq!(get(&site.mounted(), "/a", &[]).text(), bytes);
    }
}

fn representation(site: &Site, path: &str) -> Representation {
    let Ok(Found::File(file)) = site.files().root.find(path.as_bytes()) else { panic!("{path}") };
    Representation::new(file, "text/plain".into(), None, SystemTime::UNIX_EPOCH + MODIFIED)
}

#[test]
fn small_file_truncated_before_read_is_an_error() {
    let site = site();
    let shrinking = representation(&site, "a.txt");
    fs::write(site.path("a.txt"), "012").unwrap();
    assert_eq!(shrinking.into_content().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn multipart_body_of_truncated_file_fails() {
    let site = site();
    let ranges = [ranges::ByteRange { first: 0, last: 1 }, ranges::ByteRange { first: 8, last: 9 }];
    let (multipart, _) = multipart::Multipart::new(representation(&site, "a.txt"), &ranges);
    fs::write(site.path("a.txt"), "01234").unwrap();
    assert!(read_stream(Box::pin(multipart)).is_err());
}
