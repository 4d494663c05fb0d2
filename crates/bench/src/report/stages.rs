//! The results of each stage of a load.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::{count, rate, rounded, seconds_of, three_digits};
use super::times::TimesReport;
use crate::record::Record;
use crate::stages::{StageUnit, Stages};

/// Results of one stage of a load. A request belongs to the stage of its scheduled start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StageReport {
    /// Number of the stage, counted from 1. Stages without a duration have no report.
    pub number: u64,
    /// Start of the stage, in seconds since the load began.
    pub at_seconds: f64,
    /// Planned duration of the stage in seconds.
    pub duration_seconds: f64,
    /// Scheduled number of requests per second at the start of the stage. Absent in a closed loop.
    #[serde(default)]
    pub from_requests_per_second: Option<f64>,
    /// Scheduled number of requests per second at the end of the stage. Absent in a closed loop.
    #[serde(default)]
    pub to_requests_per_second: Option<f64>,
    /// Number of active connections at the start of the stage. Absent in an open loop.
    #[serde(default)]
    pub from_connections: Option<u64>,
    /// Number of active connections at the end of the stage. Absent in an open loop.
    #[serde(default)]
    pub to_connections: Option<u64>,
    /// Average scheduled number of requests per second. Absent in a closed loop.
    #[serde(default)]
    pub offered_requests_per_second: Option<f64>,
    /// Rate of requests with the expected response, in requests per second.
    pub achieved_requests_per_second: f64,
    /// Number of requests with the expected response.
    pub answered: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Times from the scheduled start of a request to the end of its response.
    pub response_time: TimesReport,
}

impl StageReport {
    /// Returns the reports of all stages that have started.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of connections")]
    pub(super) fn all(stages: &Arc<Stages>, record: &Record, elapsed_seconds: f64) -> Vec<Self> {
        let Some(records) = &record.stages else { return Vec::new() };
        let is_open = stages.unit() == StageUnit::RequestsPerSecond;
        let all = stages.ramps().iter().zip(records.records()).zip(1..);
        let all = all
            .filter(|((ramp, _), _)| !ramp.duration.is_zero() && ramp.start.as_secs_f64() < elapsed_seconds);
        all.map(|((ramp, record), number)| Self {
            number,
            at_seconds: seconds_of(ramp.start),
            duration_seconds: seconds_of(ramp.duration),
            from_requests_per_second: is_open.then_some(ramp.from),
            to_requests_per_second: is_open.then_some(ramp.to),
            from_connections: (!is_open).then_some(ramp.from as u64),
            to_connections: (!is_open).then_some(ramp.to as u64),
            offered_requests_per_second: is_open.then(|| rounded(f64::midpoint(ramp.from, ramp.to), 3)),
            achieved_requests_per_second: rounded(record.achieved_requests_per_second(ramp.duration), 3),
            answered: record.answered,
            failed: record.failed,
            response_time: TimesReport::of(&record.response),
        })
        .collect()
    }

    fn target(&self) -> String {
        match (self.from_requests_per_second, self.to_requests_per_second) {
            (Some(from), Some(to)) if (from - to).abs() > 0.0 => format!("{} → {}/s", rate(from), rate(to)),
            (Some(_), Some(to)) => format!("{}/s", rate(to)),
            _ => {
                let [from, to] = [self.from_connections, self.to_connections].map(Option::unwrap_or_default);
                let from = if from == to { String::new() } else { format!("{} → ", count(from)) };
                format!("{from}{} conn.", count(to))
            }
        }
    }
}

/// Returns the table of the stages, with its heading: one row per stage, or nothing without stages.
pub(super) fn table(stages: &[StageReport]) -> Vec<Vec<String>> {
    if stages.is_empty() {
        return Vec::new();
    }
    let heads = ["stage", "time", "target", "achieved", "failed", "p50", "p99", "max"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(stages.iter().map(|stage| {
        let times = &stage.response_time;
        vec![
            stage.number.to_string(),
            format!("{} s", three_digits(stage.duration_seconds)),
            stage.target(),
            format!("{}/s", rate(stage.achieved_requests_per_second)),
            count(stage.failed),
            times.format_time(times.p50_us),
            times.format_time(times.p99_us),
            times.format_time(times.max_us),
        ]
    }));
    rows
}
