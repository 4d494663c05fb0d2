//! Tests of the states of a client connection, through the public interface.

use thruway_http1::{ClientConnection, ClientEvent, Error, HeadIndex, Limits, ResponseTo};

/// Passes `input` until no more events are returned. Returns the number of consumed bytes.
fn feed(connection: &mut ClientConnection, input: &[u8]) -> Result<usize, Error> {
    let mut index = HeadIndex::default();
    let mut used = 0;
    loop {
        match connection.handle_input(&input[used..], &mut index)? {
            (None, more) => return Ok(used + more),
            (Some(_), more) => used += more,
        }
    }
}

fn after(requests: usize, input: &str) -> ClientConnection {
    let mut connection = ClientConnection::new(Limits::default());
    for _ in 0..requests {
        connection.expect_response(ResponseTo::Other, false);
    }
    assert_eq!(feed(&mut connection, input.as_bytes()), Ok(input.len()));
    connection
}

const EMPTY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[test]
fn pipelining_client_sees_that_the_server_will_close() {
    let keeps_open = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let connection = after(3, keeps_open);
    assert_eq!((connection.is_persistent(), connection.expected_count()), (true, 2));
    let closes = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let connection = after(3, &[keeps_open, closes].concat());
    assert_eq!((connection.is_persistent(), connection.expected_count()), (false, 1));
}

#[test]
fn connection_is_reusable_after_all_responses_are_complete() {
    assert!(after(0, "").is_reusable());
    assert!(after(1, EMPTY).is_reusable());
    assert!(after(1, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na").is_reusable());
    assert!(after(1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").is_reusable());
    assert!(after(1, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n").is_reusable());
    assert!(after(2, &EMPTY.repeat(2)).is_reusable());
}

#[test]
fn connection_is_not_reusable_while_incomplete_or_closing() {
    for (requests, input) in [
        (1, ""),
        (2, EMPTY),
        (1, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"),
        (1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"),
        (1, "HTTP/1.1 200 OK\r\n\r\n"),
        (1, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        (1, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (1, "HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        let mut connection = ClientConnection::new(Limits::default());
        (0..requests).for_each(|_| connection.expect_response(ResponseTo::Other, false));
        feed(&mut connection, input.as_bytes()).unwrap();
        assert!(!connection.is_reusable(), "{input}");
    }
}

#[test]
fn connection_is_not_reusable_after_an_error_or_end_of_input() {
    let mut connection = after(1, EMPTY);
    assert_eq!(feed(&mut connection, b"a"), Err(Error::UnexpectedMessage));
    assert!(!connection.is_reusable());
    let mut connection = after(1, EMPTY);
    assert_eq!(connection.handle_end_of_input(b""), Ok(false));
    assert!(!connection.is_reusable());
}

#[test]
fn tunnel_is_not_reusable_and_its_bytes_are_not_parsed() {
    let mut connection = ClientConnection::new(Limits::default());
    connection.expect_response(ResponseTo::Connect, false);
    assert_eq!(feed(&mut connection, b"HTTP/1.1 200 OK\r\n\r\nabc"), Ok(19));
    assert!(!connection.is_reusable());
    assert_eq!((connection.expected_count(), connection.handle_end_of_input(b"abc")), (0, Ok(false)));
}

/// Requests without a response were once not reported if the connection had ended after an earlier response.
#[test]
fn requests_without_a_response_are_reported() {
    let mut connection = after(3, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(connection.expected_count(), 2);
    assert_eq!(connection.handle_end_of_input(b""), Err(Error::IncompleteMessage));
    let mut connection = after(3, "HTTP/1.1 200 OK\r\n\r\nabc");
    assert_eq!(connection.handle_end_of_input(b""), Ok(true));
    assert_eq!(connection.expected_count(), 2);
}

#[test]
fn request_can_be_sent_while_a_response_is_read() {
    let mut connection = after(1, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab");
    connection.expect_response(ResponseTo::Head, false);
    assert_eq!(feed(&mut connection, b"c"), Ok(1));
    assert_eq!(connection.expected_count(), 1);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(feed(&mut connection, head), Ok(head.len()));
    assert!(connection.is_reusable());
}

#[test]
fn skipped_body_bytes_are_counted() {
    let mut connection = after(1, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    assert_eq!(connection.content_remaining(), Some(8));
    connection.skip_content(5);
    assert_eq!(connection.content_remaining(), Some(3));
    assert_eq!(feed(&mut connection, b"c"), Ok(1));
    connection.skip_content(2);
    assert_eq!((connection.content_remaining(), connection.is_reusable()), (Some(0), false));
    assert_eq!(feed(&mut connection, b""), Ok(0));
    assert!(connection.is_reusable());
    assert_eq!(connection.content_remaining(), Some(0));
    let connection = after(1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab");
    assert_eq!(connection.content_remaining(), None);
}

#[test]
fn buffered_body_is_taken_completely_or_not_at_all() {
    let mut connection = after(1, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    assert_eq!(connection.take_content(7), None);
    assert_eq!((connection.content_remaining(), connection.is_reusable()), (Some(8), false));
    assert_eq!(connection.take_content(9), Some(8));
    assert!(connection.is_reusable());
    assert_eq!(connection.take_content(9), None, "no response is expected any more");
    let mut last = after(1, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n");
    assert_eq!((last.take_content(1), last.is_reusable()), (Some(1), false));
    for without_length in ["Transfer-Encoding: chunked\r\n", "", "Content-Length: 0\r\n"] {
        let mut connection = after(1, &format!("HTTP/1.1 200 OK\r\n{without_length}\r\n"));
        assert_eq!(connection.take_content(9), None, "{without_length}");
    }
}

#[test]
fn response_is_not_parsed_before_its_request_is_known() {
    let mut connection = ClientConnection::new(Limits::default());
    let mut index = HeadIndex::default();
    assert!(matches!(connection.handle_input(b"", &mut index), Ok((None, 0))));
    connection.expect_response(ResponseTo::Other, false);
    let outcome = connection.handle_input(EMPTY.as_bytes(), &mut index);
    assert!(matches!(outcome, Ok((Some(ClientEvent::Response(_)), _))));
}
