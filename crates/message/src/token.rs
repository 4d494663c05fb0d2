//! Character classes of RFC 9110 §5.5 and §5.6.

/// Returns `true` if `byte` is a `tchar` (RFC 9110 §5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    CLASSES[byte as usize] & TOKEN != 0
}

/// Returns `true` if `bytes` is a `token`: one or more `tchar` (RFC 9110 §5.6.2).
pub const fn is_token(bytes: &[u8]) -> bool {
    all_in_class(bytes, TOKEN) && !bytes.is_empty()
}

/// Returns `true` if `byte` is allowed in a field value: a visible character, a space, a tab, or a byte of at
/// least 0x80 (`obs-text` in RFC 9110 §5.5).
pub const fn is_field_value_byte(byte: u8) -> bool {
    CLASSES[byte as usize] & FIELD_VALUE != 0
}

/// Returns `true` if `bytes` is a valid field value. A field value contains no control characters except
/// tab, and it neither begins nor ends with whitespace (RFC 9110 §5.5).
pub const fn is_field_value(bytes: &[u8]) -> bool {
    if let ([first, ..], [.., last]) = (bytes, bytes)
        && (is_whitespace(*first) || is_whitespace(*last))
    {
        return false;
    }
    all_in_class(bytes, FIELD_VALUE)
}

/// Returns `true` if `byte` is optional whitespace, `OWS` (RFC 9110 §5.6.3).
pub const fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns `bytes` without the whitespace at both ends.
pub const fn trim_whitespace(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_whitespace(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_whitespace(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Returns `true` if the token `bytes` equals `lower_case`, ignoring case. `lower_case` must contain only
/// letters and dashes. The length of `lower_case` is known at compile time, so the comparison reads whole
/// machine words.
#[inline]
pub fn is_in_any_case<const N: usize>(bytes: &[u8], lower_case: &[u8; N]) -> bool {
    let Ok(bytes) = <&[u8; N]>::try_from(bytes) else {
        return false;
    };
    let difference = bytes.iter().zip(lower_case).fold(0, |all, (byte, lower)| all | ((byte | 0x20) ^ lower));
    difference == 0
}

const fn all_in_class(bytes: &[u8], class: u8) -> bool {
    let mut i = 0;
    while i < bytes.len() {
        if CLASSES[bytes[i] as usize] & class == 0 {
            return false;
        }
        i += 1;
    }
    true
}

const TOKEN: u8 = 1;
const FIELD_VALUE: u8 = 2;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "`byte` is less than 256")]
        let c = byte as u8;
        if c.is_ascii_alphanumeric() || contains(b"!#$%&'*+-.^_`|~", c) {
            table[byte] |= TOKEN;
        }
        if c == b'\t' || (c >= b' ' && c != 0x7f) {
            table[byte] |= FIELD_VALUE;
        }
        byte += 1;
    }
    table
}

const fn contains(set: &[u8], byte: u8) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == byte {
            return true;
        }
        i += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_bytes_match_the_grammar() {
        let others: usize = (0..=255).filter(|byte| is_token_byte(*byte)).count();
        assert_eq!(others, 26 + 26 + 10 + 15);
        assert!(is_token(b"Content-Length") && is_token(b"!#$%&'*+-.^_`|~"));
        assert!(!is_token(b"") && !is_token(b"a b") && !is_token(b"a:") && !is_token("é".as_bytes()));
    }

    #[test]
    fn field_values_have_no_control_bytes_and_no_outer_whitespace() {
        assert!(is_field_value(b"") && is_field_value(b"a\tb c") && is_field_value("é".as_bytes()));
        for bad in [&b" a"[..], b"a ", b"a\r", b"a\nb", b"\0", b"a\x7fb", b"\t", b" "] {
            assert!(!is_field_value(bad), "{bad:?}");
        }
    }

    #[test]
    fn comparison_ignores_case() {
        assert!(is_in_any_case(b"Content-Length", b"content-length") && is_in_any_case(b"HOST", b"host"));
        assert!(!is_in_any_case(b"hos", b"host") && !is_in_any_case(b"hosts", b"host"));
        for place in 0..10 {
            for other in (0..=255).filter(|byte| is_token_byte(*byte)) {
                let mut word = *b"connection";
                word[place] = other;
                assert_eq!(is_in_any_case(&word, b"connection"), word.eq_ignore_ascii_case(b"connection"));
            }
        }
    }

    #[test]
    fn trim_removes_only_spaces_and_tabs() {
        assert_eq!(trim_whitespace(b" \ta b\t "), b"a b");
        assert_eq!(trim_whitespace(b" \t "), b"");
        assert_eq!(trim_whitespace(b"\ra"), b"\ra");
    }
}
