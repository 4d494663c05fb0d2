//! Collects times in histograms.

use std::time::Duration;

use hdrhistogram::Histogram;

/// A distribution of times between 64 ns and one hour. A longer time counts as one hour. The relative error
/// is at most 0.1 % ([exact](Self::exact)) or at most 1 % ([coarse](Self::coarse)).
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Times {
    /// Returns an empty distribution with a relative error of at most 0.1 %.
    pub fn exact() -> Self {
        Self::with_digits(3)
    }

    /// Returns an empty distribution with a relative error of at most 1 %. Such a distribution needs an
    /// eighth of the memory of an [exact](Self::exact) distribution.
    pub fn coarse() -> Self {
        Self::with_digits(2)
    }

    fn with_digits(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST, LONGEST, digits);
        Self(histogram.expect("the bounds are in order"))
    }

    /// Records `time`.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the times of another distribution.
    ///
    /// # Panics
    /// Panics if the other distribution is less exact than this distribution.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both histograms have the same bounds");
    }

    /// Adds the times of `other` that are longer than `bound`. Returns the shortest added time, or `None`
    /// if no time is longer than `bound`.
    pub(crate) fn add_above(&mut self, bound: Duration, other: &Self) -> Option<Duration> {
        let mut shortest = None;
        for step in other.0.iter_recorded() {
            let value = step.value_iterated_to();
            if Duration::from_nanos(value) > bound {
                shortest = shortest.or(Some(Duration::from_nanos(value)));
                self.0.saturating_record_n(value, step.count_at_value());
            }
        }
        shortest
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time at the given percentile, from 0 to 100. Returns 0 if no time was recorded.
    pub fn percentile(&self, percentile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percentile))
    }

    /// Returns the shortest time, or 0 if no time was recorded.
    pub fn min(&self) -> Duration {
        if self.0.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.0.min()) }
    }

    /// Returns the longest time, or 0 if no time was recorded.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// Returns the mean of all times.
    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.0.mean() / 1e9)
    }

    /// Returns the standard deviation of all times.
    pub fn deviation(&self) -> Duration {
        Duration::from_secs_f64(self.0.stdev() / 1e9)
    }

    /// Returns the number of times in each class: the upper limit of the class, and the number. The limits are 1, 2 or
    /// 5 times a power of ten. The first and the last class have times.
    pub(crate) fn by_class(&self) -> Vec<(Duration, u64)> {
        let mut classes: Vec<(Duration, u64)> = Vec::new();
        let mut limits = (2..13).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
        let mut limit = limits.next().unwrap_or(u64::MAX);
        for step in self.0.iter_recorded() {
            while step.value_iterated_to() > limit {
                limit = limits.next().unwrap_or(u64::MAX);
                if !classes.is_empty() {
                    classes.push((Duration::from_nanos(limit), 0));
                }
            }
            if classes.is_empty() {
                classes.push((Duration::from_nanos(limit), 0));
            }
            if let Some((_, count)) = classes.last_mut() {
                *count += step.count_at_value();
            }
        }
        classes
    }

    /// Removes all times.
    pub fn clear(&mut self) {
        self.0.reset();
    }
}

const SHORTEST: u64 = 64;
const LONGEST: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_round_limits_and_no_gaps() {
        let mut times = Times::coarse();
        assert!(times.by_class().is_empty());
        for time in [150, 180, 900] {
            times.record(Duration::from_micros(time));
        }
        times.record(Duration::from_hours(2));
        let classes = times.by_class();
        let micros = |place: usize| (classes[place].0.as_micros(), classes[place].1);
        assert_eq!((micros(0), micros(1), micros(2), micros(3)), ((200, 2), (500, 0), (1000, 1), (2000, 0)));
        assert_eq!(classes.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(classes.last().unwrap().1, 1);
    }
}
