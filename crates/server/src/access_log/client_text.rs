//! Shortens and escapes text from clients for log lines, so that no client can forge a line.

use std::io::Write as _;

/// Maximum number of bytes of one logged value. Most real values are shorter.
const VALUE_BYTES_MAX: usize = 2 << 10;

/// Writes `bytes` as text for a quoted column, without the quotes. Like Apache, escapes quotes, line breaks
/// and other control characters, so that the text cannot end the column or control a terminal.
pub(super) fn write_escaped(line: &mut Vec<u8>, bytes: &[u8]) {
    for byte in shortened(bytes) {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => line.push(*byte),
            _ => {
                // Writing to a vector cannot fail.
                let _ = write!(line, "\\x{byte:02x}");
            }
        }
    }
}

/// Writes `bytes` as the content of a JSON string (RFC 8259, section 7). Replaces invalid UTF-8 and
/// misleading characters with U+FFFD.
pub(super) fn write_json_text(line: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = shortened(bytes);
    // Nearly all values take this path, which copies the whole value in one step.
    if is_plain(bytes) {
        line.extend_from_slice(bytes);
        return;
    }
    for char in String::from_utf8_lossy(bytes).chars() {
        let char = if is_misleading(char) { char::REPLACEMENT_CHARACTER } else { char };
        if matches!(char, '"' | '\\') {
            line.push(b'\\');
        }
        line.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Returns `true` if all bytes are printable ASCII characters that JSON does not escape. Checks eight bytes
/// at a time.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    let is_plain_word = |chunk: &[u8; 8]| is_plain_word(u64::from_ne_bytes(*chunk));
    match bytes.last_chunk() {
        // The last eight bytes may overlap the chunk before them.
        Some(last) => is_plain_word(last) && bytes.as_chunks().0.iter().all(is_plain_word),
        None => bytes.iter().all(|byte| matches!(byte, b' '..=b'~') & !matches!(byte, b'"' | b'\\')),
    }
}

/// Returns `true` if all bytes of `word` are printable ASCII characters that JSON does not escape.
const fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH_BITS: u64 = ONES << 7;
    /// Returns a word with at least one high bit set if any byte of `word` is less than `limit`. The maximum
    /// `limit` is 128.
    const fn less(word: u64, limit: u8) -> u64 {
        word.wrapping_sub(ONES * limit as u64) & !word
    }
    const fn equal(word: u64, byte: u8) -> u64 {
        less(word ^ (ONES * byte as u64), 1)
    }
    let found = word | less(word, b' ') | equal(word, b'"') | equal(word, b'\\') | equal(word, 0x7f);
    found & HIGH_BITS == 0
}

/// Returns `true` for control characters, and for characters that change the direction of text or break
/// lines.
fn is_misleading(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Cuts a value to the maximum length, so that one request cannot fill the log.
fn shortened(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(VALUE_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_text(bytes: &[u8]) -> String {
        let mut line = Vec::new();
        write_json_text(&mut line, bytes);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn control_and_bidi_characters_are_replaced_and_long_values_truncated() {
        let sent = "a\u{9b}b\u{202e}c\u{2028}\u{1b}é".as_bytes();
        assert_eq!(json_text(sent), "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}é");
        assert_eq!(json_text(&vec![b'x'; 30_000]).len(), VALUE_BYTES_MAX);
        let mut line = Vec::new();
        write_escaped(&mut line, &vec![0x80; 30_000]);
        assert_eq!(line.len(), 4 * VALUE_BYTES_MAX);
    }

    #[test]
    fn every_byte_pair_gives_valid_json_string_without_control_characters() {
        for pair in 0..=u16::MAX {
            let pair = pair.to_be_bytes();
            // The first text is shorter than a word, and the other ones are longer.
            for bytes in [&pair[..], &[&pair[..], b"0123456"].concat(), &[b"0123456789", &pair[..]].concat()]
            {
                let text = json_text(bytes);
                let value: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
                let expected: String = String::from_utf8_lossy(bytes)
                    .chars()
                    .map(|char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char })
                    .collect();
                assert_eq!(value, expected, "{bytes:?}");
                assert!(!text.contains(char::is_control), "{bytes:?}");
            }
        }
    }
}
