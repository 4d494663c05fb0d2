//! Tests of misbehaving upstream servers: the error, the responsible side, the safety of a retry, and that
//! the connection is not reused.

use std::fs::File;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_client::{Config, Connection, Error, ReadBuffers, Retry, Side};
use thruway_http1 as http1;
use thruway_net::Transport;
use thruway_testkit::upstream::{self, AfterResponse, Upstream};
use thruway_testkit::{PipeTransport, pipe};

use crate::line::{Line, connection, context, start};

/// Makes `upstream` answer over a connection in memory.
fn answer(line: &Line, upstream: &Upstream) {
    line.peer.send(&upstream.response);
    match upstream.after_response {
        AfterResponse::Close => line.peer.finish(),
        AfterResponse::Reset => line.peer.reset(),
        AfterResponse::RepeatResponse => line.peer.send(upstream.response.repeat(100)),
        AfterResponse::KeepOpen | AfterResponse::Hang => {}
    }
}

#[test]
fn each_misbehavior_has_its_error_and_retry_rule() {
    for (upstream, error, retry) in [
        (upstream::closes_without_response(), Error::ClosedBeforeResponse, Retry::IfConnectionReused),
        (upstream::closes_mid_head(), Error::HeadIncomplete, Retry::IfIdempotent),
        (upstream::closes_mid_body(), Error::ContentIncomplete, Retry::Never),
        (upstream::closes_mid_chunk(), Error::ContentIncomplete, Retry::Never),
        (upstream::resets_mid_body(), Error::ContentIncomplete, Retry::Never),
        (
            upstream::sends_oversized_head(),
            Error::HeadMalformed(http1::Error::HeaderSectionTooLarge),
            Retry::IfIdempotent,
        ),
        (
            upstream::sends_other_protocol(),
            Error::HeadMalformed(http1::Error::StatusLineInvalid),
            Retry::IfIdempotent,
        ),
        (
            upstream::sends_endless_interim_responses(),
            Error::HeadMalformed(http1::Error::InterimResponsesTooMany),
            Retry::IfIdempotent,
        ),
    ] {
        let mut line = Line::get();
        assert_eq!(line.read(), "…");
        answer(&line, &upstream);
        assert_eq!(line.error(), error, "{upstream:?}");
        assert_eq!((error.retry(), error.side()), (retry, Side::Upstream));
        assert!(!line.leaves_connection_reusable());
    }
}

#[test]
fn any_request_can_be_retried_if_the_connection_closed_before_it() {
    let mut line = Line::get();
    line.peer.reset();
    assert_eq!(line.error(), Error::ClosedBeforeRequest);
    assert_eq!(Error::ClosedBeforeRequest.retry(), Retry::Always);
}

/// A transport that has sent a part of a write and returns `Pending`, as TLS can.
struct SendsPart(PipeTransport);

impl Transport for SendsPart {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buffer)
    }

    fn poll_write(&mut self, _: &mut Context<'_>, _: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn has_written_part(&self) -> bool {
        true
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &File, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(cx)
    }

    fn discard_unsent(&mut self) {
        self.0.discard_unsent();
    }
}

/// Such requests were once always sent again, as if no byte had been sent.
#[test]
fn partly_written_request_does_not_count_as_unsent() {
    let (peer, driven) = pipe();
    let connection = Connection::new(SendsPart(driven), &Config::default());
    let mut exchange = start(connection, Duration::ZERO);
    assert!(exchange.poll_flush(&mut context(), Duration::ZERO).is_pending());
    peer.finish();
    let error =
        exchange.begin_poll(&ReadBuffers::default()).poll_event(&mut context(), Duration::ZERO).map_ok(drop);
    assert_eq!(error, Poll::Ready(Err(Error::ClosedBeforeResponse)));
}

#[test]
fn close_after_an_interim_response_is_an_incomplete_head() {
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 103 \r\n\r\n");
    line.peer.finish();
    assert_eq!(line.error(), Error::HeadIncomplete);
}

#[test]
fn malformed_response_body_is_never_retried() {
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    let error = line.error();
    assert_eq!(error, Error::ContentMalformed(http1::Error::ChunkSizeInvalid));
    assert_eq!(error.retry(), Retry::Never);
    assert_eq!(
        error.to_string(),
        "the response body is malformed: a chunk size must be hexadecimal digits and nothing else"
    );
}

#[test]
fn unrequested_upgrade_is_an_error() {
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 101 \r\nUpgrade: x\r\n\r\n");
    assert_eq!(line.error(), Error::HeadMalformed(http1::Error::UnexpectedMessage));
}

#[test]
fn surplus_bytes_prevent_reuse_but_keep_the_response() {
    for upstream in [upstream::sends_two_responses(), upstream::exceeds_content_length()] {
        let mut line = Line::get();
        answer(&line, &upstream);
        assert_eq!(line.read(), "200 `ok` end");
        assert!(!line.leaves_connection_reusable());
    }
}

#[test]
fn late_data_or_close_is_detected_before_reuse() {
    for late in [upstream::OK_RESPONSE, ""] {
        let mut line = Line::get();
        line.peer.send(upstream::OK_RESPONSE);
        assert_eq!(line.read(), "200 `ok` end");
        let mut connection = line.exchange.finish().unwrap();
        assert!(connection.is_alive());
        line.peer.send(late);
        line.peer.finish();
        assert!(!connection.is_alive(), "{late:?}");
    }
}

#[test]
fn late_second_response_prevents_reuse() {
    let (peer, connection) = connection(&Config::default());
    let exchange = start(connection, Duration::ZERO);
    let mut line = Line { peer, exchange, now: Duration::ZERO, buffers: ReadBuffers::default() };
    line.peer.send(upstream::OK_RESPONSE);
    assert_eq!(line.read(), "200 `ok` end");
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
    let mut connection = line.exchange.finish().unwrap();
    assert!(!connection.is_alive(), "a pool does not return this connection");
}

#[test]
fn dropped_exchange_closes_its_connection() {
    let mut line = Line::get();
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
    assert_eq!(line.read(), "200 `ab` …");
    assert!(!line.peer.is_closed());
    drop(line.exchange);
    assert!(line.peer.is_closed());
}

#[test]
fn retry_variants_have_the_documented_conditions() {
    for (retry, of_any, of_idempotent, counts_against_no_server) in [
        (Retry::Never, false, false, false),
        (Retry::IfConnectionReused, false, true, true),
        (Retry::IfIdempotent, false, true, false),
        (Retry::Always, true, true, true),
    ] {
        assert_eq!((retry.allows(false), retry.allows(true)), (of_any, of_idempotent), "{retry:?}");
        assert_eq!(
            (retry.counts_against_no_server(false), retry.counts_against_no_server(true)),
            (false, counts_against_no_server),
            "{retry:?}"
        );
    }
}
