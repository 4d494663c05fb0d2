//! Tests of HTTP/2 connections, in virtual time.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use thruway_client::http2::{Connection, Driver, Exchange, Http2Config};
use thruway_client::{Config, Error, RequestToSend, ResponseEvent, Retry};
use thruway_http1::{BodyLength, Error as Rule};
use thruway_message::Method;
use thruway_net::{Clock, ManualTime, Worker};
use thruway_testkit::{PipePeer, pipe};

/// A connection, and the upstream server that the test plays.
pub(crate) struct Scene {
    time: ManualTime,
    pub(crate) peer: PipePeer,
    pub(crate) connection: Connection,
    driver: Driver,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let time = ManualTime::default();
        let worker = Worker::for_test(Clock::manual(time.clone()));
        let (peer, far) = pipe();
        let (config, http2) = (Config::default(), Http2Config::default());
        let opening = Connection::new(far, &config, &http2, worker.clock(), Some(worker.deadlines()));
        let Poll::Ready(Ok((connection, driver))) = poll(pin!(opening)) else {
            panic!("the client waited for its server")
        };
        Self { time, peer, connection, driver }
    }

    /// Returns a connection whose upstream server allows this number of streams.
    pub(crate) fn allowing(streams: u8) -> Self {
        let mut scene = Self::new();
        scene.send_frames(&[&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams]]);
        scene
    }

    pub(crate) fn send_frames(&mut self, frames: &[&[u8]]) {
        self.peer.send(frames.concat());
        assert!(self.drive().is_pending());
    }

    pub(crate) fn drive(&mut self) -> Poll<()> {
        poll(pin!(&mut self.driver))
    }

    fn advance(&mut self, duration: Duration) -> Poll<()> {
        self.time.advance(duration);
        self.drive()
    }

    fn get(&mut self) -> Exchange {
        let request = RequestToSend::new(Method::Get, BodyLength::NONE);
        let head = |head: &mut Vec<u8>| head.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let exchange = self.connection.start(request, Duration::ZERO, head).unwrap();
        assert!(self.drive().is_pending());
        exchange
    }

    /// Answers a ping with its opaque data.
    fn answer_ping(&mut self) {
        let ping = self.peer.received();
        assert_eq!((ping[3], ping.len()), (PING, 17));
        self.send_frames(&[b"\0\0\x08\x06\x01\0\0\0\0", &ping[9..]]);
    }

    /// Returns the types of the received frames.
    pub(crate) fn kinds(&self) -> Vec<u8> {
        let bytes = self.peer.received();
        let mut rest = bytes.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap_or(&bytes);
        let mut kinds = Vec::new();
        while let [_, high, low, kind, ..] = rest {
            kinds.push(*kind);
            rest = &rest[9 + (usize::from(*high) << 8 | usize::from(*low))..];
        }
        kinds
    }
}

pub(crate) fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns a short description of the next event.
pub(crate) fn event(exchange: &mut Exchange, now: Duration) -> Poll<Result<String, Error>> {
    let mut cx = Context::from_waker(Waker::noop());
    exchange.poll_event(&mut cx, now).map_ok(|event| match event {
        ResponseEvent::Interim(head) => format!("interim {}", head.status),
        ResponseEvent::Final(head, length) => format!("final {} {length:?}", head.status),
        ResponseEvent::Content(content) => format!("content {}", content.escape_ascii()),
        ResponseEvent::End(trailers) => format!("end {trailers:?}"),
        ResponseEvent::Tunnel(_) => "tunnel".to_owned(),
    })
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// Settings without values.
const NO_LIMIT: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Status 200 on the first stream, which stays open.
const OK: &[u8] = &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88];

