//! Tests of valid responses.

use std::task::Poll;

use thruway_client::{Config, Error, ReadBuffers, RequestToSend, ResponseEvent};
use thruway_http1::BodyLength;
use thruway_message::Method;
use thruway_net::Transport;
use thruway_testkit::upstream::OK_RESPONSE;

use crate::line::{GET, Line, context, get};

#[test]
fn request_is_written_once_and_its_response_is_read() {
    let mut line = Line::get();
    assert_eq!(line.read(), "…");
    assert_eq!((line.received().as_str(), line.peer.writes()), (GET, 1));
    line.peer.send(OK_RESPONSE);
    assert_eq!(line.read(), "200 `ok` end");
    assert!(line.exchange.is_complete() && !line.exchange.is_reused());
    assert_eq!(line.read(), "end");
    assert!(line.leaves_connection_reusable());
}

#[test]
fn response_head_keeps_case_order_and_reason() {
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 404 Not here\r\nX-a: 1\r\nx-A:2 \r\nContent-Length: 0\r\n\r\n");
    let buffers = ReadBuffers::default();
    let mut poll = line.exchange.begin_poll(&buffers);
    let Poll::Ready(Ok(ResponseEvent::Final(head, length))) = poll.poll_event(&mut context(), line.now)
    else {
        panic!("no head")
    };
    assert_eq!((head.status.as_u16(), head.reason, length), (404, &b"Not here"[..], BodyLength::NONE));
    let lines: Vec<String> =
        head.field_lines.iter().map(|line| format!("{}={}", line.name, line.value)).collect();
    assert_eq!(lines, ["X-a=1", "x-A=2", "Content-Length=0"]);
}

