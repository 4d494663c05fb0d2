//! Whether an address is in one of many ranges.

use std::net::IpAddr;

use super::AddressRange;

/// Ranges in order, none of which touches another of which it knows.
#[derive(Debug)]
pub(super) struct RangeSet {
    ranges: Vec<(IpAddr, IpAddr)>,
    has_unix: bool,
}

impl RangeSet {
    pub(super) fn new(ranges: Vec<AddressRange>) -> Self {
        let has_unix = ranges.iter().any(|range| range.ends.is_none());
        let mut ranges: Vec<_> = ranges.into_iter().filter_map(|range| range.ends).collect();
        // Of ranges with the same start the longest comes first, and takes in the others.
        ranges.sort_by(|(first, last), (other_first, other_last)| {
            (first, other_last).cmp(&(other_first, last))
        });
        let mut last_of_all = None;
        ranges.retain(|(_, last)| {
            let is_new = last_of_all.is_none_or(|last_of_all| *last > last_of_all);
            last_of_all = last_of_all.max(Some(*last));
            is_new
        });
        Self { ranges, has_unix }
    }

    /// Whether `address`, which is `None` for a Unix socket, is in one of them.
    #[inline]
    pub(super) fn contains(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address else { return self.has_unix };
        let after = self.ranges.partition_point(|(first, _)| *first <= address);
        after.checked_sub(1).is_some_and(|place| address <= self.ranges[place].1)
    }
}
