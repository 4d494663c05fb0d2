//! Tests of HTTP/2: many concurrent requests on one connection, and their failures.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use thruway_bench::{ConnectionOptions, FailureKind, Limit, Pace, Record};

use crate::http2_scene::{DATA, END_STREAM, HEADERS, frame, go_away, head, proper, reset, settings};
use crate::scene::{Asked, Reaction, Scene, Then};

const REQUESTS: u64 = 20;
const MILLISECOND: Duration = Duration::from_millis(1);

fn scene(streams: usize) -> Scene {
    let connection_options = ConnectionOptions { pipeline: streams, ..Scene::default().connection_options };
    Scene { connection_options, limit: Limit::Requests(REQUESTS), ..Scene::default() }
}

fn answer(asked: Asked) -> Reaction {
    Reaction::with(proper(asked.stream), Then::GoOn)
}

/// Every fourth request fails with these bytes; the others succeed.
fn failing(streams: usize, then: Then, bytes: impl Fn(u32) -> Vec<u8> + 'static) -> Record {
    let react = move |asked: Asked| match asked.number % 4 {
        1 => Reaction::with(bytes(asked.stream), then),
        _ => answer(asked),
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
fn as_many_requests_are_on_their_way_as_there_are_streams() {
    let (under_way, most) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(0)));
    let seen = most.clone();
    let ends = Rc::new(Cell::new(Duration::ZERO));
    let outcome = scene(4).run_http2(settings(None), move |asked| {
        // Requests that arrive at the same time are answered at the same time.
        under_way.set(if ends.replace(asked.now) == asked.now { under_way.get() + 1 } else { 1 });
        seen.set(seen.get().max(under_way.get()));
        answer(asked)
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
fn answers_come_in_any_order_and_each_has_its_own_time() {
    let react = |asked: Asked| Reaction {
        after: MILLISECOND * if asked.number == 0 { 100 } else { 1 },
        bytes: proper(asked.stream),
        then: Then::GoOn,
    };
    let outcome = scene(2).run_http2(settings(None), react);
    assert_eq!((outcome.record.answered, outcome.ended), (REQUESTS, MILLISECOND * 100));
    assert!(outcome.record.service.percentile(90.0) <= MILLISECOND * 2);
    assert!(outcome.record.service.max() >= MILLISECOND * 99);
}

#[test]
fn no_more_streams_are_open_than_the_server_allows() {
    let record = scene(8).run_http2(settings(Some(3)), answer).record;
    assert_eq!((record.answered, record.failed(), record.streams_max), (REQUESTS, 0, 3));
}

#[test]
fn an_open_loop_starts_requests_while_others_are_on_their_way() {
    let scene = Scene {
        pace: Pace::Constant { rate: 1000.0 },
        limit: Limit::Duration(Duration::from_secs(1)),
        ..scene(50)
    };
    let react = |asked: Asked| Reaction { after: MILLISECOND * 20, ..answer(asked) };
    let record = scene.run_http2(settings(None), react).record;
    assert_eq!((record.answered, record.failed(), record.connections_opened), (1000, 0, 1));
    assert!(record.response.max() <= MILLISECOND * 21, "{:?}", record.response.max());
}

#[test]
fn what_ends_a_stream_is_counted_as_what_it_is_and_the_connection_goes_on() {
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
            let record = failing(3, Then::GoOn, bytes);
            assert_only(&record, kind, REQUESTS / 4);
            assert_eq!((example(&record).as_str(), record.connections_opened), (words, 1));
        }
    }
}

#[test]
fn answers_that_break_a_rule_are_malformed() {
    // `content-length: 9`, with a name from the static table, before two bytes of content.
    let short = |stream| {
        let head = frame(HEADERS, 4, stream, &[0x88, 0x0f, 0x0d, 0x01, b'9']);
        [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
    };
    let record = failing(1, Then::GoOn, short);
    assert_only(&record, FailureKind::Malformed, REQUESTS / 4);
    assert_eq!((example(&record).as_str(), record.connections_opened), ("PROTOCOL_ERROR", 1));
    // After a field section that cannot be decoded, nothing else on the connection can be read.
    let record = failing(1, Then::GoOn, |stream| frame(HEADERS, 5, stream, &[0xff; 9]));
    assert_only(&record, FailureKind::Malformed, REQUESTS / 4);
    assert_eq!(record.connections_opened, 6);
    // Content on a stream that was never opened.
    let record = failing(1, Then::GoOn, |_| frame(DATA, END_STREAM, 4001, b"ok"));
    assert_only(&record, FailureKind::Malformed, REQUESTS / 4);
}

#[test]
fn a_connection_that_ends_is_told_by_how_far_the_answer_was() {
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
fn a_server_that_gives_up_is_told_with_its_reason() {
    let record = failing(1, Then::Finish, |stream| go_away(stream, 0xb));
    // The server may have processed this request, but never answers it.
    assert_only(&record, FailureKind::Closed, REQUESTS / 4);
    let record = failing(1, Then::Finish, |stream| go_away(stream - 2, 0xb));
    assert_only(&record, FailureKind::GoneAway, REQUESTS / 4);
    assert_eq!(example(&record), "ENHANCE_YOUR_CALM");
}

#[test]
fn what_a_server_that_goes_in_peace_has_not_looked_at_is_sent_again_and_counted_once() {
    let react = |asked: Asked| match asked.stream {
        // The server answers four requests and processes no others.
        stream @ ..=5 => Reaction::with(proper(stream), Then::GoOn),
        7 => Reaction::with([go_away(7, 0), proper(7)].concat(), Then::GoOn),
        _ => Reaction::with("", Then::GoOn),
    };
    let record = scene(6).run_http2(settings(None), react).record;
    assert_eq!((record.answered, record.failed()), (REQUESTS, 0));
    assert!(record.sent_again >= 4 && record.connections_opened == 5, "{record:?}");
}

#[test]
fn a_server_that_never_takes_a_request_is_no_reason_to_ask_for_ever() {
    let greeting = [settings(None), go_away(0, 0)].concat();
    let record = scene(2).run_http2(greeting, |_| Reaction::with("", Then::Finish)).record;
    assert_eq!((record.failed_as(FailureKind::GoneAway), record.failed()), (REQUESTS, REQUESTS));
}

#[test]
fn what_is_not_http2_is_told_as_that() {
    for greeting in
        [&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], b"220 mail.example ready\r\n"]
    {
        let record = scene(2).run_http2(greeting.to_vec(), |_| Reaction::with("", Then::GoOn)).record;
        assert_eq!((record.failed_as(FailureKind::NotHttp2), record.failed()), (REQUESTS, REQUESTS));
    }
}

#[test]
fn what_times_out_ends_its_stream_and_no_other() {
    let scene = scene(3);
    let connection_options = ConnectionOptions { timeout: MILLISECOND * 500, ..scene.connection_options };
    let react = |asked: Asked| match asked.number {
        1 | 5 => Reaction::with("", Then::GoOn),
        // The response arrives after the timeout and is ignored.
        9 => Reaction { after: MILLISECOND * 800, ..answer(asked) },
        _ => Reaction { after: MILLISECOND * 90, ..answer(asked) },
    };
    let outcome = Scene { connection_options, ..scene }.run_http2(settings(None), react);
    assert_only(&outcome.record, FailureKind::TimedOut, 3);
    assert_eq!(outcome.record.connections_opened, 1);
}

#[test]
fn the_end_of_a_closed_loop_cuts_off_what_is_on_its_way() {
    let scene = Scene { limit: Limit::Duration(MILLISECOND * 10), ..scene(4) };
    let react = |asked: Asked| Reaction { after: MILLISECOND * 4, ..answer(asked) };
    let record = scene.run_http2(settings(None), react).record;
    assert_eq!((record.answered, record.failed(), record.cut_off), (8, 0, 4));
}
