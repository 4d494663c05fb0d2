//! Several servers under the same load, in turn: which is faster, and how sure that is. Nothing here makes the load.

use std::fmt::Write as _;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::{self, Part, Report, Settings, rate, time};
use crate::statistics::{CERTAINTY, Ratio, Summary, coverage_of_unpaired};

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Requests a second that were answered as expected.
    AchievedRate,
    /// The median of the response times in microseconds.
    ResponseP50,
    /// The 99th percentile of the response times in microseconds.
    ResponseP99,
    /// CPU time of the server for each answer in microseconds; of servers whose process is known.
    ServerCpu,
}

/// What a comparison says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better, and the whole interval is, which covers 95 % at least.
    Faster,
    /// Worse, and the whole interval is, which covers 95 % at least.
    Slower,
    /// Better than the baseline, and the whole interval is, which allows for some drift. Whether the server
    /// or the machine has changed since the baseline is not certain.
    LikelyFaster,
    /// Worse than the baseline, and the whole interval is, which allows for some drift. Whether the server or
    /// the machine has changed since the baseline is not certain.
    LikelySlower,
    /// The interval holds both, or there were too few rounds for a claim.
    NoDifferenceShown,
    /// Against a baseline: the load generator was late or the limit in most rounds of one run, and not of the
    /// other.
    GeneratorLate,
    /// Requests to one of them failed, so its figures are not those of the same work.
    Failed,
}

/// The result of a comparison; written as JSON, it can be the baseline of others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// `thruway-bench-compare/1`.
    pub format: String,
    /// How each was loaded; absent of comparisons that did not say it yet.
    #[serde(default)]
    pub settings: Option<Settings>,
    /// What was compared, in the order in which it was given.
    pub candidates: Vec<Candidate>,
    /// Each but the first against the first, or each against the baseline.
    pub pairs: Vec<Pair>,
    /// Reasons why the verdicts do not mean what they seem to, for people.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One of those that are compared, and its figures in each round.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// What it is called.
    pub name: String,
    /// Its figures, by round.
    pub rounds: Vec<Sample>,
}

/// The figures of one round.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// See [`Metric::AchievedRate`].
    pub achieved_rate: f64,
    /// See [`Metric::ResponseP50`].
    pub response_p50: f64,
    /// See [`Metric::ResponseP99`].
    pub response_p99: f64,
    /// See [`Metric::ServerCpu`].
    pub server_cpu: Option<f64>,
    /// Requests that failed, or were not answered any more; where there are any, the other figures are of other work.
    #[serde(default)]
    pub failed: u64,
    /// `true` if the load generator was late or the limit: then the other figures are its own too. Absent of
    /// rounds that do not say it.
    #[serde(default)]
    pub is_generator_late: Option<bool>,
    /// The share of the time in which a thread of the load generator was ready to run and had no core. Absent
    /// of rounds that do not say it.
    #[serde(default)]
    pub generator_waiting: Option<f64>,
}

/// Two candidates in one metric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Which one.
    pub candidate: String,
    /// Against which.
    pub against: String,
    /// In what.
    pub metric: Metric,
    /// `true` if both were loaded in the same rounds, `false` against a baseline.
    #[serde(default)]
    pub is_paired: bool,
    /// The figure of the candidate as a multiple of the other's.
    pub ratio: Ratio,
    /// How much more it is, in microseconds: what a gateway adds, if the other is what it stands in front of. Only of
    /// times, and only of those that were measured in the same round.
    pub added: Option<Ratio>,
    /// What that means.
    pub verdict: Verdict,
}

impl Metric {
    /// Every metric, the most important first.
    pub const ALL: [Self; 4] = [Self::AchievedRate, Self::ResponseP50, Self::ResponseP99, Self::ServerCpu];

