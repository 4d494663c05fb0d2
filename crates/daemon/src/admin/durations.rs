//! Percentiles of durations, estimated from the buckets of a histogram.

use std::time::Duration;

use thruway_gateway::{RequestDurations, RouteMeter};

/// Number of durations in each bucket of [`RouteMeter::BOUNDS`].
pub(super) type Buckets = [u64; RouteMeter::BOUNDS.len() + 1];

/// Returns the sum of the buckets of all `durations`.
pub(super) fn sum_of_buckets<'d, K: 'd>(
    durations: impl IntoIterator<Item = &'d RequestDurations<K>>,
) -> Buckets {
    let mut sum = Buckets::default();
    for durations in durations {
        add(&mut sum, &durations.buckets);
    }
    sum
}

/// Adds the counts in `other` to `sum`.
pub(super) fn add(sum: &mut Buckets, other: &Buckets) {
    for (sum, count) in sum.iter_mut().zip(other) {
        *sum += count;
    }
}

/// Returns the duration that `per_mille` of all durations do not exceed. `bounds` contains the upper bounds of
/// the buckets. Interpolates between the bounds of a bucket. In the last bucket, which has no upper bound, returns
/// its lower bound. Returns `None` if the histogram is empty.
pub(super) fn percentile(buckets: &[u64], bounds: &[Duration], per_mille: u64) -> Option<Duration> {
    let total: u64 = buckets.iter().sum();
    let rank = (total * per_mille).div_ceil(1_000).max(1);
    let mut below = 0;
    for (place, count) in buckets.iter().enumerate() {
        if below + count >= rank && *count > 0 {
            let lower = place.checked_sub(1).map_or(Duration::ZERO, |place| bounds[place]);
            let upper = bounds.get(place).copied().unwrap_or(lower);
            return Some(interpolate(lower, upper, rank - below, *count));
        }
        below += count;
    }
    None
}

/// Returns the estimated duration of the entry `rank` of the `count` entries between `lower` and `upper`.
fn interpolate(lower: Duration, upper: Duration, rank: u64, count: u64) -> Duration {
    let nanoseconds = upper.saturating_sub(lower).as_nanos() * u128::from(rank) / u128::from(count);
    lower + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(buckets: &Buckets, per_mille: u64) -> Option<Duration> {
        super::percentile(buckets, &RouteMeter::BOUNDS, per_mille)
    }

    fn buckets(counts: &[(usize, u64)]) -> Buckets {
        let mut buckets = Buckets::default();
        for (place, count) in counts {
            buckets[*place] = *count;
        }
        buckets
    }

    #[test]
    fn percentiles_interpolate_between_the_bounds_of_a_bucket() {
        let all_in_one = buckets(&[(4, 100)]);
        assert_eq!(percentile(&all_in_one, 500), Some(Duration::from_micros(3_750)));
        assert_eq!(percentile(&all_in_one, 1_000), Some(Duration::from_millis(5)));
        let mixed = buckets(&[(0, 98), (8, 2)]);
        assert_eq!(percentile(&mixed, 500), Some(Duration::from_nanos(250_000 * 50 / 98)));
        assert_eq!(percentile(&mixed, 990), Some(Duration::from_millis(75)));
    }

    #[test]
    fn percentile_of_an_empty_histogram_is_unknown() {
        assert_eq!(percentile(&Buckets::default(), 500), None);
    }

    #[test]
    fn percentile_in_the_last_bucket_is_its_lower_bound() {
        assert_eq!(percentile(&buckets(&[(15, 1)]), 990), Some(Duration::from_secs(10)));
    }
}
