//! Tests of the states of a server connection, through the public interface.

use thruway_http1::{Error, HeadIndex, Limits, ServerConnection, ServerEvent};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: b\r\n\r\n";

fn post(bytes: usize) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n").into_bytes()
}

/// Passes `input` once. Returns `true` if there was an event, and the number of consumed bytes.
fn feed(connection: &mut ServerConnection, input: &[u8]) -> Result<(bool, usize), Error> {
    let mut index = HeadIndex::default();
    connection.handle_input(input, &mut index).map(|(event, used)| (event.is_some(), used))
}

#[test]
fn end_of_input_between_requests_is_no_error() {
    for unused in [&b""[..], b"\r", b"\r\n"] {
        let mut connection = ServerConnection::new(Limits::default());
        assert_eq!(feed(&mut connection, GET), Ok((true, GET.len())));
        assert_eq!(connection.handle_end_of_input(unused), Ok(()));
        assert!(connection.is_finished());
    }
}

#[test]
fn end_of_input_in_a_request_is_an_error_once() {
    let mut connection = ServerConnection::new(Limits::default());
    assert_eq!(feed(&mut connection, b"GET"), Ok((false, 0)));
    assert_eq!(connection.handle_end_of_input(b"GET"), Err(Error::IncompleteMessage));
    assert_eq!(connection.handle_end_of_input(b"GET"), Ok(()));
    assert_eq!(feed(&mut connection, GET), Ok((false, 0)));
}

#[test]
fn remaining_body_length_is_counted_down() {
    let mut connection = ServerConnection::new(Limits::default());
    assert_eq!((connection.content_remaining(), connection.is_reading_content()), (Some(0), false));
    feed(&mut connection, &post(5)).unwrap();
    assert_eq!((connection.content_remaining(), connection.is_reading_content()), (Some(5), true));
    assert_eq!(feed(&mut connection, b"abc"), Ok((true, 3)));
    assert_eq!(connection.content_remaining(), Some(2));
    // Bytes after the content are not consumed, and the end of the content is a separate event.
    assert_eq!(feed(&mut connection, b"deGET"), Ok((true, 2)));
    assert_eq!((connection.content_remaining(), connection.is_reading_content()), (Some(0), true));
    assert_eq!(feed(&mut connection, b"GET"), Ok((true, 0)));
    assert_eq!((connection.content_remaining(), connection.is_reading_content()), (Some(0), false));
    assert_eq!(feed(&mut connection, b"GET"), Ok((false, 0)));
}