#[test]
fn response_arrives_as_a_sequence_of_events() {
    let mut scene = Scene::allowing(10);
    let mut exchange = scene.get();
    assert!(event(&mut exchange, Duration::ZERO).is_pending());
    scene.send_frames(&[OK, b"\0\0\x02\0\0\0\0\0\x01ok", b"\0\0\x05\x01\x05\0\0\0\x01\0\x01a\x01b"]);
    let mut events = Vec::new();
    while !exchange.is_complete() {
        let Poll::Ready(Ok(event)) = event(&mut exchange, Duration::ZERO) else {
            panic!("an event is missing")
        };
        events.push(event);
    }
    assert_eq!(events, ["final 200 Chunked", "content ok", "end {\"a\": \"b\"}"]);
}

/// One response with an invalid field once closed the connection, with the requests of all other clients on
/// it (RFC 9113 §8.1.1).
#[test]
fn malformed_response_fails_only_its_exchange() {
    let fields: [&[u8]; 5] =
        [b"\0\x01x\x04a\r\nb", b"\0\x01X\x01a", b"\0\x03a b\x01c", b"\0\x02:x\x01a", b"\0\x07:status\x0299"];
    for field in fields {
        let mut scene = Scene::allowing(10);
        let (mut malformed, mut other) = (scene.get(), scene.get());
        let length = u8::try_from(1 + field.len()).unwrap();
        let head = [&[0, 0, length, HEADERS, 4, 0, 0, 0, 1, 0x88], field].concat();
        scene.send_frames(&[&head, &[0, 0, 1, HEADERS, 5, 0, 0, 0, 3, 0x88]]);
        let failed = event(&mut malformed, Duration::ZERO);
        assert_eq!(failed, Poll::Ready(Err(Error::StreamReset)), "{}", field.escape_ascii());
        let answered = event(&mut other, Duration::ZERO);
        assert_eq!(answered, Poll::Ready(Ok("final 200 Chunked".to_owned())), "{}", field.escape_ascii());
        assert!(!scene.kinds().contains(&GOAWAY) && !scene.connection.is_over());
    }
}

#[test]
fn client_respects_the_stream_limit_of_the_upstream_server() {
    let mut scene = Scene::allowing(1);
    assert!(scene.connection.has_capacity());
    let exchange = scene.get();
    assert!(!scene.connection.has_capacity() && !scene.connection.is_over());
    drop(exchange);
    assert!(scene.drive().is_pending());
    assert!(scene.connection.has_capacity());
}

/// The number of exchanges was once limited only by the upstream server. Exchanges with unread bodies then
/// blocked all others.
#[test]
fn exchanges_are_limited_by_the_connection_window() {
    let mut scene = Scene::new();
    scene.send_frames(&[NO_LIMIT]);
    let mut exchanges = Vec::new();
    while exchanges.len() < 200 && scene.connection.has_capacity() {
        exchanges.push(scene.get());
    }
    assert_eq!(exchanges.len(), 100);
    assert!(!scene.connection.is_over());
}

#[test]
fn silent_upstream_server_is_pinged_and_then_disconnected() {
    let mut scene = Scene::allowing(10);
    let mut exchange = scene.get();
    assert!(scene.kinds().contains(&HEADERS));
    assert!(scene.advance(Duration::from_secs(9)).is_pending());
    assert_eq!(scene.kinds(), [0; 0]);
    assert!(scene.advance(Duration::from_secs(2)).is_pending());
    assert_eq!(scene.kinds(), [PING]);
    assert!(scene.advance(Duration::from_secs(9)).is_pending());
    assert!(scene.advance(Duration::from_secs(2)).is_ready(), "the server has not answered");
    // Active exchanges fail when the driver is dropped.
    scene.driver = Scene::new().driver;
    let failed = event(&mut exchange, Duration::from_secs(22));
    assert_eq!(failed, Poll::Ready(Err(Error::ClosedBeforeResponse)));
    assert!(scene.connection.is_over());
}

#[test]
fn upstream_server_that_answers_pings_is_kept() {
    let mut scene = Scene::allowing(10);
    let _exchange = scene.get();
    scene.kinds();
    for seconds in [11, 11, 311, 311, 311] {
        assert!(scene.advance(Duration::from_secs(seconds)).is_pending());
        scene.answer_ping();
    }
}

