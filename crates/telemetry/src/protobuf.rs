//! Writes and reads the wire format of Protocol Buffers, as far as OTLP needs it.

/// Appends a varint.
#[inline]
pub(crate) fn write_varint(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    output.push(low_byte(value));
}

/// Appends a field with an integer.
pub(crate) fn write_integer(output: &mut Vec<u8>, field: u32, value: u64) {
    write_tag(output, field, VARINT);
    write_varint(output, value);
}

/// Appends a field with a `fixed64`.
#[inline]
pub(crate) fn write_fixed64(output: &mut Vec<u8>, field: u32, value: u64) {
    write_tag(output, field, FIXED64);
    output.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field with a `double`.
pub(crate) fn write_double(output: &mut Vec<u8>, field: u32, value: f64) {
    write_fixed64(output, field, value.to_bits());
}

/// Appends a repeated field of `fixed64` or `double` values, in the packed form.
pub(crate) fn write_packed_fixed64(
    output: &mut Vec<u8>,
    field: u32,
    values: impl ExactSizeIterator<Item = u64>,
) {
    write_tag(output, field, LENGTH_DELIMITED);
    write_varint(output, values.len() as u64 * 8);
    values.for_each(|value| output.extend_from_slice(&value.to_le_bytes()));
}

/// Appends a field with bytes or a text. Leaves out empty values, the default of such fields.
#[inline]
pub(crate) fn write_bytes(output: &mut Vec<u8>, field: u32, value: &[u8]) {
    if !value.is_empty() {
        write_tag(output, field, LENGTH_DELIMITED);
        write_varint(output, value.len() as u64);
        output.extend_from_slice(value);
    }
}

/// Appends the tag and the length of a field with a message of `length` bytes.
pub(crate) fn write_length(output: &mut Vec<u8>, field: u32, length: usize) {
    write_tag(output, field, LENGTH_DELIMITED);
    write_varint(output, length as u64);
}

/// Appends a field with a message, which `write` appends. The length precedes the message. The function moves
/// messages that are shorter than 128 bytes, or longer than 16,383 bytes.
#[inline]
pub(crate) fn write_message(output: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    write_tag(output, field, LENGTH_DELIMITED);
    output.extend_from_slice(&[0; EXPECTED_LENGTH_BYTES]);
    let start = output.len();
    write(output);
    set_length(output, start);
}

/// Writes the length of the message from `start` to the end. [`EXPECTED_LENGTH_BYTES`] bytes before the message
/// are free for the length.
#[inline]
pub(crate) fn set_length(output: &mut Vec<u8>, start: usize) {
    let length = output.len() - start;
    match output[start - EXPECTED_LENGTH_BYTES..].first_chunk_mut() {
        Some(place) if varint_bytes(length as u64) == EXPECTED_LENGTH_BYTES => {
            *place = [low_byte(length as u64) | 0x80, low_byte(length as u64 >> 7)];
        }
        Some(place) if length < 0x80 => {
            place[0] = low_byte(length as u64);
            output.copy_within(start.., start - 1);
            output.truncate(output.len() - 1);
        }
        _ => move_message(output, start),
    }
}

/// Writes the length of the message from `start` to the end, before the message, and moves the message.
fn move_message(output: &mut Vec<u8>, start: usize) {
    let mut length = Vec::new();
    write_varint(&mut length, (output.len() - start) as u64);
    output.splice(start - EXPECTED_LENGTH_BYTES..start, length);
}

#[inline]
fn write_tag(output: &mut Vec<u8>, field: u32, wire_type: u32) {
    write_varint(output, u64::from(field << 3 | wire_type));
}

#[inline]
pub(crate) const fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// Returns the length of the varint of `value`.
#[inline]
pub(crate) const fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads a varint. Returns the value and the remaining bytes.
fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut shift) = (0, 0);
    for (place, byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
        shift += 7;
    }
    None
}

/// A field of a message.
pub(crate) enum Field<'a> {
    /// A varint.
    Integer(u64),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
    /// A fixed-size number.
    Fixed,
}

/// Reads the next field of a message. Returns its number, the field and the remaining bytes. `None` at the end
/// and if the message is malformed.
pub(crate) fn read_field(bytes: &[u8]) -> Option<(u64, Field<'_>, &[u8])> {
    let (tag, rest) = read_varint(bytes)?;
    let number = tag >> 3;
    match u32::try_from(tag & 7).ok()? {
        VARINT => read_varint(rest).map(|(value, rest)| (number, Field::Integer(value), rest)),
        FIXED64 => Some((number, Field::Fixed, rest.get(8..)?)),
        LENGTH_DELIMITED => {
            let (length, rest) = read_varint(rest)?;
            let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((number, Field::Bytes(value), rest))
        }
        FIXED32 => Some((number, Field::Fixed, rest.get(4..)?)),
        _ => None,
    }
}

/// Number of bytes for the length of a usual message.
pub(crate) const EXPECTED_LENGTH_BYTES: usize = 2;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
pub(crate) const LENGTH_DELIMITED: u32 = 2;
const FIXED32: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, value);
            assert_eq!(bytes.len(), varint_bytes(value), "{value}");
            bytes.push(7);
            assert_eq!(read_varint(&bytes), Some((value, &[7][..])));
        }
        assert_eq!(read_varint(&[0x80; 11]), None);
        assert_eq!(read_varint(&[0x80]), None);
    }

    #[test]
    fn messages_of_all_lengths_have_the_right_prefix() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let mut bytes = vec![9];
            write_message(&mut bytes, 2, |output| output.extend(content(length)));
            bytes.push(9);
            let Some((2, Field::Bytes(message), [9])) = read_field(&bytes[1..]) else { panic!("{length}") };
            assert!(message.iter().copied().eq(content(length)), "{length}");
        }
    }

    fn content(length: usize) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).cycle().take(length)
    }

    #[test]
    fn truncated_fields_are_rejected() {
        for bytes in [&[0x0a, 5, 1][..], &[0x09, 1, 2], &[0x0d, 1], &[0x0b], &[0x08]] {
            assert!(read_field(bytes).is_none(), "{bytes:?}");
        }
    }
}
