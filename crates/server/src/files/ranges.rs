//! Range requests (RFC 9110 §14). Determines the bytes to send from the value of `Range` and the length of
//! the representation.

use std::fmt;

use thruway_message::list::members;

/// A range of bytes. It includes the bytes at the positions `first` and `last`, so it has at least one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ByteRange {
    pub(super) first: u64,
    pub(super) last: u64,
}

/// The bytes to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Selection {
    /// All bytes. `Range` is ignored.
    Whole,
    /// One range of bytes.
    Single(ByteRange),
    /// Several ranges of bytes that do not overlap, in the requested order.
    Several(Vec<ByteRange>),
    /// No bytes. The response is 416.
    Unsatisfiable,
}

/// Returns the bytes that a `Range` header with the value `value` selects from a representation of `length`
/// bytes (RFC 9110 §14.2).
///
/// Ignores the header if it has invalid syntax, another unit than `bytes`, or more than [`RANGES_MAX`]
/// ranges. Merges overlapping ranges (§15.3.7.2), so that no byte is sent twice.
pub(super) fn select(value: &[u8], length: u64) -> Selection {
    let Some(specs) = parse(value) else { return Selection::Whole };
    let mut ranges = Vec::new();
    for spec in specs {
        match spec {
            // A request for the last bytes of an empty file is valid, but `Content-Range` cannot express an
            // empty range. So the response contains the whole empty file.
            RangeSpec::Suffix { length: 1.. } if length == 0 => return Selection::Whole,
            spec => ranges.extend(spec.of(length)),
        }
    }
    match coalesce(&mut ranges) {
        [] => Selection::Unsatisfiable,
        [only] => Selection::Single(*only),
        _ => Selection::Several(ranges),
    }
}

/// A `range-spec` of the unit `bytes` (RFC 9110 §14.1.2).
#[derive(Clone, Copy)]
enum RangeSpec {
    Int { first: u64, last: u64 },
    Suffix { length: u64 },
}

/// Parses a `ranges-specifier` with the unit `bytes`. `None` if it is invalid or has too many ranges.
fn parse(value: &[u8]) -> Option<Vec<RangeSpec>> {
    let equals = value.iter().position(|byte| *byte == b'=')?;
    let (unit, set) = (&value[..equals], &value[equals + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let specs: Option<Vec<_>> = members(set).take(RANGES_MAX + 1).map(RangeSpec::parse).collect();
    specs.filter(|specs| (1..=RANGES_MAX).contains(&specs.len()))
}

impl RangeSpec {
    fn parse(spec: &[u8]) -> Option<Self> {
        let dash = spec.iter().position(|byte| *byte == b'-')?;
        match (&spec[..dash], &spec[dash + 1..]) {
            (b"", length) => Some(Self::Suffix { length: parse_position(length)? }),
            (first, b"") => Some(Self::Int { first: parse_position(first)?, last: u64::MAX }),
            (first, last) => {
                let (first, last) = (parse_position(first)?, parse_position(last)?);
                (first <= last).then_some(Self::Int { first, last })
            }
        }
    }

    /// Returns the selected range of a representation of `length` bytes. `None` if no byte is selected.
    fn of(self, length: u64) -> Option<ByteRange> {
        let end = length.checked_sub(1)?;
        match self {
            Self::Int { first, last } => (first <= end).then_some(ByteRange { first, last: last.min(end) }),
            Self::Suffix { length: 0 } => None,
            Self::Suffix { length: suffix } => {
                Some(ByteRange { first: length.saturating_sub(suffix), last: end })
            }
        }
    }
}

/// Parses a decimal number, `1*DIGIT`. For a number that is too large for `u64`, returns the maximum, which
/// is larger than the size of any file.
fn parse_position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, append))
}

/// Merges overlapping ranges (RFC 9110 §15.3.7.2). In the list, the merged range has the position of the
/// first range that it replaces.
fn coalesce(ranges: &mut Vec<ByteRange>) -> &[ByteRange] {
    let mut i = 0;
    while i < ranges.len() {
        match (i + 1..ranges.len()).find(|other| ranges[i].overlaps(ranges[*other])) {
            // Stays at `i`, because the merged range may overlap further ranges.
            Some(other) => ranges[i] = ranges[i].with(ranges.remove(other)),
            None => i += 1,
        }
    }
    ranges
}

impl ByteRange {
    /// Returns the number of bytes.
    pub(super) const fn length(self) -> u64 {
        self.last - self.first + 1
    }