/// A ping was once sent every ten seconds. gRPC servers close a connection with all its streams at the fourth
/// ping (`too_many_pings`).
#[test]
fn pings_become_rare_if_the_server_answers_only_pings() {
    let mut scene = Scene::allowing(10);
    let mut exchange = scene.get();
    scene.kinds();
    for is_head_there in [false, true] {
        if is_head_there {
            scene.send_frames(&[OK]);
            assert!(event(&mut exchange, Duration::ZERO).is_ready());
        }
        for _ in 0..2 {
            assert!(scene.advance(Duration::from_secs(11)).is_pending());
            scene.answer_ping();
        }
        // Other frames do not answer a request, so these servers do not count them.
        scene.send_frames(&[b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01"]);
        assert!(scene.advance(Duration::from_mins(5)).is_pending());
        assert_eq!(scene.kinds(), [0; 0]);
    }
    assert!(scene.advance(Duration::from_secs(11)).is_pending());
    assert_eq!(scene.kinds(), [PING]);
    assert!(scene.advance(Duration::from_secs(11)).is_ready(), "the server has not answered");
}

#[test]
fn new_exchange_after_pings_allows_one_more_early_ping() {
    let mut scene = Scene::allowing(10);
    let _silent = scene.get();
    scene.kinds();
    for _ in 0..2 {
        assert!(scene.advance(Duration::from_secs(11)).is_pending());
        scene.answer_ping();
    }
    let _another = scene.get();
    scene.kinds();
    assert!(scene.advance(Duration::from_secs(11)).is_pending());
    scene.answer_ping();
    assert!(scene.advance(Duration::from_secs(11)).is_pending());
    assert_eq!(scene.kinds(), [0; 0], "not more often than servers allow");
}

/// Such an exchange once waited for five minutes.
#[test]
fn requested_ping_detects_a_dead_server_within_seconds() {
    let mut scene = Scene::allowing(10);
    let mut silent = scene.get();
    scene.kinds();
    for _ in 0..2 {
        assert!(scene.advance(Duration::from_secs(11)).is_pending());
        scene.answer_ping();
    }
    assert!(scene.advance(Duration::from_mins(1)).is_pending());
    scene.connection.ping_request().ask();
    assert!(scene.drive().is_pending());
    assert_eq!(scene.kinds(), [PING]);
    assert!(scene.advance(Duration::from_secs(11)).is_ready());
    let failed = event(&mut silent, Duration::from_secs(93));
    assert_eq!(failed, Poll::Ready(Err(Error::ClosedBeforeResponse)));
}

/// Otherwise, a slow reader would cause repeated pings.
#[test]
fn reading_buffered_data_does_not_reset_the_ping_interval() {
    let mut scene = Scene::allowing(10);
    let mut exchange = scene.get();
    scene.send_frames(&[OK, b"\0\0\x02\0\0\0\0\0\x01ok"]);
    assert!(event(&mut exchange, Duration::ZERO).is_ready());
    scene.kinds();
    for _ in 0..2 {
        assert!(scene.advance(Duration::from_secs(11)).is_pending());
        scene.answer_ping();
    }
    scene.kinds();
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("content ok".to_owned())));
    assert!(scene.advance(Duration::from_secs(11)).is_pending());
    assert_eq!(scene.kinds(), [0; 0]);
}

/// Only fifty dropped streams per second were once remembered. A thousand late frames on the other streams
/// ended the connection.
#[test]
fn dropped_exchanges_do_not_fail_other_exchanges() {
    let mut scene = Scene::allowing(200);
    let mut other = scene.get();
    let mut stream = 1_u32;
    for _ in 0..200 {
        drop(scene.get());
        assert!(scene.drive().is_pending());
        stream += 2;
        let late = [&[0, 0, 1, 0, 0][..], &stream.to_be_bytes(), b"x"].concat();
        (0..10).for_each(|_| scene.send_frames(&[&late]));
    }
    assert!(!scene.kinds().contains(&GOAWAY));
    scene.send_frames(&[OK, b"\0\0\x02\0\x01\0\0\0\x01ok"]);
    assert_eq!(event(&mut other, Duration::ZERO), Poll::Ready(Ok("final 200 Chunked".to_owned())));
}

