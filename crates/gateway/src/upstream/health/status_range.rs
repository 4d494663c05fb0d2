//! Ranges of statuses: `204`, or `200-399`.

use std::fmt;
use std::str::FromStr;

use thruway_server::StatusCode;

/// One status, or a range of statuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// Returns the range from `first` to `last`. The range is empty if `last` is less than `first`.
    pub const fn new(first: u16, last: u16) -> Self {
        Self { first, last }
    }

    /// Returns `true` if all statuses of this range are in `other`.
    pub const fn is_within(self, other: Self) -> bool {
        other.first <= self.first && self.last <= other.last
    }

    /// Returns the number of statuses in the range.
    pub const fn count(self) -> u16 {
        (self.last + 1).saturating_sub(self.first)
    }

    /// Returns `true` if the range includes `status`.
    pub const fn contains(self, status: StatusCode) -> bool {
        self.first <= status.as_u16() && status.as_u16() <= self.last
    }
}

impl FromStr for StatusRange {
    type Err = InvalidStatusRange;

    fn from_str(text: &str) -> Result<Self, InvalidStatusRange> {
        let status = |text: &str| {
            let number = text.parse().ok().filter(|number| (200..=599).contains(number));
            number.ok_or(InvalidStatusRange)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self { first: status(first)?, last: status(last)? };
        if range.first <= range.last { Ok(range) } else { Err(InvalidStatusRange) }
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { self.first.fmt(f) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

/// The error for a text that is neither a status of a final response nor a range of such statuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidStatusRange;

impl fmt::Display for InvalidStatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write statuses as `204` or `200-399`, from 200 to 599")
    }
}

impl std::error::Error for InvalidStatusRange {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_ranges_round_trip_through_text() {
        for text in ["200", "200-399", "500-599"] {
            assert_eq!(text.parse::<StatusRange>().unwrap().to_string(), text);
        }
        for bad in ["", "2xx", "199", "600", "300-200", "200-", "-1", "200-300-400"] {
            assert_eq!(bad.parse::<StatusRange>(), Err(InvalidStatusRange), "{bad}");
        }
    }

    #[test]
    fn status_range_includes_both_ends() {
        let range = StatusRange::new(200, 399);
        let contained = [199, 200, 399, 400].map(|status| range.contains(StatusCode::new(status).unwrap()));
        assert_eq!(contained, [false, true, true, false]);
    }
}
