//! The progress of a load over time, in a bounded number of parts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::record::Interval;

/// Adds up the intervals of all workers in parts of equal length. If there are too many parts, merges each
/// pair of neighboring parts.
#[derive(Debug)]
pub struct OverTime {
    length: Duration,
    parts: BTreeMap<u64, Interval>,
    /// Number of worker intervals that form one part.
    scale: u64,
    /// Number of intervals that have passed, including intervals without events.
    passed: u64,
}

impl OverTime {
    /// Creates an empty collection for worker intervals of the given length.
    pub const fn new(length: Duration) -> Self {
        Self { length, parts: BTreeMap::new(), scale: 1, passed: 0 }
    }

    /// Adds an interval of a worker.
    pub fn add(&mut self, interval: &Interval) {
        self.passed = self.passed.max(interval.index.saturating_add(1));
        self.put(interval.index / self.scale, interval);
        if self.parts.len() > PARTS_MAX {
            self.scale *= 2;
            for (index, interval) in std::mem::take(&mut self.parts) {
                self.put(index / 2, &interval);
            }
        }
    }

    /// Returns the duration of a part.
    pub fn part_length(&self) -> Duration {
        self.length * u32::try_from(self.scale).unwrap_or(u32::MAX)
    }

    /// Returns the parts that contain events, with their start times.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = (Duration, &Interval)> {
        let length = self.part_length();
        self.parts.iter().map(move |(index, part)| (length * u32::try_from(*index).unwrap_or(u32::MAX), part))
    }

    /// Returns the last part, and the duration that the last part covers so far.
    pub(crate) fn last(&self) -> Option<(Duration, &Interval)> {
        let (index, part) = self.parts.last_key_value()?;
        let known = self.passed.saturating_sub(index * self.scale);
        Some((self.length * u32::try_from(known).unwrap_or(u32::MAX), part))
    }

    fn put(&mut self, index: u64, interval: &Interval) {
        self.parts.entry(index).or_insert_with(|| Interval::new(index)).add(interval);
    }
}

/// 128 parts of 30 KiB each use less than 5 MB.
const PARTS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_intervals_is_bounded_and_no_count_is_lost() {
        let mut over_time = OverTime::new(Duration::from_secs(1));
        for index in 0..1000 {
            for worker in 1..=2 {
                let mut interval = Interval::new(index);
                interval.answered = worker;
                interval.response.record(Duration::from_micros(index + 1));
                over_time.add(&interval);
            }
        }
        let parts: Vec<_> = over_time.parts().collect();
        assert!((PARTS_MAX / 2..=PARTS_MAX).contains(&parts.len()), "{}", parts.len());
        assert_eq!(parts.iter().map(|(_, part)| part.answered).sum::<u64>(), 3000);
        assert_eq!(parts.iter().map(|(_, part)| part.response.count()).sum::<u64>(), 2000);
        assert_eq!(over_time.part_length(), Duration::from_secs(8));
        assert_eq!(parts.last().map(|(at, _)| *at), Some(Duration::from_secs(992)));
    }

    /// Regression test: the count of an unfinished part was divided by the length of a whole part, so the
    /// rate of a long load was too low.
    #[test]
    fn last_interval_is_as_long_as_its_measured_time() {
        let mut over_time = OverTime::new(Duration::from_secs(1));
        assert!(over_time.last().is_none());
        for index in 0..=993 {
            over_time.add(&Interval { answered: 100, ..Interval::new(index) });
        }
        let (known, part) = over_time.last().unwrap();
        assert_eq!((known, part.answered), (Duration::from_secs(2), 200));
    }
}
