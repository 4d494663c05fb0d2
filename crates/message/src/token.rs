//! Character classes of RFC 9110 §5.5 and §5.6.

/// Returns `true` if `octet` is a `tchar` (RFC 9110 §5.6.2).
pub const fn is_token_octet(octet: u8) -> bool {
    CLASSES[octet as usize] & TOKEN != 0
}

/// Returns `true` if `octets` are a `token`: one or more `tchar` (RFC 9110 §5.6.2).
pub const fn is_token(octets: &[u8]) -> bool {
    all_in_class(octets, TOKEN) && !octets.is_empty()
}

/// Returns `true` if `octet` is allowed in a field value: visible, obs-text, space or tab (RFC 9110 §5.5).
pub const fn is_field_value_octet(octet: u8) -> bool {
    CLASSES[octet as usize] & FIELD_VALUE != 0
}

/// Returns `true` if `octets` are a field value: no control characters except tab, and no whitespace at
/// either end (RFC 9110 §5.5).
pub const fn is_field_value(octets: &[u8]) -> bool {
    if let ([first, ..], [.., last]) = (octets, octets)
        && (is_whitespace(*first) || is_whitespace(*last))
    {
        return false;
    }
    all_in_class(octets, FIELD_VALUE)
}

/// Returns `true` if `octet` is optional whitespace, `OWS` (RFC 9110 §5.6.3).
pub const fn is_whitespace(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t')
}

/// Returns `octets` without the whitespace at both ends.
pub const fn trim_whitespace(mut octets: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = octets
        && is_whitespace(*first)
    {
        octets = rest;
    }
    while let [rest @ .., last] = octets
        && is_whitespace(*last)
    {
        octets = rest;
    }
    octets
}

/// Returns `true` if the token `octets` equals `lower_case`, in any case. `lower_case` must contain only
/// letters and dashes. Its length is a constant, so the comparison works on whole words.
#[inline]
pub fn is_in_any_case<const N: usize>(octets: &[u8], lower_case: &[u8; N]) -> bool {
    let Ok(octets) = <&[u8; N]>::try_from(octets) else {
        return false;
    };
    let difference =
        octets.iter().zip(lower_case).fold(0, |all, (octet, lower)| all | ((octet | 0x20) ^ lower));
    difference == 0
}

const fn all_in_class(octets: &[u8], class: u8) -> bool {
    let mut i = 0;
    while i < octets.len() {
        if CLASSES[octets[i] as usize] & class == 0 {
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
    let mut octet = 0;
    while octet < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "the loop ends at 256")]
        let c = octet as u8;
        if c.is_ascii_alphanumeric() || contains(b"!#$%&'*+-.^_`|~", c) {
            table[octet] |= TOKEN;
        }
        if c == b'\t' || (c >= b' ' && c != 0x7f) {
            table[octet] |= FIELD_VALUE;
        }
        octet += 1;
    }
    table
}

const fn contains(set: &[u8], octet: u8) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == octet {
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
    fn token_octets_are_those_of_the_grammar() {
        let others: usize = (0..=255).filter(|octet| is_token_octet(*octet)).count();
        assert_eq!(others, 26 + 26 + 10 + 15);
        assert!(is_token(b"Content-Length") && is_token(b"!#$%&'*+-.^_`|~"));
        assert!(!is_token(b"") && !is_token(b"a b") && !is_token(b"a:") && !is_token("é".as_bytes()));
    }

    #[test]
    fn field_values_have_no_controls_and_no_outer_whitespace() {
        assert!(is_field_value(b"") && is_field_value(b"a\tb c") && is_field_value("é".as_bytes()));
        for bad in [&b" a"[..], b"a ", b"a\r", b"a\nb", b"\0", b"a\x7fb", b"\t", b" "] {
            assert!(!is_field_value(bad), "{bad:?}");
        }
    }

    #[test]
    fn words_are_compared_in_any_case() {
        assert!(is_in_any_case(b"Content-Length", b"content-length") && is_in_any_case(b"HOST", b"host"));
        assert!(!is_in_any_case(b"hos", b"host") && !is_in_any_case(b"hosts", b"host"));
        for place in 0..10 {
            for other in (0..=255).filter(|octet| is_token_octet(*octet)) {
                let mut word = *b"connection";
                word[place] = other;
                assert_eq!(is_in_any_case(&word, b"connection"), word.eq_ignore_ascii_case(b"connection"));
            }
        }
    }

    #[test]
    fn trimming_removes_spaces_and_tabs_only() {
        assert_eq!(trim_whitespace(b" \ta b\t "), b"a b");
        assert_eq!(trim_whitespace(b" \t "), b"");
        assert_eq!(trim_whitespace(b"\ra"), b"\ra");
    }
}
