//! The results of each stage of a load.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::{NONE, count, rate, rounded, seconds_of, three_digits};
use super::times::TimesReport;
use crate::record::Record;
use crate::stage_records::{StageRecord, StageRecords};
use crate::stages::{Ramp, StageUnit, Stages};

/// Results of one stage of a load. A request belongs to the stage of its scheduled start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StageReport {
    /// Number of the stage, counted from 1. Stages without a duration have no report.
    pub number: u64,
    /// Start of the stage, in seconds since the load began.
    pub at_seconds: f64,
    /// Planned duration of the stage in seconds.
    pub duration_seconds: f64,
    /// Scheduled number of requests per second at the start of the stage. Absent in a closed loop, and if the load has
    /// a scenario: see `iterations`.
    #[serde(default)]
    pub from_requests_per_second: Option<f64>,
    /// Scheduled number of requests per second at the end of the stage. Absent in a closed loop, and if the load has a
    /// scenario.
    #[serde(default)]
    pub to_requests_per_second: Option<f64>,
    /// Number of active connections at the start of the stage. Absent in an open loop. With a scenario, this is the
    /// number of active users.
    #[serde(default)]
    pub from_connections: Option<u64>,
    /// Number of active connections at the end of the stage. Absent in an open loop. With a scenario, this is the
    /// number of active users.
    #[serde(default)]
    pub to_connections: Option<u64>,
    /// Average scheduled number of requests per second. Absent in a closed loop, and if the load has a scenario.
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
    /// Iterations of the scenario. An iteration belongs to the stage of its scheduled start. Absent if the load has
    /// no scenario.
    #[serde(default)]
    pub iterations: Option<StageIterationsReport>,
}

/// Iterations of a scenario in one stage.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StageIterationsReport {
    /// Scheduled number of iterations per second at the start of the stage. Absent in a closed loop.
    #[serde(default)]
    pub from_iterations_per_second: Option<f64>,
    /// Scheduled number of iterations per second at the end of the stage. Absent in a closed loop.
    #[serde(default)]
    pub to_iterations_per_second: Option<f64>,
    /// Average scheduled number of iterations per second. Absent in a closed loop.
    #[serde(default)]
    pub offered_iterations_per_second: Option<f64>,
    /// Number of completed iterations per second.
    pub achieved_iterations_per_second: f64,
    /// Number of iterations in which all requests got the expected response.
    pub completed: u64,
    /// Number of iterations that ended with a failed request.
    pub failed: u64,
}

impl StageIterationsReport {
    fn of(ramp: &Ramp, record: &StageRecord, is_open: bool) -> Self {
        Self {
            from_iterations_per_second: is_open.then_some(ramp.from),
            to_iterations_per_second: is_open.then_some(ramp.to),
            offered_iterations_per_second: is_open.then(|| rounded(f64::midpoint(ramp.from, ramp.to), 3)),
            achieved_iterations_per_second: rounded(record.achieved_requests_per_second(ramp.duration), 3),
            completed: record.answered,
            failed: record.failed,
        }
    }
}

impl StageReport {
    /// Returns the reports of all stages that have started.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of connections")]
    pub(super) fn all(stages: &Arc<Stages>, record: &Record, elapsed_seconds: f64) -> Vec<Self> {
        let Some(records) = &record.stages else { return Vec::new() };
        let by_rate = stages.unit() == StageUnit::RequestsPerSecond;
        let iterations = record.scenario.as_ref().and_then(|scenario| scenario.iterations_by_stage.as_ref());
        let iterations = iterations.map_or(&[][..], StageRecords::records);
        let is_open = by_rate && iterations.is_empty();
        let all = stages.ramps().iter().zip(records.records()).zip(0..);
        let all = all
            .filter(|((ramp, _), _)| !ramp.duration.is_zero() && ramp.start.as_secs_f64() < elapsed_seconds);
        all.map(|((ramp, record), index)| Self {
            number: index as u64 + 1,
            at_seconds: seconds_of(ramp.start),
            duration_seconds: seconds_of(ramp.duration),
            from_requests_per_second: is_open.then_some(ramp.from),
            to_requests_per_second: is_open.then_some(ramp.to),
            from_connections: (!by_rate).then_some(ramp.from as u64),
            to_connections: (!by_rate).then_some(ramp.to as u64),
            offered_requests_per_second: is_open.then(|| rounded(f64::midpoint(ramp.from, ramp.to), 3)),
            achieved_requests_per_second: rounded(record.achieved_requests_per_second(ramp.duration), 3),
            answered: record.answered,
            failed: record.failed,
            response_time: TimesReport::of(&record.response),
            iterations: iterations.get(index).map(|record| StageIterationsReport::of(ramp, record, by_rate)),
        })
        .collect()
    }

    fn target(&self) -> String {
        let of_requests = (self.from_requests_per_second, self.to_requests_per_second, "requests/s");
        let rates = self.iterations.as_ref().map_or(of_requests, |iterations| {
            (iterations.from_iterations_per_second, iterations.to_iterations_per_second, "iterations/s")
        });
        match rates {
            (Some(from), Some(to), unit) if (from - to).abs() > 0.0 => {
                format!("{} → {} {unit}", rate(from), rate(to))
            }
            (Some(_), Some(to), unit) => format!("{} {unit}", rate(to)),
            _ => {
                let [from, to] = [self.from_connections, self.to_connections].map(Option::unwrap_or_default);
                let from = if from == to { String::new() } else { format!("{} → ", count(from)) };
                let unit = if self.iterations.is_some() { "users" } else { "conn." };
                format!("{from}{} {unit}", count(to))
            }
        }
    }
}

/// Returns the table of the stages, with its heading: one row per stage, or nothing without stages.
pub(super) fn table(stages: &[StageReport]) -> Vec<Vec<String>> {
    if stages.is_empty() {
        return Vec::new();
    }
    let has_iterations = stages.iter().any(|stage| stage.iterations.is_some());
    let iterations = |text: &str| has_iterations.then(|| text.to_owned());
    let heads = ["stage", "time", "target"].map(str::to_owned).into_iter().chain(iterations("iterations"));
    let others = ["requests", "failed", "p50", "p99", "max"].map(str::to_owned);
    let mut rows = vec![heads.chain(others).collect::<Vec<_>>()];
    rows.extend(stages.iter().map(|stage| {
        let times = &stage.response_time;
        let achieved = stage.iterations.as_ref().map_or_else(
            || NONE.to_owned(),
            |iterations| format!("{}/s", rate(iterations.achieved_iterations_per_second)),
        );
        let first =
            [stage.number.to_string(), format!("{} s", three_digits(stage.duration_seconds)), stage.target()];
        let last = [
            format!("{}/s", rate(stage.achieved_requests_per_second)),
            count(stage.failed),
            times.format_time(times.p50_us),
            times.format_time(times.p99_us),
            times.format_time(times.max_us),
        ];
        first.into_iter().chain(iterations(&achieved)).chain(last).collect()
    }));
    rows
}
