//! Output formats of a report.

use schemars::{Schema, schema_for};

use super::contents::Report;
use super::stages::StageReport;
use super::steps::{StepReport, UrlReport};
use super::times::TimesReport;
use super::{html, text};

impl Report {
    /// Returns the JSON Schema of reports.
    pub fn schema() -> Schema {
        schema_for!(Report)
    }

    /// Formats the report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Formats the report as a plain-text table.
    pub fn to_text(&self) -> String {
        text::report(self)
    }

    /// Formats the report as Markdown.
    pub fn to_markdown(&self) -> String {
        text::markdown(self)
    }

    /// Formats the report as CSV: a line of column names and a line of values.
    pub fn to_csv(&self) -> String {
        to_csv([self].into_iter())
    }

    /// Formats the report as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        html::page(&self.target, std::slice::from_ref(self), None)
    }
}

/// Formats reports as CSV (RFC 4180): a line of column names, then one line per report, and one line for each
/// part of a report, such as a stage. The columns `scope` and `name` describe the part.
pub(crate) fn to_csv<'a>(reports: impl Iterator<Item = &'a Report>) -> String {
    let mut csv = String::new();
    for (place, report) in reports.enumerate() {
        let columns = columns(report);
        if place == 0 {
            line(&mut csv, columns.iter().map(|(name, _)| (*name).to_owned()));
        }
        let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        line(&mut csv, columns.into_iter().map(|(_, value)| value));
        let stages = report.stages.iter().map(|stage| columns_of_stage(report, stage));
        let steps = report.steps.iter().map(|step| columns_of_step(report, step));
        let urls = report.urls.iter().map(|url| columns_of_url(report, url));
        for values in stages.chain(steps).chain(urls) {
            let value = |name: &&str| values.iter().find(|(known, _)| known == name);
            line(
                &mut csv,
                names.iter().map(|name| value(name).map_or_else(String::new, |(_, value)| value.clone())),
            );
        }
    }
    csv
}

/// The columns with their meanings. Most columns contain the value of a member of the JSON report.
pub(super) const CSV_COLUMNS: [(&str, &str); 40] = [
    ("format", "`format`"),
    ("target", "`target`"),
    ("pace", "`settings.pace`"),
    ("connections", "`settings.connections`, or the number of active connections at the end of the stage"),
    ("workers", "`settings.workers`"),
    ("pipeline", "`settings.pipeline`"),
    ("http_version", "`settings.http_version`"),
    ("elapsed_seconds", "`elapsed_seconds`, or the planned duration of the stage"),
    ("offered_requests_per_second", "`offered_requests_per_second`"),
    ("achieved_requests_per_second", "`achieved_requests_per_second`"),
    ("answered", "`requests.answered`"),
    ("failed", "`requests.failed`"),
    ("sent_bytes", "`bytes.sent_bytes`"),
    ("received_bytes", "`bytes.received_bytes`"),
    ("connections_opened", "`connections.opened`"),
    ("handshakes_full", "`handshakes.full`"),
    ("handshakes_resumed", "`handshakes.resumed`"),
    ("handshakes_per_second", "`handshakes.handshakes_per_second`"),
    ("response_mean_us", "`response_time.mean_us`"),
    ("response_p50_us", "`response_time.p50_us`"),
    ("response_p90_us", "`response_time.p90_us`"),
    ("response_p99_us", "`response_time.p99_us`"),
    ("response_p99_9_us", "`response_time.p99_9_us`"),
    ("response_max_us", "`response_time.max_us`"),
    ("service_p50_us", "`service_time.p50_us`"),
    ("service_p99_us", "`service_time.p99_us`"),
    ("generator_cpu_us_per_request", "`generator.cpu_us_per_request`"),
    ("server_cpu_us_per_request", "`server.cpu_us_per_request`"),
    ("server_resident_max_bytes", "`server.resident_max_bytes`"),
    ("due_requests_per_second", "`due_requests_per_second`"),
    ("cut_off", "`requests.cut_off`"),
    ("response_at_least_from_us", "`response_time.at_least_from_us`"),
    (
        "scope",
        "`load` for a whole load, `stage` for a stage, `step` for a step of a scenario, `url` for a URL of a scenario",
    ),
    ("name", "number of the stage, name of the step, or method and URL; empty for a whole load"),
    ("offered_iterations_per_second", "`iterations.offered_iterations_per_second`"),
    ("achieved_iterations_per_second", "`iterations.achieved_iterations_per_second`"),
    ("iterations_completed", "`iterations.completed`"),
    ("iterations_failed", "`iterations.failed`"),
    ("thresholds_violated", "`thresholds[].condition` of the violated conditions, separated by semicolons"),
    ("warnings", "`warnings`, separated by semicolons"),
];

