//! Searches for the highest request rate that a server can sustain. Chooses each rate from the results of the
//! previous rates. Other modules generate the load.

use std::fmt::Write as _;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use crate::report::{Report, ThresholdReport, rate, rounded, time};
use crate::schedule::Pace;

/// A search for the highest request rate that a server sustains. The search doubles the rate until the server
/// fails to sustain a rate. Then the search tries the geometric mean of the highest sustained rate and the
/// lowest failed rate, until these two rates differ by at most 5 %.
///
/// ```
/// use thruway_bench::ramp::{Search, StepOutcome};
///
/// let mut search = Search::new(100.0);
/// while let Some(rate) = search.next() {
///     // A real server is loaded at this rate here. This one sustains 1,000 requests per second.
///     search.note(if rate <= 1000.0 { StepOutcome::Holds } else { StepOutcome::Fails });
/// }
/// assert!(search.highest().is_some_and(|rate| (950.0..=1000.0).contains(&rate)));
/// ```
#[derive(Clone, Debug)]
pub struct Search {
    next: f64,
    holds: Option<f64>,
    fails: Option<f64>,
    /// The result of the first try of the current rate, if that try failed. A rate fails only after two
    /// failed tries, because any machine may be slow for a moment.
    first_try: Option<StepOutcome>,
    /// `true` if the load generator, not the server, was the bottleneck in at least one of the two tries at
    /// the lowest failed rate.
    is_generator_limit: bool,
}

/// The outcome of a step, which is a load at one rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepOutcome {
    /// The server sustained the rate.
    Holds,
    /// The server did not hold the rate.
    Fails,
    /// The rate was not sustained, and the load generator was late or was the bottleneck. The step shows
    /// nothing about the server.
    GeneratorLimit,
}

/// The result of a search.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ramp {
    /// The version of the JSON format: `thruway-bench-ramp/3`.
    pub format: String,
    /// Target of the load, as given on the command line.
    pub target: String,
    /// Limit on the 99th percentile of the response times, in microseconds.
    pub p99_limit_us: f64,
    /// Seed of the random intervals (Poisson process). Each step uses different intervals.
    #[serde(default)]
    pub seed: Option<u64>,
    /// All steps in the order of their execution.
    pub steps: Vec<Step>,
    /// The highest rate that the server sustained. Absent if the server sustained no rate. If
    /// `is_generator_limit` is `true`, the server may sustain a higher rate.
    pub highest_requests_per_second: Option<f64>,
    /// `true` if the load generator was the bottleneck at rates above `highest_requests_per_second`. In
    /// this case, the server may sustain a higher rate.
    #[serde(default)]
    pub is_generator_limit: bool,
    /// The conditions of `--fail-if`, with their measured values in the step with the highest sustained rate. Empty
    /// if the server sustained no rate.
    #[serde(default)]
    pub thresholds: Vec<ThresholdReport>,
    /// Reasons why the result is less reliable than it seems, as text for the user.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One tried rate with its result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Scheduled number of requests per second.
    pub offered_requests_per_second: f64,
    /// Number of requests per second in the actual schedule. In a Poisson process, this number is random.
    #[serde(default)]
    pub due_requests_per_second: Option<f64>,
    /// Rate of requests with the expected response, in requests per second.
    pub achieved_requests_per_second: f64,
    /// Number of failed requests.
    pub failed: u64,
    /// 99th percentile of the response times in microseconds.
    pub response_p99_us: f64,
    /// `true` if the server sustained the rate.
    pub holds: bool,
    /// `true` if the rate was not sustained and the load generator was late or was the bottleneck. In this
    /// case, the step shows nothing about the server.
    #[serde(default)]
    pub is_generator_limit: bool,
    /// Share of the measured time in which a thread of the load generator was ready to run but had no CPU
    /// core. The value belongs to the thread that waited most.
    #[serde(default)]
    pub generator_waiting_share: f64,
    /// Share of a CPU core that the busiest thread of the load generator used.
    #[serde(default)]
    pub generator_busiest_share: f64,
}

impl Search {
    /// Starts the search with `first` requests per second.
    pub const fn new(first: f64) -> Self {
        Self { next: first, holds: None, fails: None, first_try: None, is_generator_limit: false }
    }

