//! Tests of the contents of parsed heads.

use thruway_http1::{
    BodyLength, ClientConnection, ClientEvent, HeadIndex, Limits, ResponseTo, ServerConnection, ServerEvent,
};
use thruway_message::{Method, RequestHead, RequestTarget, Version};

#[test]
fn request_line_is_parsed_into_method_target_and_version() {
    with_head("OPTIONS http://example.com:81/a?b HTTP/1.1\r\nHost: other\r\n\r\n", |head| {
        assert_eq!((head.method, head.version), (Method::Options, Version::Http11));
        let RequestTarget::Absolute(absolute) = head.target else { panic!("{head:?}") };
        assert_eq!((absolute.scheme, absolute.authority.as_str()), ("http", "example.com:81"));
        assert_eq!((head.target.path(), head.target.query()), ("/a", Some("b")));
    });
    with_head("M-SEARCH /a?b?c HTTP/1.0\r\n\r\n", |head| {
        assert_eq!((head.method, head.version), (Method::Other("M-SEARCH"), Version::Http10));
        assert!(matches!(head.target, RequestTarget::Origin(_)));
        assert_eq!((head.target.path(), head.target.query()), ("/a", Some("b?c")));
    });
    with_head("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", |head| {
        assert_eq!(head.target, RequestTarget::Asterisk);
    });
    with_head("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", |head| {
        assert!(matches!(head.target, RequestTarget::Authority(authority) if authority.port() == Some(1)));
    });
}

#[test]
fn authority_comes_from_the_target_or_else_from_host() {
    let authority = |input: &str| {
        let mut found = None;
        with_head(input, |head| found = head.authority().map(|authority| authority.as_str().to_owned()));
        found
    };
    assert_eq!(authority("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n").as_deref(), Some("a"));
    assert_eq!(authority("CONNECT a:1 HTTP/1.1\r\nHost: b\r\n\r\n").as_deref(), Some("a:1"));
    assert_eq!(authority("GET / HTTP/1.1\r\nHost: b\r\n\r\n").as_deref(), Some("b"));
    assert_eq!(authority("GET / HTTP/1.0\r\n\r\n"), None);
}

#[test]
fn field_lines_keep_order_and_case_and_are_trimmed() {
    let input = b"GET / HTTP/1.1\r\nHost: a\r\nX-b:\t c d \t\r\nEMPTY:\r\nx-B:\xe9\r\n\r\n";
    let mut index = HeadIndex::default();
    let mut connection = ServerConnection::new(Limits::default());
    let found = connection.handle_input(input, &mut index).unwrap();
    assert_eq!(found, (Some(ServerEvent::Request), input.len()));
    let head = index.request_head(input);
    let lines: Vec<_> =
        head.field_lines.iter().map(|line| (line.name.as_str(), line.value.as_bytes())).collect();
    let expected: [(&str, &[u8]); 4] = [("Host", b"a"), ("X-b", b"c d"), ("EMPTY", b""), ("x-B", b"\xe9")];
    assert_eq!(lines, expected);
    assert_eq!(head.field("x-B").unwrap(), "c d");
    assert_eq!(head.field_lines.all("X-B").count(), 2);
}

#[test]
fn head_index_is_reusable_for_messages_of_any_size() {
    let mut index = HeadIndex::with_capacity(1);
    for count in [5, 0, 100, 1, 128 - 1] {
        let input = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(count));
        let mut connection = ServerConnection::new(Limits::default());
        let found = connection.handle_input(input.as_bytes(), &mut index).unwrap();
        assert_eq!(found, (Some(ServerEvent::Request), input.len()));
        assert_eq!(index.field_lines(input.as_bytes()).len(), count + 1);
    }
}

#[test]
fn response_keeps_its_reason_phrase() {
    for (line, reason) in [
        ("HTTP/1.1 200 OK", "OK"),
        ("HTTP/1.1 200 All is well", "All is well"),
        ("HTTP/1.1 200 ", ""),
        ("HTTP/1.1 200", ""),
        ("HTTP/1.1 200  é ", " é "),
    ] {
        let input = format!("{line}\r\nX: y\r\nContent-Length: 0\r\n\r\n");
        let mut index = HeadIndex::default();
        let mut connection = ClientConnection::new(Limits::default());
        connection.expect_response(ResponseTo::Other, false);
        let (event, used) = connection.handle_input(input.as_bytes(), &mut index).unwrap();
        assert_eq!((event, used), (Some(ClientEvent::Response(BodyLength::NONE)), input.len()));
        let head = index.response_head(input.as_bytes());
        assert_eq!(head.reason, reason.as_bytes());
        assert_eq!(head.field("x").unwrap(), "y");
    }
}

fn with_head(input: &str, check: impl FnOnce(RequestHead<'_>)) {
    let mut index = HeadIndex::default();
    let mut connection = ServerConnection::new(Limits::default());
    let found = connection.handle_input(input.as_bytes(), &mut index);
    assert_eq!(found, Ok((Some(ServerEvent::Request), input.len())), "{input:?}");
    check(index.request_head(input.as_bytes()));
}
