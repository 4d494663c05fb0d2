//! Tests of HTTP/2: many concurrent requests on one connection, and their failures.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use thruway_bench::{ConnectionOptions, FailureKind, Limit, Pace, Record};

use crate::http2_scene::{DATA, END_STREAM, HEADERS, frame, go_away, head, proper, reset, settings};
use crate::scene::{ArrivedRequest, Reaction, Scene, Then};

const REQUESTS: u64 = 20;
const MILLISECOND: Duration = Duration::from_millis(1);

fn scene(streams: usize) -> Scene {
    let connection_options = ConnectionOptions { pipeline: streams, ..Scene::default().connection_options };
    Scene { connection_options, limit: Limit::Requests(REQUESTS), ..Scene::default() }
}

fn answer(request: ArrivedRequest) -> Reaction {
    Reaction::with(proper(request.stream), Then::KeepOpen)
}

/// Every fourth request fails with these bytes; the others succeed.
fn failing(streams: usize, then: Then, bytes: impl Fn(u32) -> Vec<u8> + 'static) -> Record {
    let react = move |request: ArrivedRequest| match request.number % 4 {
        1 => Reaction::with(bytes(request.stream), then),
        _ => answer(request),
    };
    scene(streams).run_http2(settings(None), react).record
}

fn assert_only(record: &Record, kind: FailureKind, count: u64) {
    let failures: Vec<_> = record.failures().collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!((failures[0].0, failures[0].1), (kind, count), "{failures:?}");
    assert_eq!(record.answered, REQUESTS - count);
}

/// Returns the first example of a failure.
fn example(record: &Record) -> String {
    record.failures().next().map(|(_, _, example)| example).unwrap_or_default()
}

#[test]
fn concurrent_requests_match_the_number_of_streams() {
    let (in_flight, most) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(0)));
    let seen = most.clone();
    let ends = Rc::new(Cell::new(Duration::ZERO));
    let outcome = scene(4).run_http2(settings(None), move |request| {
        // Requests that arrive at the same time are answered at the same time.
        in_flight.set(if ends.replace(request.now) == request.now { in_flight.get() + 1 } else { 1 });
        seen.set(seen.get().max(in_flight.get()));
        answer(request)
    });
    assert_eq!((outcome.record.answered, outcome.record.failed(), most.get()), (REQUESTS, 0, 4));
    assert_eq!((outcome.record.connections_opened, outcome.record.content_bytes), (1, 2 * REQUESTS));
    assert_eq!(outcome.ended, MILLISECOND * 5);
    // The settings frame, and per response two frame headers, the status and two bytes of content.
    assert_eq!(outcome.record.received_bytes, REQUESTS * (10 + 11) + 9);
    // The client sends its preface with the first requests, and each batch in one write.
    assert!(outcome.writes <= 7, "{}", outcome.writes);
}

#[test]
fn responses_arrive_in_any_order_and_are_timed_separately() {
    let react = |request: ArrivedRequest| Reaction {
        after: MILLISECOND * if request.number == 0 { 100 } else { 1 },
        bytes: proper(request.stream),
        then: Then::KeepOpen,
    };
    let outcome = scene(2).run_http2(settings(None), react);
    assert_eq!((outcome.record.answered, outcome.ended), (REQUESTS, MILLISECOND * 100));
    assert!(outcome.record.service.percentile(90.0) <= MILLISECOND * 2);
    assert!(outcome.record.service.max() >= MILLISECOND * 99);
}

#[test]
fn client_respects_the_stream_limit_of_the_server() {
    let record = scene(8).run_http2(settings(Some(3)), answer).record;
    assert_eq!((record.answered, record.failed(), record.streams_max), (REQUESTS, 0, 3));
}

#[test]
fn open_loop_sends_requests_while_others_are_in_flight() {
    let scene = Scene {
        pace: Pace::Constant { rate: 1000.0 },
        limit: Limit::Duration(Duration::from_secs(1)),
        ..scene(50)
    };
    let react = |request: ArrivedRequest| Reaction { after: MILLISECOND * 20, ..answer(request) };
    let record = scene.run_http2(settings(None), react).record;
    assert_eq!((record.answered, record.failed(), record.connections_opened), (1000, 0, 1));
    assert!(record.response.max() <= MILLISECOND * 21, "{:?}", record.response.max());
}

#[test]
fn stream_resets_are_counted_by_code_and_keep_the_connection() {
    for (code, kind, words) in [
        (0x2, FailureKind::StreamReset, "INTERNAL_ERROR"),
        (0x7, FailureKind::StreamRefused, "REFUSED_STREAM"),
        (0x8, FailureKind::StreamReset, "CANCEL"),
        (0xb, FailureKind::StreamReset, "ENHANCE_YOUR_CALM"),
    ] {
        for begins in [false, true] {
            let bytes = move |stream| {
                let beginning = if begins { head(stream) } else { Vec::new() };
                [beginning, reset(stream, code)].concat()
            };
            let record = failing(3, Then::KeepOpen, bytes);
            assert_only(&record, kind, REQUESTS / 4);
            assert_eq!((example(&record).as_str(), record.connections_opened), (words, 1));
        }
    }
}

