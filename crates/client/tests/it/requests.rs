//! Tests of requests with a body: framing, backpressure, early answers.

use std::task::Poll;
use std::time::Duration;

use thruway_client::{Config, Error, ReadBuffers, RequestToSend, Retry, Side};
use thruway_http1::BodyLength;
use thruway_message::{FieldLinesBuf, Method};
use thruway_testkit::upstream::OK_RESPONSE;

use crate::line::{GET, Line, connection, context, get};

#[test]
fn head_and_first_body_bytes_are_sent_in_one_write() {
    for (length, framed) in [
        (BodyLength::Bytes(5), "POST\r\n\r\nhello"),
        (BodyLength::Chunked, "POST\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ] {
        let mut line = Line::post(length);
        assert!(line.exchange.wants_content());
        assert_eq!(line.send(b"hello"), Poll::Ready(Ok(5)));
        assert_eq!(line.finish_content(), Ok(()));
        assert!(!line.exchange.wants_content());
        assert_eq!(line.read(), "…");
        assert_eq!((line.received().as_str(), line.peer.writes()), (framed, 1));
        line.peer.send(OK_RESPONSE);
        assert_eq!(line.read(), "200 `ok` end");
        assert!(line.leaves_connection_reusable());
    }
}

#[test]
fn head_of_exchange_that_started_without_it_is_sent_at_once_or_buffered() {
    for capacity in [0, 10, usize::MAX] {
        let (peer, connection) = connection(&Config::default());
        let (now, buffers) = (Duration::from_secs(1000), ReadBuffers::default());
        let exchange = connection.start_without_head(get(), now);
        let mut line = Line { peer, exchange, now, buffers };
        line.peer.set_receive_capacity(capacity);
        line.exchange.send_head(&mut context(), now, GET.as_bytes()).unwrap();
        let sent = line.received();
        assert_eq!(sent, GET[..capacity.min(GET.len())]);
        line.peer.add_receive_capacity(usize::MAX - capacity);
        assert_eq!(line.read(), "…");
        assert_eq!(sent + &line.received(), GET);
        line.peer.send(OK_RESPONSE);
        assert_eq!(line.read(), "200 `ok` end");
        assert!(line.leaves_connection_reusable());
    }
}

#[test]
fn large_body_is_sent_with_the_head_without_a_copy() {
    let content = vec![b'a'; 60_000];
    let mut line = Line::post(BodyLength::Bytes(60_000));
    assert_eq!(line.send(&content), Poll::Ready(Ok(60_000)));
    assert_eq!((line.received().len(), line.peer.writes()), (8 + 60_000, 1));
    let mut line = Line::post(BodyLength::Chunked);
    assert_eq!(line.send(&content), Poll::Ready(Ok(60_000)));
    assert_eq!(line.flush(), Poll::Ready(Ok(())));
    assert_eq!(line.received().len(), 8 + "ea60\r\n".len() + 60_000 + 2);
}

#[test]
fn slow_upstream_server_applies_backpressure() {
    for length in [BodyLength::Bytes(1 << 30), BodyLength::Chunked] {
        for piece in [1000, 10_000, 100_000] {
            let content = vec![b'a'; piece];
            let mut line = Line::post(length);
            line.peer.set_receive_capacity(50_000);
            let mut taken = 0;
            while let Poll::Ready(Ok(more)) = line.send(&content) {
                assert!(more > 0);
                taken += more;
                assert!(taken < 250_000, "{length:?} {piece}: more is taken than sent");
            }
            let capacity = line.exchange.poll_write_capacity(&mut context(), line.now);
            assert!(capacity.is_pending() || piece > 16 << 10, "large pieces are not buffered");
            line.peer.add_receive_capacity(usize::MAX);
            assert!(matches!(line.send(&content), Poll::Ready(Ok(1..))));
        }
    }
}

#[test]
fn every_byte_arrives_once_with_short_writes() {
    let content: Vec<u8> = (b'G'..=b'Z').cycle().take(200_000).collect();
    for length in [BodyLength::Bytes(200_000), BodyLength::Chunked] {
        let mut line = Line::post(length);
        line.peer.set_receive_capacity(0);
        let (mut sent, mut arrived) = (0, Vec::new());
        while sent < content.len() {
            match line.send(&content[sent..]) {
                Poll::Ready(Ok(taken)) => sent += taken,
                Poll::Ready(Err(error)) => panic!("{error}"),
                Poll::Pending => line.peer.add_receive_capacity(7777),
            }
            arrived.extend(line.peer.received());
        }
        line.finish_content().unwrap();
        while line.flush().is_pending() {
            line.peer.add_receive_capacity(7777);
        }
        arrived.extend(line.peer.received());
        let body = &arrived["POST\r\n\r\n".len()..];
        let letters: Vec<u8> = body.iter().copied().filter(u8::is_ascii_uppercase).collect();
        assert!(letters == content);
        assert_eq!(body.ends_with(b"\r\n0\r\n\r\n"), length == BodyLength::Chunked);
    }
}

#[test]
fn trailers_follow_the_last_chunk() {
    let mut line = Line::post(BodyLength::Chunked);
    let mut trailers = FieldLinesBuf::new();
    trailers.append("Digest", "x").unwrap();
    line.exchange.finish_content(&trailers).unwrap();
    assert_eq!(line.flush(), Poll::Ready(Ok(())));
    assert_eq!(line.received(), "POST\r\n\r\n0\r\nDigest: x\r\n\r\n");
}

#[test]
fn wrong_request_body_length_is_a_client_error() {
    let mut line = Line::post(BodyLength::Bytes(3));
    assert_eq!(line.send(b"four"), Poll::Ready(Err(Error::RequestContentTooLong)));
    assert_eq!(line.send(b"no"), Poll::Ready(Ok(2)));
    assert_eq!(line.finish_content(), Err(Error::RequestContentTooShort));
    let error = Error::RequestContentTooShort;
    assert_eq!((error.side(), error.retry()), (Side::Client, Retry::Never));
    let mut line = Line::get();
    assert_eq!(line.send(b"x"), Poll::Ready(Err(Error::RequestContentTooLong)));
}

#[test]
fn early_error_response_stops_the_upload_and_prevents_reuse() {
    let mut line = Line::post(BodyLength::Bytes(100));
    assert_eq!(line.send(b"first"), Poll::Ready(Ok(5)));
    assert_eq!(line.read(), "…");
    line.peer.send("HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(line.read(), "413 `no` end");
    assert!(!line.exchange.wants_content());
    line.peer.received();
    assert_eq!(line.send(&[b'a'; 50]), Poll::Ready(Ok(50)));
    assert_eq!((line.finish_content(), line.flush()), (Ok(()), Poll::Ready(Ok(()))));
    assert_eq!(line.received(), "", "an unwanted body is not sent");
    assert!(!line.leaves_connection_reusable());
}

#[test]
fn early_success_response_lets_the_upload_continue() {
    let mut line = Line::post(BodyLength::Chunked);
    line.peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    assert_eq!(line.read(), "200 `a` …");
    assert!(line.exchange.wants_content());
    assert_eq!(line.send(b"more"), Poll::Ready(Ok(4)));
    assert_eq!(line.read(), "…");
    assert!(line.received().ends_with("4\r\nmore\r\n"));
    line.finish_content().unwrap();
    line.peer.send("0\r\n\r\n");
    assert_eq!(line.read(), "end");
    assert!(line.leaves_connection_reusable());

    let mut line = Line::post(BodyLength::Chunked);
    line.peer.send(OK_RESPONSE);
    assert_eq!(line.read(), "200 `ok` end");
    assert!(!line.exchange.wants_content());
    assert!(!line.leaves_connection_reusable());
}

/// A server that rejects a body answers and closes. The next write fails before the answer is read.
#[test]
fn response_is_read_after_a_write_failure() {
    let mut line = Line::post(BodyLength::Bytes(100_000));
    line.peer.send("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    line.peer.reset();
    assert_eq!(line.send(&vec![b'a'; 100_000]), Poll::Ready(Ok(100_000)));
    assert_eq!(line.read(), "403 `no` end");
    assert!(!line.leaves_connection_reusable());
}

fn expecting() -> Line {
    let request =
        RequestToSend { awaits_continue: true, ..RequestToSend::new(Method::Put, BodyLength::Bytes(4)) };
    Line::with(request, "PUT\r\n\r\n", &Config::default())
}

#[test]
fn request_body_waits_for_100_continue() {
    let mut line = expecting();
    assert!(line.send(b"four").is_pending());
    assert_eq!(line.read(), "…");
    assert_eq!(line.received(), "PUT\r\n\r\n");
    line.peer.send("HTTP/1.1 103 \r\n\r\n");
    assert_eq!(line.read(), "103 …");
    assert!(line.send(b"four").is_pending());
    line.peer.send("HTTP/1.1 100 \r\n\r\n");
    assert_eq!(line.read(), "100 …");
    assert_eq!(line.send(b"four"), Poll::Ready(Ok(4)));
    line.peer.send(OK_RESPONSE);
    assert_eq!(line.read(), "200 `ok` end");
    assert_eq!(line.received(), "four");
    assert!(line.leaves_connection_reusable());
}

#[test]
fn request_body_is_sent_after_the_expect_continue_timeout() {
    let mut line = expecting();
    assert_eq!(line.read(), "…");
    let deadline = line.exchange.deadline().unwrap();
    assert_eq!(deadline, line.now + Config::default().timeouts.expect_continue);
    line.now = deadline;
    assert_eq!(line.send(b"four"), Poll::Ready(Ok(4)));
}

#[test]
fn request_body_is_not_sent_after_417() {
    let mut line = expecting();
    line.peer.send("HTTP/1.1 417 \r\nContent-Length: 0\r\n\r\n");
    assert_eq!(line.read(), "417. end");
    assert!(!line.exchange.wants_content());
    assert_eq!(line.received(), "PUT\r\n\r\n");
    assert!(!line.leaves_connection_reusable());
}
