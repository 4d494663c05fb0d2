//! Frames of invalid sizes, on invalid streams, and in invalid order (RFC 9113 §4 to §6).

use thruway_server::{Request, Response};
use thruway_testkit::test_server::TestServer;

use super::frames::*;

fn scene() -> TestServer {
    TestServer::new(|request: &Request| Response::text(format!("{request}")))
}

/// Sends `bytes` on a new connection and returns the error code with which the server ends it.
fn goaway_code_after(bytes: &[u8]) -> Option<u32> {
    let scene = scene();
    let (mut other, mut client) = (connect_http2(&scene), connect_http2(&scene));
    client.send(bytes);
    let code = goaway_code(&received(&mut client));
    // Other connections are not affected.
    other.send(request(1, &get("/")));
    assert_eq!(status_of(&received(&mut other), 1), Some(200));
    code
}

/// The library once used `PROTOCOL_ERROR` for most of these errors, which does not help the client's
/// developer (RFC 9113 §4.2).
#[test]
fn frames_with_wrong_size_end_connection_with_correct_error_code() {
    let open = open_request(1, &get("/"));
    let opened = |rest: Vec<u8>| [open.clone(), rest].concat();
    for (bytes, code) in [
        (frame(PING, 0, 0, b"1234567"), FRAME_SIZE_ERROR),
        (frame(PING, 0, 0, b"123456789"), FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 0, b"12345"), FRAME_SIZE_ERROR),
        (frame(SETTINGS, ACK, 0, b"123456"), FRAME_SIZE_ERROR),
        (frame(GOAWAY, 0, 0, b"1234567"), FRAME_SIZE_ERROR),
        (frame(WINDOW_UPDATE, 0, 0, b"\0\0\x01"), FRAME_SIZE_ERROR),
        (opened(frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\0\x01")), FRAME_SIZE_ERROR),
        (opened(frame(RST_STREAM, 0, 1, b"\0\0\x08")), FRAME_SIZE_ERROR),
        (opened(frame(RST_STREAM, 0, 1, b"\0\0\0\0\x08")), FRAME_SIZE_ERROR),
        (frame(99, 0, 0, vec![0; (16 << 10) + 1]), FRAME_SIZE_ERROR),
        (opened(frame(DATA, 0, 1, vec![0; (16 << 10) + 1])), FRAME_SIZE_ERROR),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, vec![0; (16 << 10) + 1]), FRAME_SIZE_ERROR),
        (frame(GOAWAY, 0, 0, b"1234"), FRAME_SIZE_ERROR),
        // Too short for the padding length and the priority.
        (opened(frame(DATA, PADDED, 1, b"")), FRAME_SIZE_ERROR),
        (frame(HEADERS, PADDED | END_HEADERS | END_STREAM, 1, b""), FRAME_SIZE_ERROR),
        (frame(HEADERS, PRIORITY_FLAG | END_HEADERS | END_STREAM, 1, b"\0\0\0\0"), FRAME_SIZE_ERROR),
        // Padding that is longer than the frame (RFC 9113 §6.1, §6.2).
        (opened(frame(DATA, PADDED, 1, b"\x05pad")), PROTOCOL_ERROR),
        (frame(HEADERS, PADDED | END_HEADERS | END_STREAM, 1, b"\x05pad"), PROTOCOL_ERROR),
    ] {
        assert_eq!(goaway_code_after(&bytes), Some(code), "{:?}", &bytes[..bytes.len().min(100)]);
    }
}

/// A PRIORITY frame of a wrong size is a stream error (RFC 9113 §6.3).
#[test]
fn priority_frame_with_wrong_size_resets_only_its_stream() {
    let scene = scene();
    let mut client = connect_http2(&scene);
    client.send(frame(PRIORITY, 0, 1, b"\0\0\0\0")).send(request(3, &get("/")));
    let frames = received(&mut client);
    assert_eq!(reset_code(&frames, 1), Some(FRAME_SIZE_ERROR), "{frames:?}");
    assert_eq!((status_of(&frames, 3), goaway_code(&frames)), (Some(200), None));
}

/// The library once closed the whole connection with all its streams. Behind a proxy, these are requests of
/// other clients. RFC 9113 §6.9 requires a stream error.
#[test]
fn zero_window_update_resets_only_its_stream() {
    let scene = scene();
    let mut client = connect_http2(&scene);
    let zero = |stream| frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\0");
    // An increment of zero in which the reserved bit is set.
    let reserved = |stream| frame(WINDOW_UPDATE, 0, stream, b"\x80\0\0\0");
    client.send([open_request(1, &get("/")), zero(1), open_request(3, &get("/")), reserved(3)].concat());
    client.send(request(5, &get("/")));
    let frames = received(&mut client);
    for stream in [1, 3] {
        assert_eq!(reset_code(&frames, stream), Some(PROTOCOL_ERROR), "{frames:?}");
    }
    assert_eq!((status_of(&frames, 5), goaway_code(&frames)), (Some(200), None));
    // The server sends no frames on closed streams (RFC 9113 §5.1).
    client.send([zero(1), zero(5), request(7, &get("/"))].concat());
    let frames = received(&mut client);
    assert_eq!((reset_code(&frames, 1), reset_code(&frames, 5)), (None, None), "{frames:?}");
    assert_eq!((status_of(&frames, 7), goaway_code(&frames)), (Some(200), None));
}

