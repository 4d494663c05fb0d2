//! The part of a report that describes a distribution of times.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::{self, rounded, significant};
use crate::cut_off::CutOff;
use crate::times::Times;

/// A distribution of times. All times are in microseconds, and their relative error is at most 0.1 %.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TimesReport {
    /// Number of measured times.
    pub count: u64,
    /// The shortest time.
    pub min_us: f64,
    /// The mean of the times.
    pub mean_us: f64,
    /// The standard deviation of the times.
    pub deviation_us: f64,
    /// Median: half of the times are at most this long.
    pub p50_us: f64,
    /// 75th percentile: 75 % of the times are at most this long.
    pub p75_us: f64,
    /// 90th percentile: 90 % of the times are at most this long.
    pub p90_us: f64,
    /// 95th percentile: 95 % of the times are at most this long.
    #[serde(default)]
    pub p95_us: f64,
    /// 98th percentile: 98 % of the times are at most this long.
    #[serde(default)]
    pub p98_us: f64,
    /// 99th percentile: 99 % of the times are at most this long.
    pub p99_us: f64,
    /// 99.9th percentile: 99.9 % of the times are at most this long.
    pub p99_9_us: f64,
    /// 99.99th percentile: 99.99 % of the times are at most this long.
    pub p99_99_us: f64,
    /// The longest time.
    pub max_us: f64,
    /// Times from this value on, in microseconds, are lower bounds. These times include the waiting times
    /// of requests that a closed loop cut off at its end. Absent if such requests do not change the result.
    #[serde(default)]
    pub at_least_from_us: Option<f64>,
    /// Points of the whole distribution, for plots. High percentiles have more points than low percentiles.
    pub curve: Vec<Point>,
}

/// A point of a distribution.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Percentile, from 0 to 100.
    pub percentile: f64,
    /// Time at this percentile, in microseconds.
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

    /// Creates the report of the times that include requests that were cut off.
    pub(super) fn with_cut_off(cut_off: &CutOff) -> Self {
        Self { at_least_from_us: Some(microseconds(cut_off.at_least_from)), ..Self::of(&cut_off.times) }
    }

    /// Formats one of the times of this report. Marks a lower bound with `≥`. Returns a dash if no time was
    /// measured.
    pub(super) fn format_time(&self, time: f64) -> String {
        if self.count == 0 {
            return figures::NONE.to_owned();
        }
        let is_bound = self.at_least_from_us.is_some_and(|from| time >= from);
        format!("{}{}", if is_bound { "≥ " } else { "" }, figures::time(time))
    }
}

/// Returns points of the distribution: eight points for each halving of the distance to the 100th
/// percentile. The last point is the longest time. Leaves out points beyond the second longest time,
/// because they would all be the same.
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
        .map(|percentile| Point {
            percentile: rounded(percentile, 6),
            time_us: microseconds(times.percentile(percentile)),
        })
        .collect()
}

/// Returns the time in microseconds, with five significant digits. The relative error of a measured time is
/// larger than the rounding error.
#[expect(clippy::cast_precision_loss, reason = "measured times are far below 2^52 nanoseconds")]
pub(super) fn microseconds(time: Duration) -> f64 {
    significant(time.as_nanos() as f64 / 1e3, 5)
}

const PER_HALVING: f64 = 8.0;
const STEPS: u32 = 200;