#[test]
fn response_framing_decides_if_the_connection_is_reusable() {
    for (method, response, events, is_reusable) in [
        (Method::Get, "HTTP/1.1 204 \r\n\r\n", "204. end", true),
        (Method::Get, "HTTP/1.1 304 \r\nContent-Length: 5\r\n\r\n", "304. end", true),
        (Method::Head, "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n", "200. end", true),
        (Method::Head, "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n", "200. end", true),
        (
            Method::Get,
            "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: 1\r\n\r\n",
            "200 `ab` `c` end{\"T\": \"1\"}",
            true,
        ),
        (Method::Get, "HTTP/1.1 200 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "200. end", false),
        (Method::Get, "HTTP/1.0 200 \r\nContent-Length: 1\r\n\r\na", "200 `a` end", false),
        (
            Method::Get,
            "HTTP/1.0 200 \r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
            "200 `a` end",
            true,
        ),
        (Method::Get, "HTTP/1.1 103 \r\nLink: a\r\n\r\nHTTP/1.1 204 \r\n\r\n", "103 204. end", true),
    ] {
        let mut line = Line::with(RequestToSend::new(method, BodyLength::NONE), GET, &Config::default());
        line.peer.send(response);
        let found = line.read();
        let found = if found.ends_with('.') { format!("{found} end") } else { found };
        assert_eq!((found.as_str(), line.leaves_connection_reusable()), (events, is_reusable), "{response}");
    }
}

#[test]
fn body_without_length_ends_when_the_connection_closes() {
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 200 OK\r\n\r\nabc");
    assert_eq!(line.read(), "200 `abc` …");
    line.peer.send("def");
    line.peer.finish();
    assert_eq!(line.read(), "`def` end");
    assert!(!line.leaves_connection_reusable());
}

#[test]
fn tunnel_has_the_connection_and_early_data() {
    let request = RequestToSend { asks_for_upgrade: true, ..get() };
    let mut line = Line::with(request, GET, &Config::default());
    line.peer.send("HTTP/1.1 101 \r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nearly");
    assert_eq!(line.read(), "tunnel");
    assert_eq!(line.exchange.deadline(), None);
    let tunnel = line.exchange.into_tunnel().unwrap();
    assert_eq!(&tunnel.early[..], b"early");
    assert!(!line.peer.is_closed());
    drop(tunnel);
    assert!(line.peer.is_closed());
}

#[test]
fn only_successful_connect_becomes_a_tunnel() {
    let connect = RequestToSend::new(Method::Connect, BodyLength::NONE);
    let mut line = Line::with(connect, GET, &Config::default());
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(line.read(), "tunnel");
    let mut line = Line::with(connect, GET, &Config::default());
    line.peer.send("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(line.read(), "403 `no` end");
    assert!(line.exchange.into_tunnel().is_none());
}

#[test]
fn body_bytes_put_back_are_returned_again() {
    let mut line = Line::get();
    line.peer
        .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n3\r\nghi\r\n0\r\n\r\n");
    let mut taken = Vec::new();
    for _ in 0..100 {
        let buffers = ReadBuffers::default();
        let mut poll = line.exchange.begin_poll(&buffers);
        let Poll::Ready(Ok(event)) = poll.poll_event(&mut context(), line.now) else { panic!("too little") };
        match event {
            ResponseEvent::Content(content) => {
                taken.push(content[0]);
                let left = content.len() - 1;
                poll.put_back(left);
            }
            ResponseEvent::End(_) => break,
            _ => {}
        }
    }
    assert_eq!(taken, b"abcdefghi");
    assert!(line.leaves_connection_reusable());
}

#[test]
fn body_received_with_its_head_can_be_taken_at_once() {
    let mut line = Line::get();
    let take = |line: &mut Line, more: &str| {
        line.peer.send(more);
        let buffers = ReadBuffers::default();
        let mut poll = line.exchange.begin_poll(&buffers);
        let polled = poll
            .poll_event(&mut context(), line.now)
            .map_ok(|event| matches!(event, ResponseEvent::Final(..)));
        (polled, poll.take_content().map(<[u8]>::to_vec))
    };
    assert_eq!(take(&mut line, "HTTP/1.1 200 OK\r\n"), (Poll::Pending, None));
    let head = (Poll::Ready(Ok(true)), None);
    assert_eq!(take(&mut line, "Content-Length: 6\r\n\r\nabc"), head, "the body is incomplete");
    line.peer.send("de");
    let buffers = ReadBuffers::default();
    let mut poll = line.exchange.begin_poll(&buffers);
    let Poll::Ready(Ok(ResponseEvent::Content(b"abc"))) = poll.poll_event(&mut context(), line.now) else {
        panic!("the body must arrive as usual");
    };
    poll.put_back(1);
    assert_eq!(poll.take_content(), None, "the part that was put back is still to come");
    drop(poll);
    assert_eq!(line.read(), "`c` `de` …");
    line.peer.send("f");
    let buffers = ReadBuffers::default();
    let mut poll = line.exchange.begin_poll(&buffers);
    assert_eq!(poll.take_content(), None, "the body has not been read");
    drop(poll);
    assert_eq!(line.read(), "`f` end");
    assert!(line.leaves_connection_reusable());

    let mut line = Line::get();
    assert_eq!(take(&mut line, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").1.unwrap(), b"ok");
    assert!(line.exchange.is_complete());
    assert_eq!(line.read(), "end");
    assert!(line.leaves_connection_reusable());

    let mut line = Line::get();
    assert_eq!(take(&mut line, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP").1.unwrap(), b"ok");
    assert!(!line.leaves_connection_reusable(), "unexpected data arrived");
}

/// Reads up to `most` bytes directly from the transport, as `splice` does.
fn move_content(line: &mut Line, most: usize) -> Poll<Result<u64, Error>> {
    line.exchange.poll_move_content(&mut context(), line.now, |transport, movable, cx| {
        let length = most.min(usize::try_from(movable).unwrap());
        transport.poll_read(cx, &mut vec![0; length]).map_ok(|read| read as u64)
    })
}

#[test]
fn body_of_known_length_can_bypass_the_buffers() {
    let mut line = Line::get();
    assert_eq!((line.exchange.movable_content(), move_content(&mut line, 9)), (0, Poll::Ready(Ok(0))));
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    assert_eq!(line.read(), "200 `ab` …");
    assert_eq!(line.exchange.movable_content(), 8);
    assert!(move_content(&mut line, 9).is_pending());
    line.peer.send("cdefgh");
    assert_eq!(move_content(&mut line, 5), Poll::Ready(Ok(5)));
    assert_eq!((line.read().as_str(), line.exchange.movable_content()), ("`h` …", 2));
    line.peer.send("ijHTTP/1.1");
    assert_eq!(move_content(&mut line, 9), Poll::Ready(Ok(2)));
    assert_eq!(line.read(), "end");
    assert_eq!(line.peer.unread(), "HTTP/1.1".len());
    assert!(!line.exchange.finish().unwrap().is_alive());
}

#[test]
fn buffered_or_chunked_body_does_not_bypass_the_buffers() {
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    assert!(
        line.exchange.begin_poll(&ReadBuffers::default()).poll_event(&mut context(), line.now).is_ready()
    );
    assert_eq!(line.exchange.movable_content(), 0);
    assert_eq!(line.read(), "`ab` …");
    line.peer.finish();
    assert_eq!(move_content(&mut line, 9), Poll::Ready(Err(Error::ContentIncomplete)));
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nab");
    assert_eq!(line.read(), "200 `ab` …");
    assert_eq!(line.exchange.movable_content(), 0);
}

#[test]
fn reads_do_not_exceed_the_requested_limit() {
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    line.peer.send(vec![b'a'; 100_000]);
    let mut given = 0;
    while given < 100_000 {
        let before = line.peer.unread();
        let buffers = ReadBuffers::default();
        let mut poll = line.exchange.begin_poll(&buffers);
        poll.read_at_most(1000);
        match poll.poll_event(&mut context(), line.now) {
            Poll::Ready(Ok(ResponseEvent::Content(content))) => given += content.len(),
            Poll::Ready(Ok(ResponseEvent::Final(..))) => {}
            other => panic!("{other:?}"),
        }
        drop(poll);
        assert!(before - line.peer.unread() <= 1000);
    }
}

/// Waiting bytes of the request were once not written while the body was moved. An upstream server that
/// answers while it reads, and a gateway that waits for its answer, waited for each other.
#[test]
fn request_is_still_written_while_the_body_bypasses_buffers() {
    let mut line = Line::get();
    line.peer.set_receive_capacity(10);
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    assert_eq!(line.read(), "200 `ab` …");
    line.peer.add_receive_capacity(usize::MAX);
    assert!(move_content(&mut line, 9).is_pending());
    assert_eq!(line.received(), GET);
}
