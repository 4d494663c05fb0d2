//! The header `tracestate` (W3C Trace Context §3.3): a list of vendor-specific entries about a trace.

/// Combines the values of all `tracestate` headers of a request. Returns an empty text if an entry is
/// malformed, because W3C Trace Context §3.3 requires to discard such a list.
///
/// The result has at most 32 entries and 512 bytes. If the list is longer, the function first removes entries
/// of more than 128 bytes, and then entries from the end (§3.3.1.5).
pub fn combine_trace_state<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> String {
    let Some(mut entries) = entries(values) else { return String::new() };
    if combined_length(&entries) > BYTES_MAX {
        entries.retain(|entry| entry.len() <= LARGE_ENTRY_BYTES);
    }
    while combined_length(&entries) > BYTES_MAX {
        entries.pop();
    }
    entries.join(",")
}

/// Returns the entries of all values. `None` if an entry is malformed, if two entries have the same key, or
/// if there are too many entries.
fn entries<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<&'a str>> {
    let mut entries: Vec<&str> = Vec::new();
    for value in values {
        for entry in str::from_utf8(value).ok()?.split(',') {
            let entry = entry.trim_matches([' ', '\t']);
            // The list may have empty entries (§3.3.1.1).
            if entry.is_empty() {
                continue;
            }
            let key = key_of(entry)?;
            let is_repeated = entries.iter().any(|other| key_of(other) == Some(key));
            if is_repeated || entries.len() == ENTRIES_MAX {
                return None;
            }
            entries.push(entry);
        }
    }
    Some(entries)
}

/// Returns the key of an entry. `None` if the entry is malformed.
fn key_of(entry: &str) -> Option<&str> {
    let (key, value) = entry.split_once('=')?;
    (is_key(key.as_bytes()) && is_value(value.as_bytes())).then_some(key)
}

/// Returns `true` for a valid key (§3.3.1.3). The function permits the keys of Level 1 and Level 2.
fn is_key(key: &[u8]) -> bool {
    let is_key_byte =
        |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    key.len() <= PART_BYTES_MAX
        && key.first().is_some_and(|first| matches!(first, b'a'..=b'z' | b'0'..=b'9'))
        && key.iter().all(is_key_byte)
        && !key.split(|byte| *byte == b'@').skip(2).any(|_| true)
}

/// Returns `true` for a valid value (§3.3.1.4): visible characters and spaces, except `,` and `=`.
fn is_value(value: &[u8]) -> bool {
    let is_value_byte = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    (1..=PART_BYTES_MAX).contains(&value.len()) && value.iter().all(is_value_byte)
}

fn combined_length(entries: &[&str]) -> usize {
    entries.iter().map(|entry| entry.len() + 1).sum::<usize>().saturating_sub(1)
}

/// Maximum number of entries (§3.3.1.1).
const ENTRIES_MAX: usize = 32;

/// Maximum length of a key or value, in bytes.
const PART_BYTES_MAX: usize = 256;

/// Number of bytes that all vendors should pass on (§3.3.1.5).
const BYTES_MAX: usize = 512;

/// Entries above this length are removed first (§3.3.1.5).
const LARGE_ENTRY_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(values: &[&str]) -> String {
        combine_trace_state(values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn headers_are_combined_in_their_order() {
        assert_eq!(
            combined(&["rojo=00f067aa0ba902b7", " congo=t61rcWkgMzE , ,t@v=1"]),
            "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE,t@v=1"
        );
        assert_eq!(combined(&[]), "");
        assert_eq!(combined(&["", " , "]), "");
    }

    #[test]
    fn malformed_trace_state_is_discarded() {
        let long = "a".repeat(257);
        let (key, value) = (format!("{long}=1"), format!("a={long}"));
        let many: Vec<_> = (0..33).map(|number| format!("k{number}=1")).collect();
        for text in [
            "a",
            "=1",
            "a=",
            "A=1",
            "a b=1",
            "a =1",
            "-a=1",
            "a@b@c=1",
            "a=1=2",
            "a=1,a=2",
            "a=\u{e9}",
            "a=1\u{7f}",
            &key,
            &value,
            &many.join(","),
        ] {
            assert_eq!(combined(&["ok=1", text]), "", "{text}");
        }
        assert_eq!(combine_trace_state([b"a=\xff".as_slice()]), "");
    }

    #[test]
    fn long_trace_state_loses_large_entries_first() {
        let large = format!("large={}", "x".repeat(200));
        let small: Vec<_> = (0..10).map(|number| format!("k{number}={}", "y".repeat(40))).collect();
        let list = format!("{large},{}", small.join(","));
        assert_eq!(combined(&[&list]), small.join(","));
        let many: Vec<_> = (0..20).map(|number| format!("key{number:02}={}", "y".repeat(40))).collect();
        let kept = combined(&[&many.join(",")]);
        assert!(kept.len() <= BYTES_MAX && many.join(",").starts_with(&kept), "{kept}");
        assert!(kept.len() > BYTES_MAX - 47);
    }

    #[test]
    fn limits_are_inclusive() {
        let thirty_two: Vec<_> = (0..32).map(|number| format!("k{number}=1")).collect();
        assert_eq!(combined(&[&thirty_two.join(",")]), thirty_two.join(","));
        let longest = format!("{}={}", "a".repeat(255), "b".repeat(256));
        assert_eq!(combined(&[&longest]), longest);
    }
}
