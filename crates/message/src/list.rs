//! Comma-separated lists in field values (RFC 9110 §5.6.1).

use crate::token::trim_whitespace;

/// Returns the members of the comma-separated list `value`, without the whitespace around each member. Skips
/// empty members. A comma inside a quoted string is not a separator (RFC 9110 §5.6.1 and §5.6.4).
///
/// ```
/// use thruway_message::list::members;
///
/// let found: Vec<_> = members(b"gzip, \"a,b\", ,br").collect();
/// assert_eq!(found, [&b"gzip"[..], b"\"a,b\"", b"br"]);
/// ```
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let here = rest?;
        let end = member_end(here);
        rest = here.get(end + 1..);
        Some(trim_whitespace(&here[..end]))
    })
    .filter(|member| !member.is_empty())
}

/// Returns `true` if the list `value` has the member `token`, ignoring case.
pub fn contains_token(value: &[u8], token: &str) -> bool {
    members(value).any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
}

fn member_end(bytes: &[u8]) -> usize {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return i,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn list(value: &str) -> Vec<&str> {
        members(value.as_bytes()).map(|member| core::str::from_utf8(member).unwrap()).collect()
    }

    #[test]
    fn list_members_are_trimmed_and_empty_ones_skipped() {
        assert_eq!(list("close, ,\tkeep-alive ,,"), ["close", "keep-alive"]);
        assert!(list("").is_empty());
        assert!(list(" , ").is_empty());
    }

    #[test]
    fn comma_in_a_quoted_string_does_not_separate() {
        assert_eq!(list(r#"a;b="x,\",y", c"#), [r#"a;b="x,\",y""#, "c"]);
    }

    #[test]
    fn token_search_ignores_case() {
        assert!(contains_token(b"Keep-Alive, UPGRADE", "upgrade"));
        assert!(!contains_token(b"upgrades", "upgrade"));
    }
}