#[test]
fn connection_is_retired_after_4096_dropped_exchanges() {
    let mut scene = Scene::allowing(200);
    let mut other = scene.get();
    for _ in 0..4095 {
        drop(scene.get());
        assert!(scene.drive().is_pending());
    }
    assert!(scene.connection.has_capacity() && !scene.connection.is_over());
    drop(scene.get());
    assert!(scene.connection.is_over() && !scene.connection.has_capacity());
    scene.send_frames(&[OK, b"\0\0\x02\0\x01\0\0\0\x01ok"]);
    for expected in ["final 200 Chunked", "content ok", "end {}"] {
        assert_eq!(event(&mut other, Duration::ZERO), Poll::Ready(Ok(expected.to_owned())));
    }
}

#[test]
fn completed_exchanges_do_not_retire_the_connection() {
    let mut scene = Scene::allowing(200);
    for n in 0..5000_u32 {
        let mut exchange = scene.get();
        let stream = (2 * n + 1).to_be_bytes();
        scene.send_frames(&[&[0, 0, 1, 1, 5][..], &stream, b"\x88"]);
        for expected in ["final 200 Chunked", "end {}"] {
            assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok(expected.to_owned())));
        }
    }
    assert!(!scene.connection.is_over());
}

#[test]
fn idle_connection_closes_after_30_seconds() {
    let mut scene = Scene::allowing(10);
    assert!(scene.advance(Duration::from_secs(29)).is_pending());
    assert!(scene.advance(Duration::from_secs(2)).is_ready());
    assert!(scene.connection.is_over());
}

#[test]
fn head_and_body_timeouts_apply_per_exchange() {
    let mut scene = Scene::allowing(10);
    let (mut silent, mut slow) = (scene.get(), scene.get());
    assert!(event(&mut silent, Duration::ZERO).is_pending() && event(&mut slow, Duration::ZERO).is_pending());
    assert_eq!(silent.deadline(), Some(Duration::from_mins(1)));
    scene.send_frames(&[&[0, 0, 1, 1, 4, 0, 0, 0, 3, 0x88]]);
    let late = Duration::from_secs(50);
    assert_eq!(event(&mut slow, late), Poll::Ready(Ok("final 200 Chunked".to_owned())));
    assert!(event(&mut slow, late).is_pending());
    assert_eq!(event(&mut silent, Duration::from_mins(1)), Poll::Ready(Err(Error::HeadTimedOut)));
    assert!(event(&mut slow, Duration::from_mins(1)).is_pending());
    assert_eq!(event(&mut slow, late + Duration::from_mins(1)), Poll::Ready(Err(Error::ContentTimedOut)));
}

#[test]
fn interim_responses_headers_and_trailers_are_checked() {
    let interim: &[u8] = b"\0\0\x05\x01\x04\0\0\0\x01\x08\x03103";
    let mut scene = Scene::allowing(10);
    let mut exchange = scene.get();
    scene.send_frames(&[interim; 17]);
    for _ in 0..16 {
        assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("interim 103".to_owned())));
    }
    let too_many = Error::HeadMalformed(Rule::InterimResponsesTooMany);
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Err(too_many)));

    let mut scene = Scene::allowing(10);
    let mut exchange = scene.get();
    scene.send_frames(&[b"\0\0\x07\x01\x05\0\0\0\x01\x88\0\x01a\x02 b"]);
    let invalid = Error::HeadMalformed(Rule::FieldValueInvalid);
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Err(invalid)));

    let mut scene = Scene::allowing(10);
    let mut exchange = scene.get();
    scene.send_frames(&[OK, b"\0\0\x08\x01\x05\0\0\0\x01\0\x04host\x01b"]);
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("final 200 Chunked".to_owned())));
    let forbidden = Error::ContentMalformed(Rule::TrailerFieldForbidden);
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Err(forbidden)));
}

