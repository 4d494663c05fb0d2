//! Computes the report from the outcome of a load.

use std::time::Duration;

use super::contents::{
    ByteCounts, Connections, ErrorCount, FORMAT, Generator, Handshakes, Part, Report, RequestCounts,
    ServerCost, Settings, Status,
};
use super::figures::{rounded, seconds_of};
use super::stages::StageReport;
use super::steps::{IterationsReport, StepReport, UrlReport};
use super::text;
use super::times::{TimesReport, microseconds};
use crate::cut_off::CutOff;
use crate::record::Record;
use crate::run::{Load, Outcome};
use crate::schedule::Pace;
use crate::stop::Limit;
use crate::worker::WorkerUse;

impl Report {
    /// Creates the report of a load.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn new(target: impl Into<String>, load: &Load, outcome: &Outcome) -> Self {
        let record = &outcome.record;
        // Leaves out the time in which the load generator only waited for missing responses. Otherwise, the
        // load generator would look less busy than it was.
        let busy = outcome.elapsed.saturating_sub(outcome.silence).max(outcome.window.min(outcome.elapsed));
        let seconds = busy.as_secs_f64().max(f64::MIN_POSITIVE);
        let due = (record.answered + record.failed()) as f64;
        let window = outcome.window.as_secs_f64().max(f64::MIN_POSITIVE);
        let cut_off = CutOff::of(record);
        let bounded = cut_off.as_ref().map(TimesReport::with_cut_off);
        let mut report = Self {
            format: FORMAT.to_owned(),
            target: target.into(),
            environment: None,
            settings: Settings::of(load),
            elapsed_seconds: seconds_of(outcome.elapsed),
            is_interrupted: outcome.is_stopped,
            is_given_up: record.is_given_up,
            is_stalled: cut_off
                .is_some_and(|cut_off| cut_off.is_stall(&record.service, outcome.elapsed, outcome.silence)),
            warnings: Vec::new(),
            offered_requests_per_second: load
                .pace
                .rate()
                .filter(|_| load.requests.scenario().is_none())
                .map(|rate| rounded(rate, 3)),
            due_requests_per_second: load.pace.rate().map(|_| rounded(due / window, 3)),
            achieved_requests_per_second: rounded(record.achieved_requests_per_second(outcome.window), 3),
            requests: RequestCounts {
                answered: record.answered,
                failed: record.failed(),
                cut_off: record.cut_off,
                sent_again: record.sent_again,
                event_streams: record.event_streams,
            },
            statuses: record.statuses().into_iter().map(|(status, count)| Status { status, count }).collect(),
            errors: record
                .failures()
                .map(|(kind, count, example)| ErrorCount { kind, count, example })
                .collect(),
            bytes: ByteCounts {
                sent_bytes: record.sent_bytes,
                received_bytes: record.received_bytes,
                body_bytes: record.content_bytes,
            },
            connections: Connections {
                opened: record.connections_opened,
                streams_max: Some(record.streams_max)
                    .filter(|most| *most < load.connection_options.pipeline as u64),
                missing: outcome.missing.map_or(0, |(missing, _)| missing as u64),
                missing_because: outcome.missing.map(|(_, error)| error.to_string()),
            },
            handshakes: load.tls.as_ref().map(|_| Handshakes::of(record, seconds)),
            service_time: bounded.clone().unwrap_or_else(|| TimesReport::of(&record.service)),
            response_time: bounded.unwrap_or_else(|| TimesReport::of(&record.response)),
            deliveries: outcome.deliveries.as_ref().map(TimesReport::of),
            stages: load
                .pace
                .stages()
                .map(|stages| StageReport::all(stages, record, outcome.elapsed.as_secs_f64()))
                .unwrap_or_default(),
            iterations: IterationsReport::of(load, record.scenario.as_ref(), outcome.window),
            urls: UrlReport::all(load, record.scenario.as_ref(), outcome.window),
            steps: StepReport::all(load, record.scenario.as_ref(), outcome.window),
            thresholds: Vec::new(),
            over_time: parts(outcome),
            generator: Generator::of(outcome, seconds),
            server: ServerCost::of(load, outcome),
            listen_queue: outcome.listen_queue,
        };
        report.warnings = text::warnings(&report);
        report
    }
}

