//! The highest rate that a server holds: which rate to try next, and what came of those before. Nothing here makes a load.

use std::fmt::Write as _;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use crate::report::{Report, rate, time};
use crate::schedule::Pace;

/// A search: the rate is doubled until it does not hold, then what lies between is halved until it is known to a twentieth.
#[derive(Clone, Debug)]
pub struct Search {
    next: f64,
    holds: Option<f64>,
    fails: Option<f64>,
    /// Whether the next rate has failed once: it fails only if it does so twice, because machines have bad seconds.
    is_second_try: bool,
}

/// The result of a search.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ramp {
    /// `thruway-bench-ramp/1`.
    pub format: String,
    /// What was loaded.
    pub target: String,
    /// What the 99th percentile of the response times had to stay within, in microseconds.
    pub p99_limit: f64,
    /// What decides the distances between requests, if these come as a Poisson process; each step has distances of its own.
    #[serde(default)]
    pub seed: Option<u64>,
    /// What was tried, in this order.
    pub steps: Vec<Step>,
    /// The highest rate that held; absent if none did.
    pub highest_rate: Option<f64>,
}

/// A rate that was tried.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Requests a second that were meant to start.
    pub offered_rate: f64,
    /// Requests a second that were due in fact: see [`Report::due_rate`].
    #[serde(default)]
    pub due_rate: Option<f64>,
    /// Requests a second that were answered as expected: see [`Report::achieved_rate`].
    pub achieved_rate: f64,
    /// Requests that failed.
    pub failed: u64,
    /// The 99th percentile of the response times in microseconds.
    pub response_p99: f64,
    /// Whether it held.
    pub holds: bool,
}

impl Search {
    /// Begins with `first` requests a second.
    pub const fn new(first: f64) -> Self {
        Self { next: first, holds: None, fails: None, is_second_try: false }
    }

    /// The rate to try next; `None` if the highest is known, or there is none.
    pub fn next(&self) -> Option<f64> {
        let is_found =
            matches!((self.holds, self.fails), (Some(holds), Some(fails)) if fails <= holds * PRECISION);
        (!is_found && (RATE_MIN..=RATE_MAX).contains(&self.next)).then_some(self.next)
    }

    /// What came of it.
    pub fn note(&mut self, holds: bool) {
        if !holds && !self.is_second_try {
            self.is_second_try = true;
            return;
        }
        self.is_second_try = false;
        *(if holds { &mut self.holds } else { &mut self.fails }) = Some(self.next);
        self.next = match (self.holds, self.fails) {
            (Some(holds), Some(fails)) => (holds * fails).sqrt(),
            (Some(holds), None) => holds * 2.0,
            (None, Some(fails)) => fails / 2.0,
            (None, None) => self.next,
        };
    }

    /// The highest rate so far that held.
    pub const fn highest(&self) -> Option<f64> {
        self.holds
    }
}

impl Step {
    /// Whether a load held its rate, with a p99 of `p99_limit` microseconds at most.
    pub fn of(report: &Report, p99_limit: f64) -> Self {
        let offered_rate = report.offered_rate.unwrap_or_default();
        let is_achieved = report.achieved_share().is_some_and(|share| share >= ACHIEVED);
        Self {
            offered_rate,
            due_rate: report.due_rate,
            achieved_rate: report.achieved_rate,
            failed: report.requests.failed,
            response_p99: report.response_time.p99,
            holds: is_achieved && report.is_clean() && report.response_time.p99 <= p99_limit,
        }
    }
}

impl Ramp {
    /// The result of a search.
    pub fn new(
        target: impl Into<String>,
        p99_limit: f64,
        pace: Pace,
        steps: Vec<Step>,
        search: &Search,
    ) -> Self {
        let seed = if let Pace::Poisson { seed, .. } = pace { Some(seed) } else { None };
        Self {
            format: FORMAT.to_owned(),
            target: target.into(),
            p99_limit,
            seed,
            steps,
            highest_rate: search.highest(),
        }
    }

    /// The JSON Schema of results.
    pub fn schema() -> Schema {
        schema_for!(Ramp)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As a table for people.
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
        text
    }

    /// As Markdown.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from("| offered | achieved | failed | p99 | |\n|--:|--:|--:|--:|---|\n");
        for row in self.rows() {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        let _ = writeln!(text, "\n{}", self.conclusion());
        text
    }

    /// As CSV: a line for each rate that was tried.
    pub fn to_csv(&self) -> String {
        let mut csv = String::from("offered_rate,achieved_rate,failed,response_p99,holds,due_rate\r\n");
        for Step { offered_rate, due_rate, achieved_rate, failed, response_p99, holds } in &self.steps {
            let due = due_rate.map_or_else(String::new, |due| due.to_string());
            let _ = write!(csv, "{offered_rate},{achieved_rate},{failed},{response_p99},{holds},{due}\r\n");
        }
        csv
    }

    fn rows(&self) -> impl Iterator<Item = [String; 5]> {
        self.steps.iter().map(|step| {
            let holds = if step.holds { "holds" } else { "does not hold" };
            [
                rate(step.offered_rate),
                rate(step.achieved_rate),
                step.failed.to_string(),
                time(step.response_p99),
                holds.to_owned(),
            ]
        })
    }

    fn conclusion(&self) -> String {
        let limit = time(self.p99_limit);
        match self.highest_rate {
            Some(highest) => format!("highest rate with a p99 within {limit}: {} requests/s", rate(highest)),
            None => format!("no rate was held with a p99 within {limit}"),
        }
    }
}

/// How much more than what holds is known not to.
const PRECISION: f64 = 1.05;

/// The share of the offered rate that must be achieved.
const ACHIEVED: f64 = 0.99;

const RATE_MIN: f64 = 1.0;
const RATE_MAX: f64 = 1e8;
const FORMAT: &str = "thruway-bench-ramp/1";

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a server that holds up to `capacity`, and errs in every `unlucky`th step.
    fn found(first: f64, capacity: f64, unlucky: usize) -> (Option<f64>, usize) {
        let mut search = Search::new(first);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            steps += 1;
            search.note(rate <= capacity && steps % unlucky != 0);
        }
        (search.highest(), steps)
    }

    #[test]
    fn the_capacity_is_found_from_below_and_from_above() {
        for (first, capacity) in [(1000.0, 54_321.0), (1000.0, 1000.0), (1e6, 54_321.0), (7.0, 3.0)] {
            let (highest, steps) = found(first, capacity, usize::MAX);
            let highest = highest.unwrap();
            assert!(highest <= capacity && highest * PRECISION >= capacity, "{highest} of {capacity}");
            assert!(steps < 30, "{steps}");
        }
    }

    #[test]
    fn a_bad_second_is_forgiven() {
        let (highest, _) = found(1000.0, 54_321.0, 4);
        assert!(highest.unwrap() * PRECISION >= 54_321.0);
    }

    #[test]
    fn a_server_that_holds_nothing_ends_the_search() {
        let (highest, steps) = found(1000.0, 0.0, usize::MAX);
        assert!(highest.is_none() && steps < 30, "{steps}");
    }
}
