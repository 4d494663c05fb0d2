//! Entity tags (RFC 9110 §8.8.3).

use std::iter;

use thruway_message::token::trim_whitespace;

/// An entity tag: `entity-tag = [ "W/" ] opaque-tag`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntityTag<'a> {
    is_weak: bool,
    /// The tag with its quotes.
    opaque_tag: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Creates the strong tag `opaque_tag`, which includes its quotes.
    pub(super) const fn strong(opaque_tag: &'a [u8]) -> Self {
        Self { is_weak: false, opaque_tag }
    }

    /// Parses `value`, which must be exactly one tag.
    pub(super) fn parse(value: &'a [u8]) -> Option<Self> {
        match Self::take(value)? {
            (tag, b"") => Some(tag),
            _ => None,
        }
    }

    /// Splits `bytes` into the tag at the start and the remaining bytes. A backslash has no special meaning
    /// in a tag.
    fn take(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (is_weak, tag) = match bytes.strip_prefix(b"W/") {
            Some(tag) => (true, tag),
            None => (false, bytes),
        };
        let etagc = tag.strip_prefix(b"\"")?;
        let length = etagc.iter().position(|byte| !is_etagc(*byte))?;
        if etagc[length] != b'"' {
            return None;
        }
        let (opaque_tag, rest) = tag.split_at(length + 2);
        Some((Self { is_weak, opaque_tag }, rest))
    }

    /// Returns `true` if both tags are strong and equal. This is the strong comparison of RFC 9110 §8.8.3.2.
    pub(super) fn equals_strongly(self, other: Self) -> bool {
        !self.is_weak && !other.is_weak && self.opaque_tag == other.opaque_tag
    }

    /// Returns `true` if the tags are equal. Each of them may be weak or strong. This is the weak comparison
    /// of RFC 9110 §8.8.3.2.
    pub(super) fn equals_weakly(self, other: Self) -> bool {
        self.opaque_tag == other.opaque_tag
    }
}

/// Returns the tags of the list `value`. Skips members that are not valid tags, because they cannot match.
pub(super) fn members(value: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = value;
    iter::from_fn(move || {
        while !rest.is_empty() {
            match EntityTag::take(trim_whitespace(rest)) {
                Some((tag, after)) if matches!(trim_whitespace(after), [] | [b',', ..]) => {
                    rest = after_comma(after);
                    return Some(tag);
                }
                _ => rest = after_comma(rest),
            }
        }
        None
    })
}

fn after_comma(bytes: &[u8]) -> &[u8] {
    bytes.iter().position(|byte| *byte == b',').map_or(&[], |comma| &bytes[comma + 1..])
}

const fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(value: &str) -> Vec<(bool, &str)> {
        members(value.as_bytes()).map(|tag| (tag.is_weak, str::from_utf8(tag.opaque_tag).unwrap())).collect()
    }

    #[test]
    fn entity_tag_list_is_split_at_commas_outside_tags() {
        assert_eq!(
            tags("\"a\", W/\"b,c\" ,,\t\"\"\t, \"x\\\""),
            [(false, "\"a\""), (true, "\"b,c\""), (false, "\"\""), (false, "\"x\\\"")]
        );
        assert_eq!(tags("\"a\\\", \"b\""), [(false, "\"a\\\""), (false, "\"b\"")]);
    }

    #[test]
    fn invalid_entity_tags_are_skipped() {
        assert_eq!(
            tags("a, *, w/\"b\", \"c\" x, \"d e\", \"f, \"g\""),
            [(false, "\"g\"")],
            "the space in `\"f, \"` ends that tag"
        );
        assert!(tags("").is_empty() && tags(" , ").is_empty() && tags("\"").is_empty());
    }

    #[test]
    fn entity_tag_comparison_matches_rfc_9110_table() {
        let tag = |value: &'static str| EntityTag::parse(value.as_bytes()).unwrap();
        for (one, other, strongly, weakly) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            let (one, other) = (tag(one), tag(other));
            assert_eq!((one.equals_strongly(other), one.equals_weakly(other)), (strongly, weakly));
            assert_eq!((other.equals_strongly(one), other.equals_weakly(one)), (strongly, weakly));
        }
        for none in ["", "1", "\"1", "W/1", "\"1\" ", "\"1\",", "W/ \"1\""] {
            assert_eq!(EntityTag::parse(none.as_bytes()), None, "{none}");
        }
    }
}
