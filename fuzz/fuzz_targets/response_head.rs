//! Bytes from a server: the events do not depend on the split of the input, for requests of several kinds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thruway_http1::{Limits, ResponseTo};
use thruway_testkit::Random;
use thruway_testkit::transcript::{
    Event, Reader, assert_same_for_all_splits, fixed_size_splits, random_splits,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let kinds = [ResponseTo::Other, ResponseTo::Head, ResponseTo::Connect, ResponseTo::Other];
    let requests: Vec<_> = (0..choice >> 4 & 3)
        .map(|i| (kinds[usize::from((choice >> 2) + i) % kinds.len()], choice & 1 == 0))
        .collect();
    let limits = match choice & 2 {
        0 => Limits::default(),
        _ => Limits { header_section_bytes: 64, field_lines: 4, content_bytes: 32, ..Limits::default() },
    };
    let mut random = Random::new(u64::from(choice));
    let splits = fixed_size_splits(bytes, 1).chain(random_splits(bytes, &mut random, 3));
    let expected = requests.len();
    let transcript = assert_same_for_all_splits(&Reader::Client(requests), limits, bytes, splits);
    let responses =
        transcript.events.iter().filter(|event| matches!(event, Event::Response(..) | Event::Tunnel(_)));
    assert!(responses.count() <= expected, "more responses than requests");
});
