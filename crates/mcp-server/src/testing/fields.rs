//! Helpers for tests.

use thruway_message::{FieldLineSpan, FieldLines};

/// Returns field lines as a parser would return them. Stores the bytes of the lines in `bytes`, and the
/// positions of names and values in `spans`.
pub(crate) fn field_lines<'a>(
    lines: &[(&str, &str)],
    bytes: &'a mut Vec<u8>,
    spans: &'a mut Vec<FieldLineSpan>,
) -> FieldLines<'a> {
    for (name, value) in lines {
        let name_start = bytes.len();
        bytes.extend_from_slice(name.as_bytes());
        let name_end = bytes.len();
        bytes.extend_from_slice(b": ");
        let value_start = bytes.len();
        bytes.extend_from_slice(value.as_bytes());
        let value_end = bytes.len();
        bytes.extend_from_slice(b"\r\n");
        let place = |place| u32::try_from(place).unwrap();
        spans.push(FieldLineSpan {
            name_start: place(name_start),
            name_end: place(name_end),
            value_start: place(value_start),
            value_end: place(value_end),
        });
    }
    FieldLines::from_parsed(bytes, spans)
}