#[test]
fn frames_on_wrong_streams_end_the_connection() {
    for bytes in [
        frame(SETTINGS, 0, 1, b""),
        frame(PING, 0, 1, b"12345678"),
        frame(GOAWAY, 0, 1, b"\0\0\0\0\0\0\0\0"),
        frame(DATA, 0, 0, b"x"),
        frame(RST_STREAM, 0, 0, b"\0\0\0\x08"),
        frame(PRIORITY, 0, 0, b"\0\0\0\0\x01"),
        frame(HEADERS, END_HEADERS | END_STREAM, 0, fields(&get("/"))),
        frame(CONTINUATION, END_HEADERS, 0, fields(&get("/"))),
        // Stream numbers of servers, and frames that only servers may send (RFC 9113 §5.1.1, §8.4).
        request(2, &get("/")),
        frame(PUSH_PROMISE, END_HEADERS, 1, [&[0, 0, 0, 2][..], &fields(&get("/"))].concat()),
        // Frames on a stream that was never opened.
        frame(DATA, 0, 7, b"x"),
        frame(RST_STREAM, 0, 7, b"\0\0\0\x08"),
        frame(WINDOW_UPDATE, 0, 7, b"\0\0\0\x01"),
        // A window increment of zero (RFC 9113 §6.9), on the connection and on a stream that was never
        // opened.
        frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\0"),
        frame(WINDOW_UPDATE, 0, 7, b"\0\0\0\0"),
    ] {
        assert_eq!(goaway_code_after(&bytes), Some(PROTOCOL_ERROR), "{bytes:?}");
    }
}

#[test]
fn frames_in_invalid_order_end_the_connection() {
    let half = || frame(HEADERS, END_STREAM, 1, &fields(&get("/"))[..10]);
    let rest = |stream| frame(CONTINUATION, END_HEADERS, stream, &fields(&get("/"))[10..]);
    for (bytes, code) in [
        // Another frame between the frames of a header section (RFC 9113 §6.10).
        ([half(), frame(PING, 0, 0, b"12345678")].concat(), PROTOCOL_ERROR),
        ([half(), request(3, &get("/"))].concat(), PROTOCOL_ERROR),
        ([half(), frame(99, 0, 0, b"")].concat(), PROTOCOL_ERROR),
        ([half(), rest(3)].concat(), PROTOCOL_ERROR),
        (rest(1), PROTOCOL_ERROR),
        // A stream number that is lower than an earlier one (RFC 9113 §5.1.1).
        ([request(5, &get("/")), request(3, &get("/"))].concat(), PROTOCOL_ERROR),
    ] {
        assert_eq!(goaway_code_after(&bytes), Some(code), "{bytes:?}");
    }
    // Frames after the end of a request (RFC 9113 §5.1). The code depends on whether the response has also
    // ended.
    for more in [frame(DATA, 0, 1, b"x"), request(1, &get("/"))] {
        let code = goaway_code_after(&[request(1, &get("/")), more].concat());
        assert!(matches!(code, Some(STREAM_CLOSED | PROTOCOL_ERROR)), "{code:?}");
    }
}

/// The library once used `PROTOCOL_ERROR` here, in violation of RFC 9113 §4.3.
#[test]
fn undecodable_header_block_ends_connection_with_compression_error() {
    // In order: an index outside of both tables, strings without an end, a table larger than allowed, an
    // index of zero, a number without an end, and an invalid Huffman code (RFC 7541 §2.3.3, §5.1, §5.2, §6.1,
    // §6.3).
    for bytes in [
        &b"\xff\xff\xff\x7f"[..],
        b"\0\x05ab",
        b"\0\x01a\x05b",
        b"\x3f\xff\xff\xff\x07",
        b"\x80",
        b"\xff\xff\xff\xff\xff\xff\xff",
        b"\0\x84\xff\xff\xff\xff\x01a",
    ] {
        let code = goaway_code_after(&frame(HEADERS, END_HEADERS | END_STREAM, 1, bytes));
        assert_eq!(code, Some(COMPRESSION_ERROR), "{bytes:?}");
        // The same bytes in a block of two frames.
        let (start, end) = bytes.split_at(1);
        let pieces = [frame(HEADERS, END_STREAM, 1, start), frame(CONTINUATION, END_HEADERS, 1, end)];
        assert_eq!(goaway_code_after(&pieces.concat()), Some(COMPRESSION_ERROR), "{bytes:?}");
    }
}

#[test]
fn invalid_settings_end_the_connection() {
    for (setting, code) in [
        (b"\0\x02\0\0\0\x02", PROTOCOL_ERROR),
        (b"\0\x04\x80\0\0\0", FLOW_CONTROL_ERROR),
        (b"\0\x05\0\0\x3f\xff", PROTOCOL_ERROR),
        (b"\0\x05\x01\0\0\0", PROTOCOL_ERROR),
    ] {
        assert_eq!(goaway_code_after(&frame(SETTINGS, 0, 0, setting)), Some(code), "{setting:?}");
    }
}