impl Settings {
    /// Returns the settings of a load.
    pub fn of(load: &Load) -> Self {
        let (duration_seconds, requests) = match load.limit {
            Limit::Duration(duration) => (Some(seconds_of(duration)), None),
            Limit::Requests(requests) => (None, Some(requests)),
        };
        let unit = if load.requests.scenario().is_some() { "iterations" } else { "requests" };
        let (pace, seed) = match &load.pace {
            Pace::Closed => ("closed", None),
            Pace::Constant { .. } => ("constant", None),
            Pace::Poisson { seed, .. } => ("poisson", Some(*seed)),
            Pace::Stages { seed, .. } => ("stages", *seed),
        };
        Self {
            pace: pace.to_owned(),
            schedule_unit: Some(unit.to_owned()),
            stages: load.pace.stages().map(ToString::to_string),
            requests_per_second: load.pace.rate().map(|rate| rounded(rate, 3)),
            seed,
            connections: load.connections as u64,
            workers: load.workers as u64,
            http_version: Some(if load.connection_options.is_http2 { "2" } else { "1.1" }.to_owned()),
            pipeline: load.connection_options.pipeline as u64,
            is_persistent: load.connection_options.is_persistent,
            duration_seconds,
            requests,
            warm_up_seconds: seconds_of(load.warm_up),
            timeout_seconds: seconds_of(load.connection_options.timeout),
        }
    }
}

impl Handshakes {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn of(record: &Record, seconds: f64) -> Self {
        let (full, resumed) = (record.handshakes_full, record.handshakes_resumed);
        let handshakes_per_second = rounded((full + resumed) as f64 / seconds, 3);
        Self { full, resumed, handshakes_per_second }
    }
}

/// Returns the CPU time per answered request in microseconds, or `None` if no request was answered.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn per_request(cpu_seconds: f64, answered: u64) -> Option<f64> {
    (answered > 0).then(|| rounded(cpu_seconds * 1e6 / answered as f64, 3))
}

impl Generator {
    fn of(outcome: &Outcome, seconds: f64) -> Self {
        let cpu: Duration = outcome.workers.iter().map(|worker| worker.cpu).sum();
        let cpu_seconds = seconds_of(cpu);
        let most = |used: fn(&WorkerUse) -> Duration| {
            let most = outcome.workers.iter().map(used).max().unwrap_or_default();
            (most.as_secs_f64() / seconds).min(1.0)
        };
        let share = |used| rounded(most(used), 4);
        Self {
            cpu_seconds,
            cpu_us_per_request: per_request(cpu_seconds, outcome.record.answered),
            busiest_worker_share: share(|worker| worker.cpu),
            waiting_worker_share: share(|worker| worker.waited),
            is_limit: most(|worker| worker.cpu + worker.waited) > BUSY,
        }
    }
}

impl ServerCost {
    fn of(load: &Load, outcome: &Outcome) -> Option<Self> {
        let (pid, server) = (load.server?, outcome.server?);
        let cpu_seconds = seconds_of(server.cpu);
        Some(Self {
            pid,
            cpu_seconds,
            is_incomplete: server.is_incomplete,
            cpu_us_per_request: per_request(cpu_seconds, outcome.record.answered),
            resident_before_bytes: server.resident_before_bytes,
            resident_after_bytes: server.resident_after_bytes,
            resident_max_bytes: server.resident_max_bytes,
        })
    }
}

/// Returns the parts of the measured time. The last part may be short, so its rate is computed for at least
/// a quarter of the normal duration.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn parts(outcome: &Outcome) -> Vec<Part> {
    let length = outcome.over_time.part_length();
    let parts = outcome.over_time.parts().filter(|(at, _)| *at < outcome.elapsed);
    parts
        .map(|(at, part)| {
            let seconds = length.min(outcome.elapsed.saturating_sub(at)).max(length / 4).as_secs_f64();
            Part {
                at_seconds: seconds_of(at),
                requests_per_second: rounded(part.answered as f64 / seconds, 3),
                failed: part.failed,
                p50_us: microseconds(part.response.percentile(50.0)),
                p99_us: microseconds(part.response.percentile(99.0)),
                max_us: microseconds(part.response.max()),
            }
        })
        .collect()
}

/// Maximum share of the time in which a thread may use or wait for a CPU core. If a thread exceeds this
/// share, the load generator counts as the bottleneck, because the thread cannot start requests on time.
const BUSY: f64 = 0.95;