    const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// Writes the range in the form that `Content-Range` requires (RFC 9110 §14.4).
impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Maximum number of ranges in a request. The limit is needed because each range, however small, costs a
/// header section and a read. Document viewers request a few dozen ranges.
const RANGES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(value: &str, length: u64) -> String {
        match select(value.as_bytes(), length) {
            Selection::Whole => "whole".to_owned(),
            Selection::Single(range) => range.to_string(),
            Selection::Several(ranges) => {
                ranges.iter().map(ByteRange::to_string).collect::<Vec<_>>().join(" ")
            }
            Selection::Unsatisfiable => "unsatisfiable".to_owned(),
        }
    }

    #[test]
    fn single_range_is_parsed_and_clamped_to_file_length() {
        for (value, expected) in [
            ("bytes=0-0", "0-0"),
            ("bytes=0-499", "0-499"),
            ("bytes=500-", "500-999"),
            ("bytes=999-", "999-999"),
            ("bytes=0-", "0-999"),
            ("bytes=900-5000", "900-999"),
            ("bytes=-1", "999-999"),
            ("bytes=-500", "500-999"),
            ("bytes=-1000", "0-999"),
            ("bytes=-99999999999999999999999999", "0-999"),
            ("bytes=5-99999999999999999999999999", "5-999"),
            ("bytes=00000000000000000000005-07", "5-7"),
            ("BYTES=1-2", "1-2"),
            ("bytes= 1-2 ", "1-2"),
            ("bytes=,,1-2,", "1-2"),
        ] {
            assert_eq!(selection(value, 1000), expected, "{value}");
        }
    }

    #[test]
    fn malformed_ranges_and_other_units_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=2-1",
            "bytes=1-2x",
            "bytes=1 -2",
            "bytes =1-2",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=1-2;3-4",
            "bytes=0-1,x",
            "bytes=5-6,3-2",
            "bytes:1-2",
            "items=0-1",
            "bytes=0x1-2",
            "bytes=1-2,\"3-4\"",
            "bytes=99999999999999999999999999-1",
        ] {
            assert_eq!(selection(value, 1000), "whole", "{value}");
        }
    }

    #[test]
    fn ranges_that_select_no_bytes_are_unsatisfiable() {
        for (value, length) in [
            ("bytes=1000-", 1000),
            ("bytes=1000-1001", 1000),
            ("bytes=99999999999999999999999999-", 1000),
            ("bytes=-0", 1000),
            ("bytes=1000-,-0,5000-6000", 1000),
            ("bytes=0-", 0),
            ("bytes=0-0", 0),
            ("bytes=-0", 0),
        ] {
            assert_eq!(selection(value, length), "unsatisfiable", "{value} of {length}");
        }
        assert_eq!(selection("bytes=-5", 0), "whole", "a suffix range of an empty file is the whole file");
    }

    #[test]
    fn several_ranges_keep_order_and_drop_unsatisfiable_ones() {
        for (value, expected) in [
            ("bytes=0-1,4-5", "0-1 4-5"),
            ("bytes=500-600, 0-1 ,\t-1", "500-600 0-1 999-999"),
            ("bytes=0-4,5-9", "0-4 5-9"),
            ("bytes=0-1,2000-3000", "0-1"),
            ("bytes=0-1,-0,4-5", "0-1 4-5"),
        ] {
            assert_eq!(selection(value, 1000), expected, "{value}");
        }
    }

    #[test]
    fn overlapping_ranges_are_merged() {
        for (value, expected) in [
            ("bytes=0-4,4-9", "0-9"),
            ("bytes=0-,0-,0-,0-", "0-999"),
            ("bytes=0-9,20-29,5-24", "0-29"),
            ("bytes=20-29,0-9,5-24", "0-29"),
            ("bytes=50-60,0-9,20-29,5-24", "50-60 0-29"),
            ("bytes=0-0,-1,0-0", "0-0 999-999"),
        ] {
            assert_eq!(selection(value, 1000), expected, "{value}");
        }
    }

    #[test]
    fn more_than_64_ranges_are_ignored() {
        let set = |count: u64| (0..count).map(|i| format!("{0}-{0}", i * 2)).collect::<Vec<_>>().join(",");
        let Selection::Several(ranges) = select(format!("bytes={}", set(64)).as_bytes(), 1000) else {
            panic!("64 ranges should be accepted");
        };
        assert_eq!(ranges.len(), 64);
        assert_eq!(selection(&format!("bytes={}", set(65)), 1000), "whole");
    }

    #[test]
    fn range_positions_near_u64_max_do_not_overflow() {
        assert_eq!(selection("bytes=0-18446744073709551615", u64::MAX), "0-18446744073709551614");
        assert_eq!(selection("bytes=-18446744073709551615", u64::MAX), "0-18446744073709551614");
        assert_eq!(selection("bytes=18446744073709551615-", u64::MAX), "unsatisfiable");
    }
}
