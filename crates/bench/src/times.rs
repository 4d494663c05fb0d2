//! Distributions of times.

use std::time::Duration;

use hdrhistogram::Histogram;

/// A distribution of times between 64 ns and an hour, exact to a thousandth. Longer ones are counted as an
/// hour.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Times {
    /// Exact to a thousandth.
    pub fn exact() -> Self {
        Self::with_digits(3)
    }

    /// Exact to a hundredth: an eighth of the memory.
    pub fn coarse() -> Self {
        Self::with_digits(2)
    }

    fn with_digits(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST, LONGEST, digits);
        Self(histogram.expect("the bounds are in order"))
    }

    /// Counts `time`.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds what another has counted.
    ///
    /// # Panics
    /// The other is not as exact as this one.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Adds those that another has counted and that are above `bound`; the shortest of them, if there are
    /// any.
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

    /// The time within which `percentile` of 100 were; 0 if none was counted.
    pub fn percentile(&self, percentile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percentile))
    }

    /// The shortest; 0 if none was counted.
    pub fn min(&self) -> Duration {
        if self.0.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.0.min()) }
    }

    /// The longest; 0 if none was counted.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// Their mean.
    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.0.mean() / 1e9)
    }

    /// Their standard deviation.
    pub fn deviation(&self) -> Duration {
        Duration::from_secs_f64(self.0.stdev() / 1e9)
    }

    /// Whatever was counted is forgotten.
    pub fn clear(&mut self) {
        self.0.reset();
    }
}

const SHORTEST: u64 = 64;
const LONGEST: u64 = 3_600_000_000_000;