    /// What it is called.
    pub const fn label(self) -> &'static str {
        match self {
            Self::AchievedRate => "requests/s",
            Self::ResponseP50 => "p50",
            Self::ResponseP99 => "p99",
            Self::ServerCpu => "server CPU",
        }
    }

    /// A value with its unit.
    pub fn format(self, value: f64) -> String {
        if self == Self::AchievedRate { rate(value) } else { time(value) }
    }

    const fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::AchievedRate => Some(sample.achieved_rate),
            Self::ResponseP50 => Some(sample.response_p50),
            Self::ResponseP99 => Some(sample.response_p99),
            Self::ServerCpu => sample.server_cpu,
        }
    }

    fn verdict(self, ratio: Ratio) -> Verdict {
        let is_more_better = self == Self::AchievedRate;
        match ratio {
            _ if ratio.holds_one() || !ratio.is_sure() => Verdict::NoDifferenceShown,
            _ if (ratio.median > 1.0) == is_more_better => Verdict::Faster,
            _ => Verdict::Slower,
        }
    }

    /// The verdict about separate runs, which is never certain.
    fn verdict_of_separate_runs(self, ratio: Ratio) -> Verdict {
        let is_more_better = self == Self::AchievedRate;
        match ratio {
            _ if ratio.holds_one() => Verdict::NoDifferenceShown,
            _ if (ratio.median > 1.0) == is_more_better => Verdict::LikelyFaster,
            _ => Verdict::LikelySlower,
        }
    }
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::LikelyFaster => "likely faster",
            Self::LikelySlower => "likely slower",
            Self::GeneratorLate => "load generator late",
            Self::NoDifferenceShown => "no difference shown",
            Self::Failed => "failed",
        }
    }
}

impl Sample {
    /// The figures of a load.
    pub fn of(report: &Report) -> Self {
        Self {
            achieved_rate: report.achieved_rate,
            response_p50: report.response_time.p50,
            response_p99: report.response_time.p99,
            server_cpu: report.server.as_ref().and_then(|server| server.cpu_per_request),
            failed: report.failures(),
            is_generator_late: Some(report.generator.is_late()),
            generator_waiting: Some(report.generator.waiting_worker),
        }
    }

    /// The figures of the parts of the time of a single load. The last part may be too short, and a part
    /// without answers has no figures. CPU time is known of the whole load only.
    fn of_parts(report: &Report) -> Vec<Self> {
        let parts = report.over_time.split_last().map_or(&[][..], |(_, before)| before);
        let parts = parts.iter().filter(|part| part.rate > 0.0 && part.p50 > 0.0);
        let sample = |part: &Part| Self {
            achieved_rate: part.rate,
            response_p50: part.p50,
            response_p99: part.p99,
            server_cpu: None,
            failed: report.failures(),
            ..Self::of(report)
        };
        parts.map(sample).collect()
    }
}

impl Candidate {
    /// Whether requests failed in any round.
    pub fn has_failed(&self) -> bool {
        self.rounds.iter().any(|sample| sample.failed > 0)
    }

    /// The number of rounds in which the load generator was late or the limit; `None` if not all rounds say
    /// it.
    fn late_rounds(&self) -> Option<usize> {
        let late: Option<Vec<bool>> = self.rounds.iter().map(|sample| sample.is_generator_late).collect();
        Some(late?.into_iter().filter(|is_late| *is_late).count())
    }

    /// Returns `true` if the load generator was late or the limit in most rounds; `None` if not all rounds
    /// say it.
    fn is_mostly_late(&self) -> Option<bool> {
        self.late_rounds().map(|late| late * 2 > self.rounds.len())
    }

    /// Its figures in a metric, as far as all rounds have one.
    fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        self.rounds.iter().map(|sample| metric.of(sample)).collect()
    }

    /// Median and spread in every metric that it has figures in.
    fn summaries(&self) -> Vec<(Metric, Summary)> {
        Metric::ALL.iter().filter_map(|metric| Some((*metric, self.summary(*metric)?))).collect()
    }

    /// The median in a metric, and its spread.
    pub fn summary(&self, metric: Metric) -> Option<Summary> {
        Summary::of(&self.values(metric)?)
    }
}

impl Comparison {
    /// Compares each candidate with the first, round by round.
    pub fn new(candidates: Vec<Candidate>) -> Self {
        let mut pairs = Vec::new();
        if let [first, others @ ..] = &candidates[..] {
            for other in others {
                pairs.extend(compared(other, first));
            }
        }
        let too_few = too_few_pairs(&pairs);
        Self::of(candidates, pairs, too_few)
    }

