//! The outcomes of conditions, such as `p99 > 20ms`.

use std::fmt::{self, Display, Formatter};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::{rate, time};

/// A condition of `--fail-if`, with the measured value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdReport {
    /// The condition, such as `stage 2: p99 > 20ms`.
    pub condition: String,
    /// The metric of the condition, such as `p99`.
    pub metric: String,
    /// The measured value in the unit `unit`. Absent if there was nothing to measure: no request got a response,
    /// or the load ended before the stage of the condition.
    pub value: Option<f64>,
    /// The value in the condition, in the unit `unit`.
    pub limit: f64,
    /// Unit of `value` and `limit`: `us` (microseconds), `percent`, `requests` or `requests_per_second`.
    pub unit: ThresholdUnit,
    /// `true` if the condition is true, or if its value was not measured. Then the command fails with exit code 3.
    pub is_violated: bool,
}

/// Unit of the value of a condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdUnit {
    /// Microseconds.
    Us,
    /// Percent of the requests.
    Percent,
    /// Number of requests.
    Requests,
    /// Requests per second.
    RequestsPerSecond,
}

/// Describes the measured value, such as `p99 is 31.2 ms`.
impl Display for ThresholdReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let metric = &self.metric;
        match (self.value, self.unit) {
            (None, _) => write!(f, "{metric} was not measured"),
            (Some(value), ThresholdUnit::Us) => write!(f, "{metric} is {}", time(value)),
            (Some(value), ThresholdUnit::Percent) => write!(f, "{metric} is {value}%"),
            (Some(value), ThresholdUnit::Requests) => write!(f, "{metric} is {value}"),
            (Some(value), ThresholdUnit::RequestsPerSecond) => {
                write!(f, "{metric} is {} requests/s", rate(value))
            }
        }
    }
}

/// Returns a row for each condition: its text, and the outcome with the measured value.
pub(super) fn rows(thresholds: &[ThresholdReport]) -> Vec<[String; 2]> {
    let row = |threshold: &ThresholdReport| {
        let outcome = if threshold.is_violated { "violated" } else { "not violated" };
        [threshold.condition.clone(), format!("{outcome}: {threshold}")]
    };
    thresholds.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_value_has_its_unit() {
        let of = |value, unit| {
            let (condition, metric) = ("p99 > 1ms".to_owned(), "it".to_owned());
            ThresholdReport { condition, metric, value, limit: 1000.0, unit, is_violated: true }
        };
        for (value, unit, text) in [
            (Some(31_234.0), ThresholdUnit::Us, "it is 31.2 ms"),
            (Some(0.3), ThresholdUnit::Percent, "it is 0.3%"),
            (Some(3.0), ThresholdUnit::Requests, "it is 3"),
            (Some(1234.5), ThresholdUnit::RequestsPerSecond, "it is 1,234 requests/s"),
            (None, ThresholdUnit::Us, "it was not measured"),
        ] {
            let threshold = of(value, unit);
            assert_eq!(threshold.to_string(), text);
            let row = ["p99 > 1ms".to_owned(), format!("violated: {text}")];
            assert_eq!(rows(&[threshold]), [row]);
        }
    }
}