    /// Returns the rate to try next, or `None` if the search is complete.
    pub fn next(&self) -> Option<f64> {
        let is_found =
            matches!((self.holds, self.fails), (Some(holds), Some(fails)) if fails <= holds * PRECISION);
        (!is_found && (RATE_MIN..=RATE_MAX).contains(&self.next)).then_some(self.next)
    }

    /// Records the outcome of a load at the rate that [`next`](Self::next) returned.
    pub fn note(&mut self, outcome: StepOutcome) {
        let holds = outcome == StepOutcome::Holds;
        if !holds && self.first_try.is_none() {
            self.first_try = Some(outcome);
            return;
        }
        let first_try = self.first_try.take();
        if holds {
            self.holds = Some(self.next);
        } else {
            self.fails = Some(self.next);
            self.is_generator_limit = [first_try, Some(outcome)].contains(&Some(StepOutcome::GeneratorLimit));
        }
        self.next = match (self.holds, self.fails) {
            (Some(holds), Some(fails)) => (holds * fails).sqrt(),
            (Some(holds), None) => holds * 2.0,
            (None, Some(fails)) => fails / 2.0,
            (None, None) => self.next,
        };
    }

    /// Returns the highest rate that the server has sustained so far.
    pub const fn highest(&self) -> Option<f64> {
        self.holds
    }

    /// Returns `true` if the load generator, not the server, was the bottleneck at the lowest rate that
    /// failed.
    pub const fn is_generator_limit(&self) -> bool {
        self.is_generator_limit
    }
}

impl StepOutcome {
    const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "does not hold",
            Self::GeneratorLimit => "the load generator was late",
        }
    }
}

impl Step {
    /// Evaluates the report of a load. The server sustained the rate if it answered at least 99 % of the
    /// scheduled requests, if the report is [clean](Report::is_clean), and if the p99 is at most
    /// `p99_limit_us` microseconds.
    pub fn of(report: &Report, p99_limit_us: f64) -> Self {
        let offered_requests_per_second = report.offered_requests_per_second.unwrap_or_default();
        let is_achieved = report.achieved_share().is_some_and(|share| share >= ACHIEVED);
        let holds = is_achieved && report.is_clean() && report.response_time.p99_us <= p99_limit_us;
        let generator = &report.generator;
        Self {
            offered_requests_per_second,
            due_requests_per_second: report.due_requests_per_second,
            achieved_requests_per_second: report.achieved_requests_per_second,
            failed: report.requests.failed,
            response_p99_us: report.response_time.p99_us,
            holds,
            // An unexpected response is always a failure of the server, because a late load generator
            // cannot cause it.
            is_generator_limit: !holds && generator.is_late() && !report.has_server_failures(),
            generator_waiting_share: generator.waiting_worker_share,
            generator_busiest_share: generator.busiest_worker_share,
        }
    }

    /// Describes the step in a line.
    pub fn describe(&self) -> String {
        let outcome = self.outcome().words();
        let [offered, achieved] =
            [self.offered_requests_per_second, self.achieved_requests_per_second].map(rate);
        format!("{offered} requests/s: {achieved} achieved, p99 {}, {outcome}", time(self.response_p99_us))
    }

    /// Returns the outcome of this step for the search.
    pub const fn outcome(&self) -> StepOutcome {
        match (self.holds, self.is_generator_limit) {
            (true, _) => StepOutcome::Holds,
            (false, true) => StepOutcome::GeneratorLimit,
            (false, false) => StepOutcome::Fails,
        }
    }
}

impl Ramp {
    /// Creates the result of a search.
    pub fn new(
        target: impl Into<String>,
        p99_limit_us: f64,
        pace: &Pace,
        steps: Vec<Step>,
        search: &Search,
    ) -> Self {
        let seed = if let Pace::Poisson { seed, .. } = pace { Some(*seed) } else { None };
        let is_generator_limit = search.is_generator_limit();
        let warnings = is_generator_limit.then(|| generator_warning(&steps, search.highest()));
        Self {
            is_generator_limit,
            warnings: warnings.into_iter().collect(),
            format: FORMAT.to_owned(),
            target: target.into(),
            p99_limit_us: rounded(p99_limit_us, 3),
            thresholds: Vec::new(),
            seed,
            steps,
            highest_requests_per_second: search.highest().map(|rate| rounded(rate, 3)),
        }
    }

