//! Generates messages and damage from reproducible randomness.

use thruway_testkit::Random;
use thruway_testkit::transcript::Fields;

const TOKEN: &[u8] = b"abcXYZ019!#$%&'*+-.^_`|~";
const TARGET: &[u8] = b"abcXYZ019-._~!$&'()*+,;=:@/?%{}|^[]";
const VALUE: &[u8] = b"abcXYZ019 \t,;=\"\\()/:@!~\xc3\xa9\xff";

/// Bytes that often break parsers.
const MARKS: &[u8] = b"\r\n\0 \t:;,\"\\0aF/?#*\x7f\x80\xff";

/// Replaces, inserts, removes or repeats a byte.
pub(crate) fn damage(input: &mut Vec<u8>, random: &mut Random) {
    let place = random.below(input.len() + 1);
    let mark = *random.pick(MARKS);
    match random.below(4) {
        0 => input.insert(place, mark),
        _ if place == input.len() => {}
        1 => input[place] = mark,
        2 => drop(input.remove(place)),
        _ => input.insert(place, input[place]),
    }
}

/// Returns any token of 1 to 20 bytes.
pub(crate) fn token(random: &mut Random) -> String {
    let length = 1 + random.below(20);
    String::from_utf8(random.bytes(TOKEN, length)).expect("the alphabet is ASCII")
}

/// Returns a target in origin form.
pub(crate) fn origin_form(random: &mut Random) -> String {
    let length = random.below(40);
    format!("/{}", String::from_utf8(random.bytes(TARGET, length)).expect("the alphabet is ASCII"))
}

/// Returns a value of 0 to 30 bytes without whitespace at the ends.
pub(crate) fn field_value(random: &mut Random) -> Vec<u8> {
    let length = random.below(31);
    random.bytes(VALUE, length).trim_ascii().to_vec()
}

/// Returns fields without an effect on the framing.
pub(crate) fn fields(random: &mut Random) -> Fields {
    (0..random.below(8)).map(|_| (format!("x-{}", token(random)), field_value(random))).collect()
}

/// Returns content of any bytes, rarely empty, sometimes large.
pub(crate) fn content(random: &mut Random) -> Vec<u8> {
    let length = if random.one_in(20) { random.below(20_000) } else { random.below(60) };
    let alphabet: Vec<u8> = (0..=255).collect();
    random.bytes(&alphabet, length)
}
