//! Computes medians, ratios of paired values, and their confidence intervals. Every value counts: outliers
//! are not removed.
//!
//! The confidence intervals are valid for any distribution. Both ends of an interval are measured values.
//! The true median lies between these two values with a known probability. With few values, the confidence
//! level of an interval is too low for a verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::{rounded, significant};

/// Median and range of a set of values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The number of values.
    pub n: usize,
}

/// A median of ratios, differences or other values, with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The median of the ratios.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// Probability that the interval contains the true value. This probability is at least 0.95 with six or
    /// more pairs, and lower with fewer pairs. The probability is 0 if the values come from separate runs,
    /// because the machine may have changed between the runs.
    #[serde(default)]
    pub coverage: f64,
}

impl Summary {
    /// Summarizes `values`. Returns `None` if there are no values, or if a value is not a number.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self { median: middle(&sorted), min: sorted[0], max: sorted[sorted.len() - 1], n: sorted.len() })
    }

    /// Summarizes the ratios of `pairs`. Each ratio divides the first value of a pair by the second value,
    /// so that a slowdown of both measurements cancels out.
    pub fn of_ratios(pairs: &[(f64, f64)]) -> Option<Self> {
        Self::of(&ratios(pairs))
    }
}

impl Ratio {
    /// Returns the median of the ratios of `pairs` (first value divided by second value). Returns `None` if
    /// there are no pairs, or if a ratio is not a finite number.
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        Self::around_median(ratios(pairs))
    }

    /// Returns the median of the differences of `pairs` (first value minus second value), with its
    /// confidence interval.
    pub fn of_differences(pairs: &[(f64, f64)]) -> Option<Self> {
        Self::around_median(pairs.iter().map(|(ours, theirs)| ours - theirs).collect())
    }

    /// Returns the ratio of unpaired values, for example of measurements on two different days. This ratio
    /// is the median of the ratios of all combinations of the two sets. The confidence interval follows
    /// from the Mann-Whitney test.
    pub fn of_unpaired(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let each = ours.iter().flat_map(|ours| theirs.iter().map(move |theirs| ours / theirs));
        Self::between(each.collect(), left_out_of_unpaired(ours.len(), theirs.len()))
    }

    /// Returns the ratio of the values of one run to the values of another run: the median of the ratios of
    /// all combinations. The interval contains all these ratios, and is wider by an allowance for drift.
    /// The spread of a run is its largest value divided by its smallest value. The allowance for drift is
    /// the larger spread of the two runs, because a change of the machine may shift a whole run by as much.
    ///
    /// The coverage of the interval is 0, because the values of one run do not show how much two runs
    /// differ. Between two runs, the temperature of the machine and its other programs may change. Only
    /// pairs of values from the same run cancel such changes.
    pub fn of_separate_runs(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let each = ours.iter().flat_map(|ours| theirs.iter().map(move |theirs| ours / theirs));
        let all = Self::between(each.collect(), (0, 0.0))?;
        let spread = |values: &[f64]| Summary::of(values).map(|summary| summary.max / summary.min);
        let drift = spread(ours)?.max(spread(theirs)?);
        let widened = Self { low: all.low / drift, high: all.high * drift, ..all };
        widened.high.is_finite().then_some(widened)
    }

    /// Returns the median of `values`, with an interval from the smallest to the largest value.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let coverage = left_out_of(values.len(), 0.0).1;
        Self::between(values.to_vec(), (0, coverage))
    }

    fn around_median(values: Vec<f64>) -> Option<Self> {
        let left_out = left_out_of(values.len(), 1.0 - CERTAINTY);
        Self::between(values, left_out)
    }

    /// Returns the median of `values` with an interval. The interval omits the `left_out` smallest and the
    /// `left_out` largest values. `coverage` is the confidence level of this interval.
    fn between(mut values: Vec<f64>, (left_out, coverage): (usize, f64)) -> Option<Self> {
        let Summary { median, n, .. } = Summary::of(&values).filter(|summary| summary.max.is_finite())?;
        values.sort_by(f64::total_cmp);
        Some(Self { median, low: values[left_out], high: values[n - 1 - left_out], coverage })
    }

    /// Returns this ratio with six significant digits, for JSON.
    #[must_use]
    pub(crate) fn rounded(self) -> Self {
        let [median, low, high] = [self.median, self.low, self.high].map(|value| significant(value, 6));
        Self { median, low, high, coverage: rounded(self.coverage, 6) }
    }

    /// Returns `true` if the interval contains 1.
    pub fn contains_one(self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }

    /// Returns `true` if the confidence level is high enough for a verdict: at least [`CERTAINTY`].
    pub fn has_enough_values(self) -> bool {
        self.coverage >= CERTAINTY
    }

    /// Returns the confidence level in percent, rounded down: `95 %`.
    pub fn certainty(self) -> String {
        format!("{:.0} %", (self.coverage * 100.0).floor())
    }
}