    /// A comparison with these pairs, its warnings, and `warning` behind them.
    fn of(candidates: Vec<Candidate>, pairs: Vec<Pair>, warning: Option<String>) -> Self {
        let mut warnings = Vec::new();
        let failed = candidates.iter().filter(|candidate| candidate.has_failed());
        let failed: Vec<_> = failed.map(|candidate| format!("`{}`", candidate.name)).collect();
        if !failed.is_empty() {
            let failed = failed.join(" and ");
            warnings
                .push(format!("requests to {failed} failed, so its figures are not those of the same work"));
        }
        warnings.extend(candidates.iter().filter_map(late_generator));
        warnings.extend(warning);
        Self { format: FORMAT.to_owned(), settings: None, candidates, pairs, warnings }
    }

    /// The same of candidates that were loaded so.
    #[must_use]
    pub fn loaded_as(self, settings: Settings) -> Self {
        Self { settings: Some(settings), ..self }
    }

    /// Compares each candidate with the one of the same name in `baseline`, or with the only one in it. Those that have no
    /// counterpart are returned.
    ///
    /// The baseline is another run, so nothing is claimed with certainty: see [`Ratio::of_separate_runs`].
    pub fn with_baseline(candidates: Vec<Candidate>, baseline: &Self) -> (Self, Vec<String>) {
        let (mut pairs, mut alone, mut too_few) = (Vec::new(), Vec::new(), None);
        for candidate in &candidates {
            match baseline.counterpart(&candidate.name) {
                Some(known) => {
                    let known = Candidate { name: format!("{} (baseline)", known.name), ..known.clone() };
                    if !is_enough(candidate.rounds.len(), known.rounds.len()) {
                        too_few = Some(TOO_FEW_OF_RUNS.to_owned());
                    }
                    pairs.extend(compared_with_run(candidate, &known));
                }
                None => alone.push(candidate.name.clone()),
            }
        }
        let is_likely = |pair: &Pair| matches!(pair.verdict, Verdict::LikelyFaster | Verdict::LikelySlower);
        let warning = too_few.or_else(|| pairs.iter().any(is_likely).then(|| SEPARATE_RUNS.to_owned()));
        (Self::of(candidates, pairs, warning), alone)
    }

    /// What a candidate of this name is compared with, if this is the baseline.
    pub fn counterpart(&self, name: &str) -> Option<&Candidate> {
        let same = self.candidates.iter().find(|known| known.name == name);
        same.or_else(|| self.candidates.first().filter(|_| self.candidates.len() == 1))
    }

    /// Whether so many rounds, held against `baseline`, can tell a regression; otherwise those that are too few, and how many they are.
    ///
    /// # Errors
    /// The name of a candidate of the baseline, and the number of its rounds.
    pub fn can_be_told(rounds: usize, baseline: &Self) -> Result<(), (&str, usize)> {
        let counts = baseline.candidates.iter().map(|known| (known.name.as_str(), known.rounds.len()));
        let mut too_few = counts.filter(|(_, known)| !is_enough(rounds, *known));
        too_few.next().map_or(Ok(()), Err)
    }

    /// The pairs in which all of the interval is worse than the baseline by more than `tolerance`: 0.05 are
    /// five of a hundred.
    pub fn regressions(&self, tolerance: f64) -> impl Iterator<Item = &Pair> {
        let is_beyond = move |pair: &&Pair| match pair.metric {
            Metric::AchievedRate => pair.ratio.high < 1.0 - tolerance,
            _ => pair.ratio.low > 1.0 + tolerance,
        };
        self.pairs.iter().filter(|pair| pair.verdict == Verdict::LikelySlower).filter(is_beyond)
    }

