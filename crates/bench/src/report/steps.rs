//! The results of a scenario: of its iterations, and of each step.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::{count, rate, rounded};
use super::times::TimesReport;
use crate::requests::{PartRecord, ScenarioRecord};
use crate::run::Load;

/// Results of one step of a scenario. The times of the first step of an iteration begin at the scheduled start
/// of the iteration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StepReport {
    /// Name of the scenario, or `main` if the file has only one scenario.
    pub scenario: String,
    /// Name of the step.
    pub name: String,
    /// Number of runs of the step with the expected response.
    pub answered: u64,
    /// Number of failed requests. A request also fails if a value to extract is missing.
    pub failed: u64,
    /// Number of redirects that the users have followed.
    #[serde(default)]
    pub redirects: u64,
    /// Description of the first failure. Absent if no request failed.
    #[serde(default)]
    pub example: Option<String>,
    /// Rate of requests with the expected response, in requests per second.
    pub achieved_requests_per_second: f64,
    /// Response times of the step, including its redirects.
    pub response_time: TimesReport,
}

/// Results of all steps with the same method and URL.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UrlReport {
    /// Method and URL as the scenario file writes them, such as `GET /items/{{ id }}`.
    pub url: String,
    /// Number of runs of these steps with the expected response.
    pub answered: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Rate of requests with the expected response, in requests per second. Does not include redirects.
    pub achieved_requests_per_second: f64,
    /// Response times of these steps, including redirects.
    pub response_time: TimesReport,
}

/// Results of the iterations of a scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IterationsReport {
    /// Number of iterations in which all requests got the expected response.
    pub completed: u64,
    /// Number of iterations that ended with a failed request.
    pub failed: u64,
    /// Number of iterations in progress at the end of the load. No other number includes these iterations.
    pub cut_off: u64,
    /// Scheduled number of iterations per second. Absent in a closed loop.
    #[serde(default)]
    pub offered_iterations_per_second: Option<f64>,
    /// Number of completed iterations per second.
    pub achieved_iterations_per_second: f64,
    /// Times from the scheduled start of an iteration to its end, including think time. Only of completed
    /// iterations.
    pub iteration_time: TimesReport,
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn per_second(count: u64, window: Duration) -> f64 {
    rounded(count as f64 / window.as_secs_f64().max(f64::MIN_POSITIVE), 3)
}

impl StepReport {
    /// Returns the reports of all steps. `window` is the time in which iterations were scheduled.
    pub(super) fn all(load: &Load, record: Option<&ScenarioRecord>, window: Duration) -> Vec<Self> {
        let (Some(scenario), Some(record)) = (load.requests.scenario(), record) else { return Vec::new() };
        let steps = scenario.step_names().zip(&record.steps).enumerate();
        let steps = steps.map(|(index, (name, step))| Self {
            scenario: scenario.flow_name(index).to_owned(),
            name: name.to_owned(),
            answered: step.answered,
            failed: step.failed,
            redirects: step.redirects,
            example: step.example.clone(),
            achieved_requests_per_second: per_second(step.answered, window),
            response_time: TimesReport::of(&step.response),
        });
        steps.collect()
    }
}

impl UrlReport {
    /// Returns a report for each method and URL, in the order of the file.
    pub(super) fn all(load: &Load, record: Option<&ScenarioRecord>, window: Duration) -> Vec<Self> {
        let (Some(scenario), Some(record)) = (load.requests.scenario(), record) else { return Vec::new() };
        let mut urls: Vec<(&str, PartRecord)> = Vec::new();
        for (index, step) in record.steps.iter().enumerate() {
            let url = scenario.step_url(index);
            match urls.iter_mut().find(|(known, _)| *known == url) {
                Some((_, sum)) => sum.add(step),
                None => urls.push((url, step.clone())),
            }
        }
        let urls = urls.into_iter().map(|(url, sum)| Self {
            url: url.to_owned(),
            answered: sum.answered,
            failed: sum.failed,
            achieved_requests_per_second: per_second(sum.answered, window),
            response_time: TimesReport::of(&sum.response),
        });
        urls.collect()
    }
}

