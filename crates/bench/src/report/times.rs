//! A distribution of times, as far as a report tells it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures;
use crate::cut_off::CutOff;
use crate::times::Times;

/// A distribution of times, all in microseconds and exact to a thousandth.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TimesReport {
    /// Number of measured times.
    pub count: u64,
    /// The shortest.
    pub min_us: f64,
    /// Their mean.
    pub mean_us: f64,
    /// Their standard deviation.
    pub deviation_us: f64,
    /// Half of them were not longer.
    pub p50_us: f64,
    /// 75 of 100.
    pub p75_us: f64,
    /// 90 of 100.
    pub p90_us: f64,
    /// 95 of 100.
    #[serde(default)]
    pub p95_us: f64,
    /// 98 of 100.
    #[serde(default)]
    pub p98_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p99_9_us: f64,
    /// 9999 of 10,000.
    pub p99_99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Times from this one on, in microseconds, are lower bounds: they include requests that a closed loop cut
    /// off at its end, with their waiting time. Absent if such requests do not matter.
    #[serde(default)]
    pub at_least_from_us: Option<f64>,
    /// The whole distribution, for plots; closer together towards the end.
    pub curve: Vec<Point>,
}

/// A point of a distribution.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Percentile, of 100.
    pub percentile: f64,
    /// Than so many microseconds.
    pub time_us: f64,
}

impl TimesReport {
    pub(super) fn of(times: &Times) -> Self {
        let at = |percentile| microseconds(times.percentile(percentile));
        Self {
            count: times.count(),
            min_us: microseconds(times.min()),
            mean_us: microseconds(times.mean()),
            deviation_us: microseconds(times.deviation()),
            p50_us: at(50.0),
            p75_us: at(75.0),
            p90_us: at(90.0),
            p95_us: at(95.0),
            p98_us: at(98.0),
            p99_us: at(99.0),
            p99_9_us: at(99.9),
            p99_99_us: at(99.99),
            max_us: microseconds(times.max()),
            at_least_from_us: None,
            curve: curve(times),
        }
    }

    /// Adds the requests that were cut off.
    pub(super) fn with_cut_off(cut_off: &CutOff) -> Self {
        Self { at_least_from_us: Some(microseconds(cut_off.at_least_from)), ..Self::of(&cut_off.times) }
    }

    /// Formats one of these times: a lower bound is marked, and a dash stands for no measurement.
    pub(super) fn told(&self, time: f64) -> String {
        if self.count == 0 {
            return figures::NONE.to_owned();
        }
        let is_bound = self.at_least_from_us.is_some_and(|from| time >= from);
        format!("{}{}", if is_bound { "≥ " } else { "" }, figures::time(time))
    }
}

/// Ten points for each halving of what is left, as far as there are measurements to tell them apart.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn curve(times: &Times) -> Vec<Point> {
    if times.count() == 0 {
        return Vec::new();
    }
    let points = (0..STEPS).map(|step| 100.0 * (1.0 - (-f64::from(step) / PER_HALVING).exp2()));
    let beyond = 100.0 * (1.0 - 1.0 / times.count() as f64);
    points
        .take_while(|percentile| *percentile <= beyond)
        .chain([100.0])
        .map(|percentile| Point { percentile, time_us: microseconds(times.percentile(percentile)) })
        .collect()
}

pub(super) const fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

const PER_HALVING: f64 = 8.0;
const STEPS: u32 = 200;