#[test]
fn error_states_if_the_request_can_be_retried() {
    for (frame, error, retry) in [
        (&b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07"[..], Error::StreamRefused, Retry::Always),
        (b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0", Error::StreamRefused, Retry::Always),
        (b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x02", Error::StreamReset, Retry::IfIdempotent),
    ] {
        let mut scene = Scene::allowing(10);
        let mut exchange = scene.get();
        scene.peer.send(frame);
        let _ = scene.drive();
        assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Err(error)));
        assert_eq!(error.retry(), retry);
    }
}

#[test]
fn request_body_must_match_its_content_length() {
    let mut scene = Scene::allowing(10);
    let request = RequestToSend::new(Method::Post, BodyLength::Bytes(4));
    let head = |head: &mut Vec<u8>| {
        head.extend_from_slice(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    };
    let mut exchange = scene.connection.start(request, Duration::ZERO, head).unwrap();
    assert!(scene.drive().is_pending());
    let mut cx = Context::from_waker(Waker::noop());
    let mut send = |bytes: &'static [u8]| exchange.poll_send(&mut cx, Duration::ZERO, &mut bytes.into());
    assert_eq!(send(b"12345"), Poll::Ready(Err(Error::RequestContentTooLong)));
    assert_eq!(send(b"12"), Poll::Ready(Ok(())));
    assert_eq!(exchange.finish_content(&<_>::default()), Err(Error::RequestContentTooShort));
}

/// Starts a request with a body of unknown length. The upstream server has answered 404 to its head.
fn refused_upload(scene: &mut Scene) -> Exchange {
    let request = RequestToSend::new(Method::Post, BodyLength::Chunked);
    let head = |head: &mut Vec<u8>| {
        head.extend_from_slice(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    };
    let mut exchange = scene.connection.start(request, Duration::ZERO, head).unwrap();
    assert!(scene.drive().is_pending());
    scene.send_frames(&[&[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x8d]]);
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("final 404 Chunked".to_owned())));
    scene.kinds();
    exchange
}

/// The rest of the body was once dropped if the status was not a success.
#[test]
fn request_body_is_sent_completely_after_an_error_status() {
    let mut scene = Scene::allowing(10);
    let mut exchange = refused_upload(&mut scene);
    assert!(exchange.wants_content());
    let mut cx = Context::from_waker(Waker::noop());
    let sent = exchange.poll_send(&mut cx, Duration::ZERO, &mut b"content"[..].into());
    assert_eq!(sent, Poll::Ready(Ok(())));
    exchange.finish_content(&<_>::default()).unwrap();
    assert!(scene.drive().is_pending());
    assert_eq!(scene.kinds(), [DATA, DATA]);
    scene.send_frames(&[b"\0\0\x03\0\x01\0\0\0\x01why"]);
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("content why".to_owned())));
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("end {}".to_owned())));
    assert_eq!(scene.kinds(), [0; 0]);
}

#[test]
fn no_error_reset_stops_the_upload_and_keeps_the_response() {
    let mut scene = Scene::allowing(10);
    let mut exchange = refused_upload(&mut scene);
    // The complete response, and then `NO_ERROR`: the server does not need the rest of the request.
    scene.send_frames(&[b"\0\0\x03\0\x01\0\0\0\x01why", b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\0"]);
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(exchange.poll_write_capacity(&mut cx, Duration::ZERO), Poll::Ready(Ok(())));
    assert!(!exchange.wants_content());
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("content why".to_owned())));
    assert_eq!(event(&mut exchange, Duration::ZERO), Poll::Ready(Ok("end {}".to_owned())));
    assert!(scene.drive().is_pending());
    assert_eq!(scene.kinds(), [0; 0]);
}