    /// The JSON Schema of comparisons.
    pub fn schema() -> Schema {
        schema_for!(Comparison)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a baseline: what [`to_json`](Self::to_json) or [`Report::to_json`] has written. The parts of the
    /// time of a report are its rounds.
    ///
    /// # Errors
    /// It is something else.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let json: Value = serde_json::from_str(text).map_err(|error| report::unreadable(&error))?;
        match json["format"].as_str() {
            Some(FORMAT) => serde_json::from_value(json).map_err(|error| report::unreadable(&error)),
            Some(report::FORMAT) => serde_json::from_value(json)
                .map(|report| Self::of_report(&report))
                .map_err(|error| report::unreadable(&error)),
            Some(other) => {
                let (ours, report) = (FORMAT, report::FORMAT);
                Err(format!("its format is `{}`, neither `{ours}` nor `{report}`", other.escape_debug()))
            }
            None => Err("it has no `format`".to_owned()),
        }
    }

    /// A single load as a baseline.
    fn of_report(report: &Report) -> Self {
        let candidate = Candidate { name: report.target.clone(), rounds: Sample::of_parts(report) };
        Self::of(vec![candidate], Vec::new(), None).loaded_as(report.settings.clone())
    }

    /// As tables for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for candidate in &self.candidates {
            let _ = writeln!(text, "{}", candidate.name);
            for (metric, summary) in candidate.summaries() {
                let [median, min, max] =
                    [summary.median, summary.min, summary.max].map(|value| metric.format(value));
                let _ = writeln!(
                    text,
                    "  {:<11} {median:>10}   ({min} to {max}, {} rounds)",
                    metric.label(),
                    summary.n
                );
            }
        }
        let mut said = None;
        for pair in &self.pairs {
            let Ratio { median, low, high, .. } = pair.ratio;
            let certainty = pair.certainty();
            let heading = (&pair.candidate, &pair.against);
            if said.replace(heading) != Some(heading) {
                let _ = writeln!(text, "\n{} against {}", pair.candidate, pair.against);
            }
            let (metric, verdict) = (pair.metric.label(), pair.verdict.words());
            let _ = writeln!(
                text,
                "  {metric:<11} ×{median:.3}   ({certainty}: {low:.3} to {high:.3})   {verdict}"
            );
            if pair.added.is_some() {
                let _ = writeln!(text, "  {:<11} {}", "added", pair.added_in_words());
            }
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "\nwarning: {warning}");
        }
        text
    }

    /// As Markdown.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from("| | metric | median | smallest | largest |\n|---|---|--:|--:|--:|\n");
        for candidate in &self.candidates {
            for (metric, summary) in candidate.summaries() {
                let [median, min, max] =
                    [summary.median, summary.min, summary.max].map(|value| metric.format(value));
                let name = candidate.name.replace('|', "\\|");
                let _ = writeln!(text, "| {name} | {} | {median} | {min} | {max} |", metric.label());
            }
        }
        text.push_str(HEADS_OF_PAIRS);
        for pair in &self.pairs {
            let Ratio { median, low, high, .. } = pair.ratio;
            let certainty = pair.certainty();
            let [name, against] = [&pair.candidate, &pair.against].map(|name| name.replace('|', "\\|"));
            let (metric, verdict) = (pair.metric.label(), pair.verdict.words());
            let _ = writeln!(
                text,
                "| {name} | {against} | {metric} | {median:.3} | {low:.3} to {high:.3} ({certainty}) | {} | {verdict} |",
                pair.added_in_words()
            );
        }
        for warning in &self.warnings {
            let _ = write!(text, "\n**Warning:** {warning}\n");
        }
        text
    }

    /// As CSV: a line for each candidate and round.
    pub fn to_csv<'a>(reports: impl Iterator<Item = &'a Report>) -> String {
        report::to_csv(reports)
    }

    /// As a page for browsers, with the last load of each candidate.
    pub fn to_html(&self, reports: &[Report]) -> String {
        report::comparison_page(self, reports)
    }
}

impl Pair {
    /// What the interval covers, in words: `95 %`, or `separate runs`, of which nothing is certain.
    pub fn certainty(&self) -> String {
        if self.is_paired { self.ratio.certainty() } else { "separate runs".to_owned() }
    }