/// Returns the names and values of the columns, in the order of [`CSV_COLUMNS`].
fn columns(report: &Report) -> Vec<(&'static str, String)> {
    let response = &report.response_time;
    let server = report.server.as_ref();
    let handshakes = report.handshakes.as_ref();
    let violated = report.thresholds.iter().filter(|threshold| threshold.is_violated);
    let violated = violated.map(|threshold| threshold.condition.as_str());
    let iterations = report.iterations.as_ref();
    vec![
        ("format", report.format.clone()),
        ("target", report.target.clone()),
        ("pace", report.settings.pace.clone()),
        ("connections", report.settings.connections.to_string()),
        ("workers", report.settings.workers.to_string()),
        ("pipeline", report.settings.pipeline.to_string()),
        ("http_version", report.settings.http_version.clone().unwrap_or_default()),
        ("elapsed_seconds", report.elapsed_seconds.to_string()),
        ("offered_requests_per_second", optional(report.offered_requests_per_second)),
        ("achieved_requests_per_second", report.achieved_requests_per_second.to_string()),
        ("answered", report.requests.answered.to_string()),
        ("failed", report.requests.failed.to_string()),
        ("sent_bytes", report.bytes.sent_bytes.to_string()),
        ("received_bytes", report.bytes.received_bytes.to_string()),
        ("connections_opened", report.connections.opened.to_string()),
        ("handshakes_full", counted(handshakes.map(|found| found.full))),
        ("handshakes_resumed", counted(handshakes.map(|found| found.resumed))),
        ("handshakes_per_second", optional(handshakes.map(|handshakes| handshakes.handshakes_per_second))),
        ("response_mean_us", response.mean_us.to_string()),
        ("response_p50_us", response.p50_us.to_string()),
        ("response_p90_us", response.p90_us.to_string()),
        ("response_p99_us", response.p99_us.to_string()),
        ("response_p99_9_us", response.p99_9_us.to_string()),
        ("response_max_us", response.max_us.to_string()),
        ("service_p50_us", report.service_time.p50_us.to_string()),
        ("service_p99_us", report.service_time.p99_us.to_string()),
        ("generator_cpu_us_per_request", optional(report.generator.cpu_us_per_request)),
        ("server_cpu_us_per_request", optional(server.and_then(|server| server.cpu_us_per_request))),
        ("server_resident_max_bytes", counted(server.map(|server| server.resident_max_bytes))),
        ("due_requests_per_second", optional(report.due_requests_per_second)),
        ("cut_off", report.requests.cut_off.to_string()),
        ("response_at_least_from_us", optional(response.at_least_from_us)),
        ("scope", "load".to_owned()),
        ("name", String::new()),
        (
            "offered_iterations_per_second",
            optional(iterations.and_then(|found| found.offered_iterations_per_second)),
        ),
        (
            "achieved_iterations_per_second",
            optional(iterations.map(|found| found.achieved_iterations_per_second)),
        ),
        ("iterations_completed", counted(iterations.map(|found| found.completed))),
        ("iterations_failed", counted(iterations.map(|found| found.failed))),
        ("thresholds_violated", violated.collect::<Vec<_>>().join("; ")),
        ("warnings", report.warnings.join("; ")),
    ]
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn counted(value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns the columns of a part of a report: how many requests it had, and their times.
fn columns_of_part(
    report: &Report,
    (scope, name): (&str, String),
    (answered, failed): (u64, u64),
    times: &TimesReport,
) -> Vec<(&'static str, String)> {
    vec![
        ("format", report.format.clone()),
        ("target", report.target.clone()),
        ("scope", scope.to_owned()),
        ("name", name),
        ("answered", answered.to_string()),
        ("failed", failed.to_string()),
        ("response_mean_us", times.mean_us.to_string()),
        ("response_p50_us", times.p50_us.to_string()),
        ("response_p90_us", times.p90_us.to_string()),
        ("response_p99_us", times.p99_us.to_string()),
        ("response_p99_9_us", times.p99_9_us.to_string()),
        ("response_max_us", times.max_us.to_string()),
    ]
}

fn columns_of_stage(report: &Report, stage: &StageReport) -> Vec<(&'static str, String)> {
    let part = ("stage", stage.number.to_string());
    let mut columns = columns_of_part(report, part, (stage.answered, stage.failed), &stage.response_time);
    columns.extend([
        ("elapsed_seconds", stage.duration_seconds.to_string()),
        ("offered_requests_per_second", optional(stage.offered_requests_per_second)),
        ("achieved_requests_per_second", stage.achieved_requests_per_second.to_string()),
        ("connections", counted(stage.to_connections)),
    ]);
    if let Some(iterations) = &stage.iterations {
        columns.extend([
            ("offered_iterations_per_second", optional(iterations.offered_iterations_per_second)),
            ("achieved_iterations_per_second", iterations.achieved_iterations_per_second.to_string()),
            ("iterations_completed", iterations.completed.to_string()),
            ("iterations_failed", iterations.failed.to_string()),
        ]);
    }
    columns
}

fn columns_of_url(report: &Report, url: &UrlReport) -> Vec<(&'static str, String)> {
    let part = ("url", url.url.clone());
    let mut columns = columns_of_part(report, part, (url.answered, url.failed), &url.response_time);
    columns.push(("achieved_requests_per_second", url.achieved_requests_per_second.to_string()));
    columns
}

fn columns_of_step(report: &Report, step: &StepReport) -> Vec<(&'static str, String)> {
    let part = ("step", step.name.clone());
    let mut columns = columns_of_part(report, part, (step.answered, step.failed), &step.response_time);
    columns.push(("achieved_requests_per_second", step.achieved_requests_per_second.to_string()));
    columns
}

fn line(csv: &mut String, values: impl Iterator<Item = String>) {
    let values: Vec<_> = values.map(|value| quoted(&value)).collect();
    csv.push_str(&values.join(","));
    csv.push_str("\r\n");
}

/// Quotes a CSV value if RFC 4180 requires it.
pub fn quoted(value: &str) -> String {
    if value.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn csv_values_are_quoted_if_needed() {
        assert_eq!(super::quoted("a b"), "a b");
        assert_eq!(super::quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