    /// Adds the outcomes of the conditions in the report of the highest sustained rate.
    #[must_use]
    pub fn with_thresholds(self, highest: Option<&Report>) -> Self {
        Self { thresholds: highest.map(|report| report.thresholds.clone()).unwrap_or_default(), ..self }
    }

    /// Returns the JSON Schema of the result.
    pub fn schema() -> Schema {
        schema_for!(Ramp)
    }

    /// Formats the result as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Formats the result as a plain-text table.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.target);
        if let Some(seed) = self.seed {
            let _ = writeln!(text, "Poisson, seed {seed}");
        }
        text.push_str("\n    offered    achieved   failed        p99\n");
        for row in self.rows() {
            let [offered, achieved, failed, p99, holds] = row;
            let _ = writeln!(text, "{offered:>11} {achieved:>11} {failed:>8} {p99:>10}   {holds}");
        }
        let _ = writeln!(text, "\n{}", self.conclusion());
        for warning in &self.warnings {
            let _ = writeln!(text, "\nwarning: {warning}");
        }
        text
    }

    /// Formats the result as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from("| offered | achieved | failed | p99 | |\n|--:|--:|--:|--:|---|\n");
        for row in self.rows() {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        let _ = writeln!(text, "\n{}", self.conclusion());
        for warning in &self.warnings {
            let _ = write!(text, "\n**Warning:** {warning}\n");
        }
        text
    }

    /// Formats the result as CSV: one line for each rate.
    pub fn to_csv(&self) -> String {
        let mut csv = String::from(
            "offered_requests_per_second,achieved_requests_per_second,failed,response_p99_us,holds,due_requests_per_second,is_generator_limit,\
             generator_waiting_share,generator_busiest_share\r\n",
        );
        for step in &self.steps {
            let Step {
                offered_requests_per_second,
                achieved_requests_per_second,
                failed,
                response_p99_us,
                holds,
                ..
            } = step;
            let due = step.due_requests_per_second.map_or_else(String::new, |due| due.to_string());
            let (is_limit, waiting) = (step.is_generator_limit, step.generator_waiting_share);
            let _ = write!(
                csv,
                "{offered_requests_per_second},{achieved_requests_per_second},{failed},{response_p99_us},{holds},{due}"
            );
            let _ = write!(csv, ",{is_limit},{waiting},{}\r\n", step.generator_busiest_share);
        }
        csv
    }

    fn rows(&self) -> impl Iterator<Item = [String; 5]> {
        self.steps.iter().map(|step| {
            let holds = step.outcome().words();
            [
                rate(step.offered_requests_per_second),
                rate(step.achieved_requests_per_second),
                step.failed.to_string(),
                time(step.response_p99_us),
                holds.to_owned(),
            ]
        })
    }

    fn conclusion(&self) -> String {
        let limit = time(self.p99_limit_us);
        let highest = self.highest_requests_per_second.map(rate);
        match (highest, self.is_generator_limit) {
            (Some(highest), false) => {
                format!("highest rate with a p99 within {limit}: {highest} requests/s")
            }
            (Some(highest), true) => format!(
                "highest rate with a p99 within {limit}: at least {highest} requests/s, where the load \
                 generator was the limit"
            ),
            (None, false) => format!("no rate was sustained with a p99 within {limit}"),
            (None, true) => "no result: the load generator was the limit at each rate".to_owned(),
        }
    }
}

/// Returns a warning that the server may sustain a rate above `highest`, because the load generator was the
/// bottleneck.
fn generator_warning(steps: &[Step], highest: Option<f64>) -> String {
    let limited = || steps.iter().filter(|step| step.is_generator_limit);
    let most = |share: fn(&Step) -> f64| limited().map(share).fold(0.0, f64::max) * 100.0;
    let (waiting, busiest) =
        (most(|step| step.generator_waiting_share), most(|step| step.generator_busiest_share));
    let above = highest.map_or_else(String::new, |highest| format!(" above {} requests/s", rate(highest)));
    format!(
        "the load generator was the limit, not the server{above}: its threads used up to {busiest:.0} % of \
         a CPU core, and waited for a core for up to {waiting:.0} % of the time. The server may sustain a \
         higher rate. Pin the load generator to separate cores, and use one worker for each core"
    )
}