    /// How much more it is, with the interval; nothing where that is not known.
    pub fn added_in_words(&self) -> String {
        let Some(added) = self.added else { return String::new() };
        let [median, low, high] = [added.median, added.low, added.high].map(difference);
        format!("{median} ({low} to {high}, {})", added.certainty())
    }
}

/// Compares two candidates of one run, round by round.
fn compared(candidate: &Candidate, against: &Candidate) -> Vec<Pair> {
    let has_failed = candidate.has_failed() || against.has_failed();
    let pairs = Metric::ALL.iter().filter_map(|metric| {
        let pairs = zipped(&candidate.values(*metric)?, &against.values(*metric)?);
        let ratio = Ratio::of_pairs(&pairs)?;
        Some(Pair {
            candidate: candidate.name.clone(),
            against: against.name.clone(),
            metric: *metric,
            is_paired: true,
            ratio,
            added: added(*metric, candidate, against),
            verdict: if has_failed { Verdict::Failed } else { metric.verdict(ratio) },
        })
    });
    pairs.collect()
}

/// Compares a candidate with one of another run.
fn compared_with_run(candidate: &Candidate, against: &Candidate) -> Vec<Pair> {
    let has_failed = candidate.has_failed() || against.has_failed();
    let is_enough = is_enough(candidate.rounds.len(), against.rounds.len());
    let late = candidate.is_mostly_late().zip(against.is_mostly_late());
    let pairs = Metric::ALL.iter().filter_map(|metric| {
        let ratio = Ratio::of_separate_runs(&candidate.values(*metric)?, &against.values(*metric)?)?;
        let verdict = match late {
            _ if has_failed => Verdict::Failed,
            Some((now, before)) if now != before => Verdict::GeneratorLate,
            _ if !is_enough => Verdict::NoDifferenceShown,
            _ => metric.verdict_of_separate_runs(ratio),
        };
        Some(Pair {
            candidate: candidate.name.clone(),
            against: against.name.clone(),
            metric: *metric,
            is_paired: false,
            ratio,
            added: None,
            verdict,
        })
    });
    pairs.collect()
}

/// Returns `true` if so many rounds of two runs lie apart in one of twenty cases at most when both are alike.
fn is_enough(ours: usize, theirs: usize) -> bool {
    coverage_of_unpaired(ours, theirs) >= CERTAINTY
}

fn too_few_pairs(pairs: &[Pair]) -> Option<String> {
    let least = pairs.iter().filter(|pair| !pair.ratio.is_sure());
    let least = least.min_by(|a, b| a.ratio.coverage.total_cmp(&b.ratio.coverage))?;
    Some(format!(
        "there are too few rounds for a verdict: intervals hold the true ratio with {} only. \
         Six rounds are enough",
        least.ratio.certainty()
    ))
}

fn late_generator(candidate: &Candidate) -> Option<String> {
    let late = candidate.late_rounds().filter(|late| *late > 0)?;
    let waiting = candidate.rounds.iter().filter_map(|sample| sample.generator_waiting).fold(0.0, f64::max);
    Some(format!(
        "the load generator was late or the limit in {late} of {} rounds of `{}`, so these figures are its own \
         too: it was ready to run and had no core for up to {:.0} % of the time. Give it cores of its own",
        candidate.rounds.len(),
        candidate.name,
        waiting * 100.0
    ))
}

/// How much more `candidate` takes than `against`, round by round.
fn added(metric: Metric, candidate: &Candidate, against: &Candidate) -> Option<Ratio> {
    if metric == Metric::AchievedRate {
        return None;
    }
    Ratio::of_differences(&zipped(&candidate.values(metric)?, &against.values(metric)?))
}

fn zipped(ours: &[f64], theirs: &[f64]) -> Vec<(f64, f64)> {
    ours.iter().copied().zip(theirs.iter().copied()).collect()
}

/// In which order `candidates` are loaded in each of `rounds`: at random, and in every second round the other way round
/// (ABBA), so that what changes steadily over time hits all alike.
pub fn order(candidates: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut order: Vec<Vec<usize>> = Vec::new();
    for round in 0..rounds {
        let mut places: Vec<usize> = (0..candidates).collect();
        if round % 2 == 1 {
            places = order[round - 1].iter().rev().copied().collect();
        } else {
            random.shuffle(&mut places);
        }
        order.push(places);
    }
    order
}