/// Returns the confidence level of [`Ratio::of_unpaired`] for two sets with these numbers of values.
pub fn coverage_of_unpaired(ours: usize, theirs: usize) -> f64 {
    left_out_of_unpaired(ours, theirs).1
}

/// Computes a confidence interval of the median of `n` values. Returns the number of values to leave out at
/// each end, and the confidence level. If `n` is large enough, the interval misses the true median with a
/// probability of at most `outside`.
///
/// Each value is below the true median with a probability of 1/2, as in a coin toss. So the true median is
/// below the `k`th smallest value if fewer than `k` of `n` tosses show heads.
#[expect(clippy::cast_precision_loss, reason = "values are few")]
fn left_out_of(n: usize, outside: f64) -> (usize, f64) {
    let mut heads = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut beyond = heads;
    let mut left_out = 0;
    while 2 * (left_out + 1) < n {
        heads *= (n - left_out) as f64 / (left_out + 1) as f64;
        if 2.0 * (beyond + heads) > outside {
            break;
        }
        beyond += heads;
        left_out += 1;
    }
    (left_out, (1.0 - 2.0 * beyond).max(0.0))
}

/// Computes a confidence interval of the median ratio of two unpaired sets with `m` and `n` values. Returns
/// the number of ratios to leave out at each end, and the confidence level. Uses the distribution of the
/// Mann-Whitney statistic U.
fn left_out_of_unpaired(m: usize, n: usize) -> (usize, f64) {
    if m * n > EXACT_MAX {
        return left_out_of_many(m, n);
    }
    let orders = orders_by_u(m, n);
    let all: f64 = orders.iter().sum();
    let (mut left_out, mut beyond) = (0, orders[0]);
    while 2 * (left_out + 1) < m * n && 2.0 * (beyond + orders[left_out + 1]) / all <= 1.0 - CERTAINTY {
        left_out += 1;
        beyond += orders[left_out];
    }
    (left_out, (1.0 - 2.0 * beyond / all).max(0.0))
}

/// Returns the distribution of the Mann-Whitney statistic U for two sets of `m` and `n` values. The entry
/// at index `u` is the number of possible orders of all values that give U = `u`.
///
/// These numbers are the coefficients of a polynomial in `q`: the product of `(1 - q^(n + i)) / (1 - q^i)`
/// for all `i` from 1 to `m`.
fn orders_by_u(m: usize, n: usize) -> Vec<f64> {
    let mut counts = vec![0.0; m * n + 1];
    counts[0] = 1.0;
    for i in 1..=m {
        for power in (n + i..counts.len()).rev() {
            counts[power] -= counts[power - n - i];
        }
        for power in i..counts.len() {
            counts[power] += counts[power - i];
        }
    }
    counts
}

/// Approximates the result of [`left_out_of_unpaired`] for many values, where U is almost normally
/// distributed.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded down"
)]
fn left_out_of_many(m: usize, n: usize) -> (usize, f64) {
    let (m, n) = (m as f64, n as f64);
    let deviation = (m * n * (m + n + 1.0) / 12.0).sqrt();
    ((m * n / 2.0 - NORMAL_95 * deviation - 1.0).max(0.0) as usize, CERTAINTY)
}

fn ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(ours, theirs)| ours / theirs).collect()
}