#[test]
fn remaining_length_of_a_chunked_body_is_unknown() {
    let mut connection = ServerConnection::new(Limits::default());
    feed(&mut connection, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    assert_eq!((connection.content_remaining(), connection.is_reading_content()), (None, true));
    assert_eq!(feed(&mut connection, b"0\r\n\r\n"), Ok((true, 5)));
    assert_eq!((connection.content_remaining(), connection.is_reading_content()), (Some(0), false));
}

#[test]
fn no_request_is_read_after_stop_between_requests() {
    let mut connection = ServerConnection::new(Limits::default());
    feed(&mut connection, GET).unwrap();
    connection.stop();
    assert!(connection.is_finished());
    assert_eq!(feed(&mut connection, GET), Ok((false, 0)));
    assert_eq!(connection.handle_end_of_input(b"GE"), Ok(()));
}

#[test]
fn body_is_still_read_after_stop_within_a_request() {
    let mut connection = ServerConnection::new(Limits::default());
    feed(&mut connection, &post(2)).unwrap();
    connection.stop();
    assert!(!connection.is_finished() && connection.is_reading_content());
    assert_eq!(feed(&mut connection, b"abGET"), Ok((true, 2)));
    assert_eq!(feed(&mut connection, b"GET"), Ok((true, 0)));
    assert!(connection.is_finished());
    assert_eq!(feed(&mut connection, GET), Ok((false, 0)));
}

#[test]
fn no_request_is_read_after_stop_and_declined_tunnel() {
    let mut connection = ServerConnection::new(Limits::default());
    feed(&mut connection, UPGRADE).unwrap();
    assert!(!connection.is_finished());
    connection.stop();
    connection.decline_tunnel();
    assert!(connection.is_finished());
    assert_eq!(feed(&mut connection, GET), Ok((false, 0)));
}

#[test]
fn next_request_follows_a_skipped_body() {
    let mut connection = ServerConnection::new(Limits::default());
    feed(&mut connection, &post(2)).unwrap();
    connection.skip_content();
    assert_eq!((connection.content_remaining(), connection.is_reading_content()), (Some(0), false));
    assert_eq!(feed(&mut connection, GET), Ok((true, GET.len())));
}

#[test]
fn skip_without_a_remaining_body_of_known_length_has_no_effect() {
    let mut connection = ServerConnection::new(Limits::default());
    connection.skip_content();
    feed(&mut connection, &post(2)).unwrap();
    feed(&mut connection, b"ab").unwrap();
    connection.skip_content();
    assert_eq!(feed(&mut connection, b""), Ok((true, 0)), "the end of the body is still reported");
    feed(&mut connection, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    connection.skip_content();
    assert!(connection.is_reading_content());
    assert_eq!(feed(&mut connection, b"0\r\n\r\n"), Ok((true, 5)));
}

#[test]
fn body_is_not_read_after_abandon() {
    let mut connection = ServerConnection::new(Limits::default());
    feed(&mut connection, &post(2)).unwrap();
    connection.abandon();
    assert!(connection.is_finished() && !connection.is_reading_content());
    assert_eq!(feed(&mut connection, b"ab"), Ok((false, 0)));
    assert_eq!(connection.handle_end_of_input(b"ab"), Ok(()));
}

#[test]
fn only_the_connect_method_is_connect() {
    let connect = b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n";
    for (input, is_connect) in [(&connect[..], true), (GET, false), (UPGRADE, false)] {
        let mut index = HeadIndex::default();
        let mut connection = ServerConnection::new(Limits::default());
        let found = connection.handle_input(input, &mut index);
        assert_eq!(found, Ok((Some(ServerEvent::Request), input.len())));
        assert_eq!(index.request_facts().is_connect(), is_connect);
    }
}

/// The state of an incomplete head must not be applied to the next head.
#[test]
fn consecutive_heads_can_arrive_in_parts() {
    let mut connection = ServerConnection::new(Limits::default());
    for _ in 0..3 {
        for place in [1, 14, 16, 17, 22, 26, GET.len() - 1] {
            assert_eq!(feed(&mut connection, &GET[..place]), Ok((false, 0)), "{place}");
            assert_eq!(feed(&mut connection, &GET[..place]), Ok((false, 0)), "{place}");
        }
        assert_eq!(feed(&mut connection, GET), Ok((true, GET.len())));
    }
    assert_eq!(feed(&mut connection, &[GET, b"GET /"].concat()), Ok((true, GET.len())));
    assert_eq!(connection.request_count(), 4);
}

/// A caller can use one index for several connections without [`forget_head`](HeadIndex::forget_head).
#[test]
fn head_of_another_connection_changes_no_result() {
    let mut index = HeadIndex::default();
    let mut read = |connection: &mut ServerConnection| {
        let input = b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\r\n+".as_slice();
        if connection.repeat_request(input, &index).is_none() {
            connection.handle_input(input, &mut index)?;
        }
        Ok(index.request_facts().is_persistent)
    };
    let one_line = Limits { field_lines: 1, ..Limits::default() };
    for (limits, expected) in [(Limits::default(), Ok(true)), (one_line, Err(Error::FieldLinesTooMany))] {
        assert_eq!(read(&mut ServerConnection::new(limits)), expected);
    }
    for _ in 0..2 {
        let two_requests = Limits { requests_per_connection: 2, ..Limits::default() };
        let mut connection = ServerConnection::new(two_requests);
        assert_eq!([(); 2].map(|()| read(&mut connection)), [Ok(true), Ok(false)]);
    }
}

#[test]
fn only_an_equal_request_is_repeated() {
    let (mut connection, mut index) = (ServerConnection::new(Limits::default()), HeadIndex::default());
    let twice = [GET, GET].concat();
    assert_eq!(connection.repeat_request(&twice, &index), None, "there is no previous request");
    connection.handle_input(&twice, &mut index).unwrap();
    assert_eq!(connection.repeat_request(GET, &index), Some(GET.len()));
    assert_eq!(connection.repeat_request(&GET[..GET.len() - 1], &index), None);
    assert_eq!(connection.repeat_request(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", &index), None);
    index.forget_head();
    assert_eq!(connection.repeat_request(GET, &index), None);
    assert_eq!(connection.request_count(), 2);
}

/// A request asked for a tunnel and sent `close`. When the tunnel was declined, another request was once
/// read.
#[test]
fn declined_tunnel_does_not_keep_a_closing_connection_open() {
    let mut connection = ServerConnection::new(Limits::default());
    let last = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: b\r\n\r\n";
    feed(&mut connection, last).unwrap();
    connection.decline_tunnel();
    assert!(connection.is_finished());
    assert_eq!(feed(&mut connection, GET), Ok((false, 0)));
}

#[test]
fn declining_without_a_tunnel_request_has_no_effect() {
    let mut connection = ServerConnection::new(Limits::default());
    connection.decline_tunnel();
    feed(&mut connection, GET).unwrap();
    connection.decline_tunnel();
    assert_eq!(feed(&mut connection, UPGRADE), Ok((true, UPGRADE.len())));
    assert_eq!(feed(&mut connection, GET), Ok((false, 0)));
    connection.decline_tunnel();
    assert_eq!(feed(&mut connection, GET), Ok((true, GET.len())));
    assert_eq!(connection.request_count(), 3);
}

#[test]
fn body_error_finishes_the_connection() {
    let mut connection = ServerConnection::new(Limits::default());
    feed(&mut connection, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    assert_eq!(feed(&mut connection, b"x"), Err(Error::ChunkSizeInvalid));
    assert!(connection.is_finished() && !connection.is_reading_content());
    assert_eq!(connection.content_remaining(), Some(0));
    assert_eq!(feed(&mut connection, b"0\r\n\r\n"), Ok((false, 0)));
    assert_eq!(connection.handle_end_of_input(b""), Ok(()));
}

#[test]
fn body_is_returned_without_a_copy() {
    let mut connection = ServerConnection::new(Limits::default());
    let mut index = HeadIndex::default();
    feed(&mut connection, &post(3)).unwrap();
    let input = b"abcd";
    let (Some(ServerEvent::Content(content)), 3) = connection.handle_input(input, &mut index).unwrap() else {
        panic!("no content")
    };
    assert_eq!(content.as_ptr(), input.as_ptr());
}