/// A time that may be negative, with its sign.
fn difference(microseconds: f64) -> String {
    format!("{}{}", if microseconds < 0.0 { '-' } else { '+' }, time(microseconds.abs()))
}

const TOO_FEW_OF_RUNS: &str =
    "there are too few rounds for a verdict: four are enough beside a baseline of four";
const SEPARATE_RUNS: &str = "the baseline is of another run, and the machine may have changed since then: \
                             differences are likely, not certain. To be certain, load both servers in \
                             one run: `thruway bench compare 'URL -- OLD' 'URL -- NEW'`";
const FORMAT: &str = "thruway-bench-compare/1";
const HEADS_OF_PAIRS: &str =
    "\n| | against | metric | ratio | interval | added | verdict |\n|---|---|---|--:|--:|--:|---|\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, rates: &[f64]) -> Candidate {
        let rounds = rates.iter().map(|rate| Sample {
            achieved_rate: *rate,
            response_p50: 1e6 / rate,
            response_p99: 100.0,
            server_cpu: None,
            failed: 0,
            is_generator_late: Some(false),
            generator_waiting: Some(0.0),
        });
        Candidate { name: name.to_owned(), rounds: rounds.collect() }
    }

    fn verdicts(comparison: &Comparison) -> Vec<Verdict> {
        comparison.pairs.iter().map(|pair| pair.verdict).collect()
    }

    #[test]
    fn the_verdict_is_the_intervals() {
        use Verdict::{Faster, NoDifferenceShown, Slower};
        let slow = candidate("a", &[100.0, 110.0, 90.0, 105.0, 95.0, 98.0]);
        let fast = candidate("b", &[121.0, 132.0, 109.0, 125.0, 115.0, 118.0]);
        let comparison = Comparison::new(vec![slow.clone(), fast.clone()]);
        assert_eq!(verdicts(&comparison), [Faster, Faster, NoDifferenceShown]);
        assert_eq!(comparison.pairs[0].added, None);
        assert!(comparison.pairs[1].added.is_some_and(|added| added.high < -1000.0 && added.low > -3000.0));
        assert_eq!(verdicts(&Comparison::new(vec![fast, slow.clone()])), [Slower, Slower, NoDifferenceShown]);
        let same = candidate("c", &[101.0, 108.0, 91.0, 104.0, 96.0, 97.0]);
        assert_eq!(verdicts(&Comparison::new(vec![slow, same])), [NoDifferenceShown; 3]);
    }

    #[test]
    fn a_baseline_is_read_again_and_regressions_are_beyond_the_tolerance() {
        let before = Comparison::new(vec![candidate("a", &[100.0, 102.0, 98.0, 101.0])]);
        let before = Comparison::from_json(&before.to_json()).unwrap();
        let after = candidate("b", &[80.0, 81.0, 79.0, 80.5]);
        let (after, alone) = Comparison::with_baseline(vec![after], &before);
        assert!(alone.is_empty());
        assert_eq!(after.regressions(0.05).count(), 2);
        assert_eq!(after.regressions(0.2).count(), 0);
        let two = Comparison::new(vec![candidate("x", &[1.0]), candidate("y", &[1.0])]);
        assert_eq!(Comparison::with_baseline(vec![candidate("b", &[1.0])], &two).1, ["b"]);
        assert!(Comparison::from_json("{}").is_err());
    }

    /// One round gave an interval without width and always a verdict, two or three one that was told as 95 %.
    #[test]
    fn too_few_rounds_show_no_difference_and_no_regression() {
        let rounds = |name: &str, rate: f64, n| candidate(name, &vec![rate; n]);
        for n in [1, 2, 3, 5] {
            let comparison = Comparison::new(vec![rounds("a", 100.0, n), rounds("b", 200.0, n)]);
            assert_eq!(verdicts(&comparison), [Verdict::NoDifferenceShown; 3], "{n}");
            let text = comparison.to_text();
            assert!(text.contains("too few rounds for a verdict") && !text.contains("(95 %"), "{text}");
            assert!(comparison.to_markdown().contains("**Warning:** there are too few rounds"));
            assert!(comparison.to_html(&[]).contains("there are too few rounds"));
        }
        let enough = Comparison::new(vec![rounds("a", 100.0, 6), rounds("b", 200.0, 6)]);
        assert!(enough.warnings.is_empty());

        let known = |n| Comparison::new(vec![rounds("a", 200.0, n)]);
        for (n, baseline, is_told) in
            [(1, 1, false), (10, 1, false), (3, 3, false), (4, 4, true), (10, 2, true)]
        {
            assert_eq!(Comparison::can_be_told(n, &known(baseline)).is_ok(), is_told, "{n} and {baseline}");
            let (comparison, _) = Comparison::with_baseline(vec![rounds("a", 100.0, n)], &known(baseline));
            assert_eq!(comparison.regressions(0.05).count() > 0, is_told, "{n} and {baseline}");
            assert_eq!(verdicts(&comparison)[0] == Verdict::LikelySlower, is_told, "{n} and {baseline}");
        }
    }

    /// A baseline of another hour: an unchanged server was "surely" more than 5 % slower in one of seven
    /// runs. The machine is faster or slower in each run, and drifts within it, which no number of rounds
    /// tells.
    #[test]
    fn drift_between_runs_is_no_regression_and_a_large_one_is_found() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut normal = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut run = |rate: f64| {
            let (machine, mut drift): (f64, f64) = (0.03 * normal(), 0.0);
            let rounds: Vec<f64> = (0..8)
                .map(|_| {
                    drift = 0.8 * drift + 0.005 * normal();
                    rate * (machine + drift + 0.005 * normal()).exp()
                })
                .collect();
            candidate("a", &rounds)
        };
        let (mut apart, mut alarms, mut found) = (0, 0, 0);
        for _ in 0..1000 {
            let (before, same, slower) = (run(100.0), run(100.0), run(75.0));
            let medians = [&before, &same].map(|run| run.summary(Metric::AchievedRate).unwrap().median);
            apart += i32::from(medians[1] < 0.95 * medians[0]);
            let baseline = Comparison::new(vec![before]);
            let regressions =
                |run| Comparison::with_baseline(vec![run], &baseline).0.regressions(0.05).count();
            alarms += i32::from(regressions(same) > 0);
            found += i32::from(regressions(slower) > 0);
        }
        assert!(apart > 80, "the machine drifts: {apart} medians of 1000 are 5 % apart");
        assert!(alarms < 40, "{alarms} false alarms of 1000");
        assert!(found > 950, "{found} regressions of 1000 were found");
    }

    #[test]
    fn a_difference_to_another_run_is_never_told_as_certain() {
        let before = Comparison::new(vec![candidate("a", &[100.0, 102.0, 98.0, 101.0])]);
        let (after, _) = Comparison::with_baseline(vec![candidate("a", &[50.0, 51.0, 49.0, 50.0])], &before);
        assert_eq!(verdicts(&after)[..2], [Verdict::LikelySlower; 2]);
        for form in [after.to_text(), after.to_markdown(), after.to_html(&[]), after.to_json()] {
            assert!(form.contains("differences are likely, not certain"), "{form}");
            assert!(form.contains("likely slower") || form.contains("likely_slower"), "{form}");
        }
        assert!(after.to_text().contains("(separate runs: 0.462 to 0.542)"), "{}", after.to_text());
        assert!(!after.to_text().contains("95 %") && !after.pairs[0].ratio.is_sure());
    }

    /// A load generator without a core made a server look slower, and only the reports of single loads told
    /// it.
    #[test]
    fn a_late_generator_is_told_and_is_no_regression() {
        let late = |name: &str, rate: f64, rounds: usize| {
            let mut late = candidate(name, &[rate; 6]);
            for sample in &mut late.rounds[..rounds] {
                (sample.is_generator_late, sample.generator_waiting) = (Some(true), Some(0.4));
            }
            late
        };
        let paired = Comparison::new(vec![candidate("a", &[100.0; 6]), late("b", 50.0, 2)]);
        for form in [paired.to_text(), paired.to_markdown(), paired.to_html(&[]), paired.to_json()] {
            assert!(form.contains("late or the limit in 2 of 6 rounds of `b`"), "{form}");
            assert!(form.contains("for up to 40 % of the time"), "{form}");
        }
        assert!(paired.to_json().contains("\"is_generator_late\": true"));
        let quiet = Comparison::new(vec![candidate("a", &[100.0; 6])]);
        let (starved, _) = Comparison::with_baseline(vec![late("a", 50.0, 4)], &quiet);
        assert_eq!(verdicts(&starved)[0], Verdict::GeneratorLate);
        assert_eq!(starved.regressions(0.05).count(), 0);
        let busy = Comparison::new(vec![late("a", 100.0, 6)]);
        let (alike, _) = Comparison::with_baseline(vec![late("a", 50.0, 6)], &busy);
        assert_eq!(verdicts(&alike)[0], Verdict::LikelySlower);
    }

    /// The only form that `bench http` writes for programs was refused.
    #[test]
    fn what_is_no_baseline_is_refused_with_the_reason() {
        for (text, reason) in [
            ("a", "it is no JSON"),
            ("{}", "it has no `format`"),
            (
                "{\"format\": \"a\"}",
                "its format is `a`, neither `thruway-bench-compare/1` nor `thruway-bench/1`",
            ),
            ("{\"format\": \"thruway-bench-compare/1\"}", "it has no member `candidates`"),
            ("{\"format\": \"thruway-bench-compare/1\", \"candidates\": 1}", "has the wrong type"),
        ] {
            let refused = Comparison::from_json(text).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    /// Half of the requests failed, and quickly: that was `faster`.
    #[test]
    fn who_fails_requests_is_neither_faster_nor_slower() {
        let mut fast = candidate("b", &[200.0; 6]);
        fast.rounds[3].failed = 1;
        let slow = candidate("a", &[100.0; 6]);
        for pair in [[slow.clone(), fast.clone()], [fast.clone(), slow.clone()]] {
            let comparison = Comparison::new(pair.into());
            assert_eq!(verdicts(&comparison), [Verdict::Failed; 3]);
            for form in [comparison.to_text(), comparison.to_markdown(), comparison.to_html(&[])] {
                assert!(form.contains("requests to `b` failed"), "{form}");
                assert!(
                    form.contains("failed") && !form.contains("faster") && !form.contains("slower"),
                    "{form}"
                );
            }
            assert!(comparison.to_json().contains("\"verdict\": \"failed\""));
        }
        let (against_failed, _) = Comparison::with_baseline(vec![slow], &Comparison::new(vec![fast]));
        assert_eq!(verdicts(&against_failed), [Verdict::Failed; 3]);
        assert_eq!(against_failed.regressions(0.0).count(), 0);
    }

    /// Text and JSON had it alone.
    #[test]
    fn what_a_gateway_adds_is_told_in_every_form() {
        let with_p50 = |name: &str, p50: f64| {
            let mut candidate = candidate(name, &[100.0; 6]);
            candidate.rounds.iter_mut().for_each(|sample| sample.response_p50 = p50);
            candidate
        };
        let comparison = Comparison::new(vec![with_p50("direct", 100.0), with_p50("gateway", 350.0)]);
        for form in [comparison.to_text(), comparison.to_markdown(), comparison.to_html(&[])] {
            assert!(form.contains("+250 µs (+250 µs to +250 µs, 96 %)"), "{form}");
        }
    }

    #[test]
    fn every_second_round_goes_the_other_way() {
        let rounds = order(3, 6, 5);
        for pair in rounds.chunks(2) {
            let reversed: Vec<_> = pair[0].iter().rev().copied().collect();
            assert_eq!(pair[1], reversed);
        }
        assert!(rounds.iter().any(|round| round[..] != [0, 1, 2]));
        assert_eq!(rounds, order(3, 6, 5));
    }
}