/// Maximum ratio of the lowest failed rate to the highest sustained rate at the end of the search.
const PRECISION: f64 = 1.05;

/// Minimum share of the scheduled requests that a server must answer to sustain a rate.
const ACHIEVED: f64 = 0.99;

const RATE_MIN: f64 = 1.0;
const RATE_MAX: f64 = 1e8;
const FORMAT: &str = "thruway-bench-ramp/3";

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches the rate of a server that holds up to `capacity`. Every `unlucky`th step fails by chance.
    fn found(first: f64, capacity: f64, unlucky: usize) -> (Option<f64>, usize) {
        let mut search = Search::new(first);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            steps += 1;
            let holds = rate <= capacity && steps % unlucky != 0;
            search.note(if holds { StepOutcome::Holds } else { StepOutcome::Fails });
        }
        (search.highest(), steps)
    }

    #[test]
    fn capacity_is_found_from_lower_and_from_higher_start_rates() {
        for (first, capacity) in [(1000.0, 54_321.0), (1000.0, 1000.0), (1e6, 54_321.0), (7.0, 3.0)] {
            let (highest, steps) = found(first, capacity, usize::MAX);
            let highest = highest.unwrap();
            assert!(highest <= capacity && highest * PRECISION >= capacity, "{highest} of {capacity}");
            assert!(steps < 30, "{steps}");
        }
    }

    #[test]
    fn one_failed_step_does_not_lower_the_result() {
        let (highest, _) = found(1000.0, 54_321.0, 4);
        assert!(highest.unwrap() * PRECISION >= 54_321.0);
    }

    /// Regression test: on a busy machine the search reported 841 requests/s for a server that holds 128,000
    /// elsewhere.
    #[test]
    fn late_generator_is_not_reported_as_the_limit_of_the_server() {
        let found = |outcome: fn(f64) -> StepOutcome| {
            let (mut search, mut steps) = (Search::new(1000.0), Vec::new());
            while let Some(rate) = search.next() {
                let outcome = outcome(rate);
                search.note(outcome);
                steps.push(Step {
                    offered_requests_per_second: rate,
                    due_requests_per_second: Some(rate),
                    achieved_requests_per_second: rate,
                    failed: 0,
                    response_p99_us: 1.0,
                    holds: outcome == StepOutcome::Holds,
                    is_generator_limit: outcome == StepOutcome::GeneratorLimit,
                    generator_waiting_share: 0.37,
                    generator_busiest_share: 0.5,
                });
            }
            Ramp::new("a", 1000.0, &Pace::Constant { rate: 1.0 }, steps, &search)
        };
        let limited =
            found(|rate| if rate <= 841.0 { StepOutcome::Holds } else { StepOutcome::GeneratorLimit });
        assert!(
            limited.is_generator_limit
                && limited.highest_requests_per_second.is_some_and(|rate| rate <= 841.0)
        );
        for form in [limited.to_text(), limited.to_markdown()] {
            assert!(
                form.contains(": at least 8") && form.contains("where the load generator was the limit"),
                "{form}"
            );
            assert!(
                form.contains("for a core for up to 37 % of the time") && !form.contains("does not hold"),
                "{form}"
            );
        }
        assert!(limited.to_json().contains("\"is_generator_limit\": true"));
        assert!(limited.to_csv().contains(",true,0.37,0.5\r\n"));
        let nothing = found(|_| StepOutcome::GeneratorLimit);
        assert!(
            nothing.highest_requests_per_second.is_none()
                && nothing.to_text().contains("no result: the load generator")
        );
        let server = found(|rate| if rate <= 841.0 { StepOutcome::Holds } else { StepOutcome::Fails });
        assert!(!server.is_generator_limit && server.warnings.is_empty());
        assert!(!server.to_text().contains("generator"));
    }

    #[test]
    fn search_ends_if_the_server_holds_no_rate() {
        let (highest, steps) = found(1000.0, 0.0, usize::MAX);
        assert!(highest.is_none() && steps < 30, "{steps}");
    }
}