#[test]
fn responses_that_violate_the_protocol_are_malformed() {
    // `content-length: 9`, with a name from the static table, before two bytes of content.
    let short = |stream| {
        let head = frame(HEADERS, 4, stream, &[0x88, 0x0f, 0x0d, 0x01, b'9']);
        [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
    };
    let record = failing(1, Then::KeepOpen, short);
    assert_only(&record, FailureKind::Malformed, REQUESTS / 4);
    assert_eq!((example(&record).as_str(), record.connections_opened), ("PROTOCOL_ERROR", 1));
    // After a field section that cannot be decoded, nothing else on the connection can be read.
    let record = failing(1, Then::KeepOpen, |stream| frame(HEADERS, 5, stream, &[0xff; 9]));
    assert_only(&record, FailureKind::Malformed, REQUESTS / 4);
    assert_eq!(record.connections_opened, 6);
    // Content on a stream that was never opened.
    let record = failing(1, Then::KeepOpen, |_| frame(DATA, END_STREAM, 4001, b"ok"));
    assert_only(&record, FailureKind::Malformed, REQUESTS / 4);
}

#[test]
fn connection_end_is_classified_by_response_progress() {
    let begun = |stream| [head(stream), frame(DATA, 0, stream, b"o")].concat();
    for (bytes, then, kind) in [
        (false, Then::Finish, FailureKind::Closed),
        (true, Then::Finish, FailureKind::Incomplete),
        (false, Then::Reset, FailureKind::Reset),
        (true, Then::Reset, FailureKind::Reset),
    ] {
        let bytes = move |stream| if bytes { begun(stream) } else { Vec::new() };
        let record = failing(1, then, bytes);
        assert_only(&record, kind, REQUESTS / 4);
        assert_eq!(record.connections_opened, 1 + REQUESTS / 4, "{kind:?}");
    }
}

#[test]
fn goaway_failure_has_the_error_code_as_example() {
    let record = failing(1, Then::Finish, |stream| go_away(stream, 0xb));
    // The server may have processed this request, but never answers it.
    assert_only(&record, FailureKind::Closed, REQUESTS / 4);
    let record = failing(1, Then::Finish, |stream| go_away(stream - 2, 0xb));
    assert_only(&record, FailureKind::GoneAway, REQUESTS / 4);
    assert_eq!(example(&record), "ENHANCE_YOUR_CALM");
}

#[test]
fn requests_after_graceful_goaway_are_resent_and_counted_once() {
    let react = |request: ArrivedRequest| match request.stream {
        // The server answers four requests and processes no others.
        stream @ ..=5 => Reaction::with(proper(stream), Then::KeepOpen),
        7 => Reaction::with([go_away(7, 0), proper(7)].concat(), Then::KeepOpen),
        _ => Reaction::with("", Then::KeepOpen),
    };
    let record = scene(6).run_http2(settings(None), react).record;
    assert_eq!((record.answered, record.failed()), (REQUESTS, 0));
    assert!(record.sent_again >= 4 && record.connections_opened == 5, "{record:?}");
}

#[test]
fn server_that_always_sends_goaway_is_not_retried_forever() {
    let greeting = [settings(None), go_away(0, 0)].concat();
    let record = scene(2).run_http2(greeting, |_| Reaction::with("", Then::Finish)).record;
    assert_eq!((record.failed_as(FailureKind::GoneAway), record.failed()), (REQUESTS, REQUESTS));
}

#[test]
fn server_without_http2_is_reported_as_such() {
    for greeting in
        [&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], b"220 mail.example ready\r\n"]
    {
        let record = scene(2).run_http2(greeting.to_vec(), |_| Reaction::with("", Then::KeepOpen)).record;
        assert_eq!((record.failed_as(FailureKind::NotHttp2), record.failed()), (REQUESTS, REQUESTS));
    }
}

#[test]
fn stream_timeout_ends_only_that_stream() {
    let scene = scene(3);
    let connection_options = ConnectionOptions { timeout: MILLISECOND * 500, ..scene.connection_options };
    let react = |request: ArrivedRequest| match request.number {
        1 | 5 => Reaction::with("", Then::KeepOpen),
        // The response arrives after the timeout and is ignored.
        9 => Reaction { after: MILLISECOND * 800, ..answer(request) },
        _ => Reaction { after: MILLISECOND * 90, ..answer(request) },
    };
    let outcome = Scene { connection_options, ..scene }.run_http2(settings(None), react);
    assert_only(&outcome.record, FailureKind::TimedOut, 3);
    assert_eq!(outcome.record.connections_opened, 1);
}

#[test]
fn end_of_a_closed_loop_cuts_off_requests_in_flight() {
    let scene = Scene { limit: Limit::Duration(MILLISECOND * 10), ..scene(4) };
    let react = |request: ArrivedRequest| Reaction { after: MILLISECOND * 4, ..answer(request) };
    let record = scene.run_http2(settings(None), react).record;
    assert_eq!((record.answered, record.failed(), record.cut_off), (8, 0, 4));
}
