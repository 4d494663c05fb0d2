//! Median, spread and pairwise ratios; no sample is thrown away.

use serde::Serialize;

/// Median and spread of some values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// How many values there were.
    pub(super) n: usize,
}

impl Summary {
    /// Summarises `values`; nothing for no values, or when one of them is not a number.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, min: sorted[0], max: sorted[sorted.len() - 1], n: sorted.len() })
    }

    /// Summarises the ratios of `pairs`, first to second: each is taken within its pair, so that what slowed both
    /// runs down cancels out.
    pub(super) fn of_ratios(pairs: &[(f64, f64)]) -> Option<Self> {
        let ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
        Self::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_value() {
        let summary = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(summary, Summary { median: 2.0, min: 1.0, max: 3.0, n: 3 });
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_values() {
        assert_eq!(
            Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap(),
            Summary { median: 2.5, min: 1.0, max: 4.0, n: 4 }
        );
    }

    #[test]
    fn nothing_comes_of_nothing_or_of_no_number() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of_ratios(&[(0.0, 0.0)]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_pair() {
        // The machine was ten times slower during the second pair.
        let summary = Summary::of_ratios(&[(2.0, 4.0), (20.0, 40.0), (3.0, 4.0)]).unwrap();
        assert_eq!(summary, Summary { median: 0.5, min: 0.5, max: 0.75, n: 3 });
    }
}