fn middle(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// Minimum confidence level of a verdict.
pub const CERTAINTY: f64 = 0.95;

/// In a normal distribution, 95 % of the values are at most this many standard deviations away from the
/// mean.
const NORMAL_95: f64 = 1.96;

/// Maximum value of `m * n` for the exact distribution of U. With more values, the numbers in this
/// distribution are too large for an exact `f64`.
const EXACT_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_median_minimum_and_maximum() {
        let odd = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(odd, Summary { median: 2.0, min: 1.0, max: 3.0, n: 3 });
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).map(|summary| summary.median), Some(2.5));
    }

    #[test]
    fn missing_or_undefined_values_give_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of_ratios(&[(0.0, 0.0)]), None);
        assert_eq!(Ratio::of_pairs(&[]), None);
        assert_eq!(Ratio::of_pairs(&[(1.0, 0.0)]), None);
        assert_eq!(Ratio::of_unpaired(&[1.0], &[0.0]), None);
        assert_eq!(Ratio::of_unpaired(&[1.0], &[]), None);
    }

    #[test]
    fn ratios_are_calculated_within_each_pair() {
        // The machine was ten times slower during the second pair.
        let pairs = [(2.0, 4.0), (20.0, 40.0), (3.0, 4.0)];
        let summary = Summary::of_ratios(&pairs).unwrap();
        assert_eq!(summary, Summary { median: 0.5, min: 0.5, max: 0.75, n: 3 });
        let ratio = Ratio::of_pairs(&pairs).unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high), (0.5, 0.5, 0.75));
    }

    /// Regression test: the interval of two values was labeled as 95 %, and the interval of one value had no
    /// width.
    #[test]
    fn coverage_grows_with_pairs_and_six_are_enough() {
        let of = |n: usize| Ratio::of_pairs(&vec![(1.0, 2.0); n]).unwrap();
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        for (n, coverage) in [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.96875)] {
            assert!(near(of(n).coverage, coverage), "{n}: {}", of(n).coverage);
            assert_eq!(of(n).has_enough_values(), n >= 6);
        }
        assert_eq!([1, 3, 5, 6].map(|n| of(n).certainty()), ["0 %", "75 %", "93 %", "96 %"]);
        // Values from tables of the sign test.
        for (n, left_out) in [(6, 0), (8, 0), (9, 1), (12, 2), (15, 3), (20, 5), (100, 39)] {
            assert_eq!(left_out_of(n, 0.05).0, left_out, "{n}");
        }
        assert!(left_out_of(1000, 0.05).1 >= CERTAINTY);
    }

    #[test]
    fn unpaired_values_need_four_on_each_side() {
        // Critical values of the Mann-Whitney test.
        for (m, n, left_out) in [(4, 4, 0), (5, 5, 2), (8, 8, 13), (10, 10, 23), (20, 20, 127), (10, 3, 3)] {
            assert_eq!(left_out_of_unpaired(m, n).0, left_out, "{m} and {n}");
            assert!(coverage_of_unpaired(m, n) >= CERTAINTY);
        }
        for (m, n) in [(3, 3), (10, 1), (1, 1), (30, 1)] {
            assert!(coverage_of_unpaired(m, n) < CERTAINTY, "{m} and {n}");
        }
        // The approximation is continuous with the exact values.
        let (counted, approximated) = (left_out_of_unpaired(20, 20).0, left_out_of_many(20, 20).0);
        assert!(counted.abs_diff(approximated) <= 1, "{counted} and {approximated}");
    }

    #[test]
    fn interval_of_separate_runs_includes_the_spread_of_each_run() {
        let ratio = Ratio::of_separate_runs(&[2.0, 2.2], &[1.0, 1.0]).unwrap();
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        assert!(
            near(ratio.median, 2.1) && near(ratio.low, 2.0 / 1.1) && near(ratio.high, 2.2 * 1.1),
            "{ratio:?}"
        );
        assert!(!ratio.has_enough_values());
        for (ours, theirs) in [(&[0.0, 1.0][..], &[1.0][..]), (&[1.0], &[0.0]), (&[], &[1.0])] {
            assert_eq!(Ratio::of_separate_runs(ours, theirs), None);
        }
    }

    /// In a thousand experiments with a true ratio of 1.1, the interval contains it as often as its
    /// confidence level says, with few pairs and with many.
    #[test]
    fn interval_contains_the_true_ratio_at_its_confidence_level() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut noise = || 0.9 + 0.2 * (random.f64() + random.f64()) / 2.0;
        for n in [3, 6, 15] {
            let (mut paired, mut unpaired, mut coverage) = (0, 0, (0.0, 0.0));
            for _ in 0..1000 {
                let pairs: Vec<_> = (0..n).map(|_| (1.1 * noise(), noise())).collect();
                let (ours, theirs): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
                let holds = |ratio: Ratio| i32::from(ratio.low <= 1.1 && 1.1 <= ratio.high);
                let ratios = (Ratio::of_pairs(&pairs).unwrap(), Ratio::of_unpaired(&ours, &theirs).unwrap());
                coverage = (ratios.0.coverage, ratios.1.coverage);
                paired += holds(ratios.0);
                unpaired += holds(ratios.1);
            }
            let [paired, unpaired] = [paired, unpaired].map(|held| f64::from(held) / 1000.0);
            assert!((paired - coverage.0).abs() < 0.03, "{n} pairs: {paired}, not {}", coverage.0);
            assert!((unpaired - coverage.1).abs() < 0.03, "{n} and {n}: {unpaired}, not {}", coverage.1);
        }
    }
}