impl IterationsReport {
    /// Returns the report, or `None` if the load has no scenario.
    pub(super) fn of(load: &Load, record: Option<&ScenarioRecord>, window: Duration) -> Option<Self> {
        let ScenarioRecord { iterations, iterations_cut_off, .. } = record?;
        Some(Self {
            completed: iterations.answered,
            failed: iterations.failed,
            cut_off: *iterations_cut_off,
            offered_iterations_per_second: load.pace.rate().map(|rate| rounded(rate, 3)),
            achieved_iterations_per_second: per_second(iterations.answered, window),
            iteration_time: TimesReport::of(&iterations.response),
        })
    }

    /// Returns the rows of the overview.
    pub(super) fn overview(&self) -> Vec<[String; 2]> {
        let times = &self.iteration_time;
        let achieved = rate(self.achieved_iterations_per_second);
        let offered =
            self.offered_iterations_per_second.map(|offered| format!(" of {} offered", rate(offered)));
        let [p50, p99] = [times.p50_us, times.p99_us].map(|time| times.format_time(time));
        vec![
            [
                "iterations".to_owned(),
                format!(
                    "{} completed, {} failed, {} cut off",
                    count(self.completed),
                    count(self.failed),
                    count(self.cut_off)
                ),
            ],
            ["iteration rate".to_owned(), format!("{achieved} iterations/s{}", offered.unwrap_or_default())],
            ["iteration time".to_owned(), format!("p50 {p50}, p99 {p99}, with think time")],
        ]
    }
}

/// Returns the table of the steps, with its heading: one row per step, or nothing without steps.
pub(super) fn table(steps: &[StepReport]) -> Vec<Vec<String>> {
    if steps.is_empty() {
        return Vec::new();
    }
    let has_one = steps.iter().all(|step| step.scenario == steps[0].scenario);
    let heads = ["step", "requests", "rate", "failed", "p50", "p90", "p99", "max"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(steps.iter().map(|step| {
        let times = &step.response_time;
        let name = if has_one { step.name.clone() } else { format!("{}: {}", step.scenario, step.name) };
        vec![
            name,
            count(step.answered + step.failed),
            format!("{}/s", rate(step.achieved_requests_per_second)),
            count(step.failed),
            times.format_time(times.p50_us),
            times.format_time(times.p90_us),
            times.format_time(times.p99_us),
            times.format_time(times.max_us),
        ]
    }));
    rows
}

/// Returns the table of the URLs, with its heading. Returns nothing if each step has its own URL, because then the
/// table of the steps has the same values.
pub(super) fn table_of_urls(urls: &[UrlReport], steps: &[StepReport]) -> Vec<Vec<String>> {
    if urls.len() == steps.len() {
        return Vec::new();
    }
    let heads = ["url", "requests", "rate", "failed", "p50", "p90", "p99", "max"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(urls.iter().map(|url| {
        let times = &url.response_time;
        let mut row = vec![
            url.url.clone(),
            count(url.answered + url.failed),
            format!("{}/s", rate(url.achieved_requests_per_second)),
            count(url.failed),
        ];
        let shown = [times.p50_us, times.p90_us, times.p99_us, times.max_us];
        row.extend(shown.map(|time| times.format_time(time)));
        row
    }));
    rows
}

/// Returns a line for each step with failed requests: its name, and its first failure.
pub(super) fn failures(steps: &[StepReport]) -> Vec<[String; 2]> {
    let failed = steps.iter().filter_map(|step| Some((step, step.example.as_ref()?)));
    failed
        .map(|(step, example)| {
            [step.name.clone(), format!("{} failed (first: {example})", count(step.failed))]
        })
        .collect()
}
