//! Tests that the result does not depend on the pieces in which the input arrives, a common source of parser
//! errors.

use thruway_http1::{BodyLength, Error, Limits};
use thruway_testkit::Random;
use thruway_testkit::transcript::{
    Event, Reader, Transcript, assert_same_for_all_splits, fixed_size_splits, random_splits, two_piece_splits,
};

use crate::generate;
use crate::samples;

#[test]
fn events_do_not_depend_on_how_input_is_split() {
    let mut random = Random::new(1);
    for sample in samples::all() {
        // All cuts of a long input take long, and show no more than those of a short one.
        let single = two_piece_splits(&sample.input).step_by(sample.input.len() / 256 + 1);
        let ways = fixed_size_splits(&sample.input, 20).chain(single).chain(random_splits(
            &sample.input,
            &mut random,
            20,
        ));
        assert_same_for_all_splits(&sample.reader, sample.limits, &sample.input, ways);
    }
}

#[test]
fn result_for_damaged_input_does_not_depend_on_how_it_is_split() {
    let mut random = Random::new(2);
    for sample in samples::all() {
        for _ in 0..12 {
            let mut input = sample.input.clone();
            for _ in 0..=random.below(2) {
                generate::damage(&mut input, &mut random);
            }
            let ways = fixed_size_splits(&input, 3).chain(random_splits(&input, &mut random, 6));
            assert_same_for_all_splits(&sample.reader, sample.limits, &input, ways);
        }
    }
}

#[test]
fn result_for_spliced_input_does_not_depend_on_how_it_is_split() {
    let mut random = Random::new(3);
    let samples = samples::all();
    for sample in &samples {
        for _ in 0..6 {
            let other = random.pick(&samples);
            let (head, _) = sample.input.split_at(random.below(sample.input.len() + 1));
            let (_, tail) = other.input.split_at(random.below(other.input.len() + 1));
            let input = [head, tail].concat();
            let ways = fixed_size_splits(&input, 3).chain(random_splits(&input, &mut random, 6));
            assert_same_for_all_splits(&sample.reader, sample.limits, &input, ways);
        }
    }
}

/// A request is repeated without parsing only if it arrives together with the previous request.
#[test]
fn equal_pipelined_requests_give_the_same_events_as_separate_requests() {
    let lines =
        ["GET / HTTP/1.1", "GET /longer HTTP/1.1", "HEAD / HTTP/1.1", "GET / HTTP/1.0", "POST / HTTP/1.1"];
    let sections = [
        "Host: a\r\n\r\n",
        "Host: a\r\nAccept: b\r\n\r\n",
        "Host: a\r\nContent-Length: 2\r\n\r\nhi",
        "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\n",
        "\r\n",
        "Host: a\r\nConnection: upgrade\r\nUpgrade: b\r\n\r\n",
        "Host: a\r\nConnection: close\r\n\r\n",
    ];
    let mut random = Random::new(4);
    let reader = Reader::Server { declines_tunnels: true };
    for _ in 0..500 {
        // Two of the sections per input, so that many heads repeat.
        let chosen = [random.pick(&sections[..4]), random.pick(&sections)];
        let first = random.below(lines.len() - 1);
        let request = |_| format!("{}\r\n{}", random.pick(&lines[first..first + 2]), random.pick(&chosen));
        let input = (0..6).map(request).collect::<String>().into_bytes();
        let limits = Limits { requests_per_connection: 5, field_lines: 2, ..Limits::default() };
        assert_same_for_all_splits(&reader, limits, &input, fixed_size_splits(&input, 3));
    }
}

#[test]
fn truncated_message_gives_only_an_incomplete_error() {
    for sample in samples::all() {
        let whole = Transcript::read(&sample.reader, sample.limits, [sample.input.as_slice()]);
        if whole.error.is_some() {
            continue;
        }
        for place in 0..sample.input.len() {
            let part = Transcript::read(&sample.reader, sample.limits, [&sample.input[..place]]);
            let context = format!("{} up to {place}:\n{part}", sample.name);
            assert!(is_beginning_of(&part.events, &whole.events), "{context}");
            match part.error {
                Some(Error::IncompleteMessage) => {}
                Some(_) => panic!("{context}"),
                None => assert!(part.events.last().is_none_or(ends_a_message), "{context}"),
            }
        }
    }
}

/// Returns `true` if `whole` starts with `part`. The last content of `part` may be shorter.
fn is_beginning_of(part: &[Event], whole: &[Event]) -> bool {
    let Some((last, before)) = part.split_last() else { return true };
    if *last == Event::EndedByClose {
        // Content that lasts until the connection closes ends at the cut.
        return is_beginning_of(before, whole);
    }
    match (last, whole.get(before.len())) {
        _ if !whole.starts_with(before) => false,
        (Event::Content(part), Some(Event::Content(whole))) => whole.starts_with(part),
        (last, other) => other == Some(last),
    }
}

fn ends_a_message(event: &Event) -> bool {
    match event {
        Event::Request { facts, .. } => facts.body_length == BodyLength::NONE,
        Event::Response(_, length) => *length == BodyLength::NONE,
        Event::Tunnel(_) | Event::EndOfContent(_) | Event::EndedByClose => true,
        Event::Interim(_) | Event::Content(_) => false,
    }
}
