//! Medians, ratios within pairs, and how sure one can be of them; no sample is thrown away.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Median and spread of some values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The middle one, or between the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many there were.
    pub n: usize,
}

/// A ratio, or another figure of pairs, and between which it lies with 95 % of certainty.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The median of the ratios.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Summary {
    /// Summarises `values`; nothing for no values, or when one of them is not a number.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self { median: middle(&sorted), min: sorted[0], max: sorted[sorted.len() - 1], n: sorted.len() })
    }

    /// Summarises the ratios of `pairs`, first to second: each is taken within its pair, so that what slowed both
    /// runs down cancels out.
    pub fn of_ratios(pairs: &[(f64, f64)]) -> Option<Self> {
        Self::of(&ratios(pairs))
    }
}

impl Ratio {
    /// The ratio of `pairs`, first to second, with its bootstrap interval: the ratios are drawn again, with repetition, a few thousand
    /// times, and the interval is where 95 % of the medians were. Nothing for no pairs, or where a ratio is no number.
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        let ratios = ratios(pairs);
        let median = Summary::of(&ratios).filter(|summary| summary.max.is_finite())?.median;
        Some(Self::around(median, |random| median_of_drawn(&ratios, random)))
    }

    /// The same of the differences within `pairs`, first less second.
    pub fn of_differences(pairs: &[(f64, f64)]) -> Option<Self> {
        let differences: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours - theirs).collect();
        let median = Summary::of(&differences)?.median;
        Some(Self::around(median, |random| median_of_drawn(&differences, random)))
    }

    /// The ratio of the medians of values that belong to no pairs, as those of another day.
    pub fn of_medians(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let median = Summary::of(ours)?.median / Summary::of(theirs)?.median;
        let drawn =
            |random: &mut fastrand::Rng| median_of_drawn(ours, random) / median_of_drawn(theirs, random);
        median.is_finite().then(|| Self::around(median, drawn))
    }

    fn around(median: f64, mut draw: impl FnMut(&mut fastrand::Rng) -> f64) -> Self {
        // The same samples give the same interval.
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut random)).collect();
        medians.sort_by(f64::total_cmp);
        Self { median, low: medians[RESAMPLES / 40], high: medians[RESAMPLES - 1 - RESAMPLES / 40] }
    }

    /// Whether the interval says that there is no difference, or does not know.
    pub fn holds_one(self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }
}

fn ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(ours, theirs)| ours / theirs).collect()
}

fn middle(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

fn median_of_drawn(values: &[f64], random: &mut fastrand::Rng) -> f64 {
    let mut drawn: Vec<f64> = (0..values.len()).map(|_| values[random.usize(..values.len())]).collect();
    drawn.sort_by(f64::total_cmp);
    middle(&drawn)
}

const RESAMPLES: usize = 4000;
const SEED: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let odd = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(odd, Summary { median: 2.0, min: 1.0, max: 3.0, n: 3 });
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).map(|summary| summary.median), Some(2.5));
    }

    #[test]
    fn nothing_comes_of_nothing_or_of_no_number() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of_ratios(&[(0.0, 0.0)]), None);
        assert_eq!(Ratio::of_pairs(&[]), None);
        assert_eq!(Ratio::of_pairs(&[(1.0, 0.0)]), None);
        assert_eq!(Ratio::of_medians(&[1.0], &[0.0]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_pair() {
        // The machine was ten times slower during the second pair.
        let pairs = [(2.0, 4.0), (20.0, 40.0), (3.0, 4.0)];
        let summary = Summary::of_ratios(&pairs).unwrap();
        assert_eq!(summary, Summary { median: 0.5, min: 0.5, max: 0.75, n: 3 });
        let ratio = Ratio::of_pairs(&pairs).unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high), (0.5, 0.5, 0.75));
    }

    /// Of a hundred experiments with a true ratio of 1.1 and noise of 10 %, the interval holds it in about 95.
    #[test]
    fn the_interval_holds_the_true_ratio_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut noise = || 0.9 + 0.2 * (random.f64() + random.f64()) / 2.0;
        let mut held = 0;
        for _ in 0..100 {
            let pairs: Vec<_> = (0..15).map(|_| (1.1 * noise(), noise())).collect();
            let ratio = Ratio::of_pairs(&pairs).unwrap();
            held += i32::from(ratio.low <= 1.1 && 1.1 <= ratio.high);
        }
        assert!((85..=100).contains(&held), "{held}");
    }
}
