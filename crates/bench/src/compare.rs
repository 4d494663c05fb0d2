//! Several servers under the same load, in turn: which is faster, and how sure that is. Nothing here makes the load.

use std::fmt::Write as _;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use crate::report::{self, Report, Settings, rate, time};
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
    /// The interval holds both, or there were too few rounds for a claim.
    NoDifferenceShown,
    /// Requests to one of them failed: who does not do the work is not compared with who does.
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
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
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
            server_cpu: report.server.as_ref().map(|server| server.cpu_per_request),
            failed: report.failures(),
        }
    }
}

impl Candidate {
    /// Whether requests failed in any round.
    pub fn has_failed(&self) -> bool {
        self.rounds.iter().any(|sample| sample.failed > 0)
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
                pairs.extend(compared(other, first, |ours, theirs| Ratio::of_pairs(&zipped(ours, theirs))));
                pairs.iter_mut().filter(|pair| pair.candidate == other.name).for_each(|pair| {
                    pair.added = added(pair.metric, other, first);
                });
            }
        }
        Self { format: FORMAT.to_owned(), settings: None, candidates, pairs }
    }

    /// The same of candidates that were loaded so.
    #[must_use]
    pub fn loaded_as(self, settings: Settings) -> Self {
        Self { settings: Some(settings), ..self }
    }

    /// Compares each candidate with the one of the same name in `baseline`, or with the only one in it. Those that have no
    /// counterpart are returned.
    pub fn with_baseline(candidates: Vec<Candidate>, baseline: &Self) -> (Self, Vec<String>) {
        let (mut pairs, mut alone) = (Vec::new(), Vec::new());
        for candidate in &candidates {
            match baseline.counterpart(&candidate.name) {
                Some(known) => {
                    let known = Candidate { name: format!("{} (baseline)", known.name), ..known.clone() };
                    pairs.extend(compared(candidate, &known, Ratio::of_unpaired));
                }
                None => alone.push(candidate.name.clone()),
            }
        }
        (Self { format: FORMAT.to_owned(), settings: None, candidates, pairs }, alone)
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
        let mut too_few = counts.filter(|(_, known)| coverage_of_unpaired(rounds, *known) < CERTAINTY);
        too_few.next().map_or(Ok(()), Err)
    }

    /// What keeps the verdicts from meaning what they seem to.
    pub fn warnings(&self) -> Vec<String> {
        let failed = self.candidates.iter().filter(|candidate| candidate.has_failed());
        let failed: Vec<_> = failed.map(|candidate| format!("`{}`", candidate.name)).collect();
        let failed = (!failed.is_empty()).then(|| {
            format!(
                "requests to {} failed, so its figures are not those of the same work",
                failed.join(" and ")
            )
        });
        failed.into_iter().chain(self.too_few()).collect()
    }

    fn too_few(&self) -> Option<String> {
        let least = self.pairs.iter().filter(|pair| !pair.ratio.is_sure());
        let least = least.min_by(|a, b| a.ratio.coverage.total_cmp(&b.ratio.coverage))?;
        Some(format!(
            "there are too few rounds for a verdict: intervals hold the true ratio with {} only. Six rounds are enough, or four beside a baseline of four",
            least.ratio.certainty()
        ))
    }

    /// The pairs in which the candidate is surely worse than `tolerance` allows: 0.05 are five of a hundred.
    pub fn regressions(&self, tolerance: f64) -> impl Iterator<Item = &Pair> {
        let is_beyond = move |pair: &&Pair| match pair.metric {
            Metric::AchievedRate => pair.ratio.high < 1.0 - tolerance,
            _ => pair.ratio.low > 1.0 + tolerance,
        };
        let is_told = |pair: &&Pair| pair.ratio.is_sure() && pair.verdict != Verdict::Failed;
        self.pairs.iter().filter(is_told).filter(is_beyond)
    }

    /// The JSON Schema of comparisons.
    pub fn schema() -> Schema {
        schema_for!(Comparison)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads what [`to_json`](Self::to_json) has written.
    ///
    /// # Errors
    /// It is something else.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let comparison: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if comparison.format == FORMAT {
            Ok(comparison)
        } else {
            Err(format!("its format is `{}`, not `{FORMAT}`", comparison.format.escape_debug()))
        }
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
            let certainty = pair.ratio.certainty();
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
        for warning in self.warnings() {
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
            let certainty = pair.ratio.certainty();
            let [name, against] = [&pair.candidate, &pair.against].map(|name| name.replace('|', "\\|"));
            let (metric, verdict) = (pair.metric.label(), pair.verdict.words());
            let _ = writeln!(
                text,
                "| {name} | {against} | {metric} | {median:.3} | {low:.3} to {high:.3} ({certainty}) | {} | {verdict} |",
                pair.added_in_words()
            );
        }
        for warning in self.warnings() {
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
    /// How much more it is, with the interval; nothing where that is not known.
    pub fn added_in_words(&self) -> String {
        let Some(added) = self.added else { return String::new() };
        let [median, low, high] = [added.median, added.low, added.high].map(difference);
        format!("{median} ({low} to {high}, {})", added.certainty())
    }
}

fn compared(
    candidate: &Candidate,
    against: &Candidate,
    ratio: impl Fn(&[f64], &[f64]) -> Option<Ratio>,
) -> Vec<Pair> {
    let has_failed = candidate.has_failed() || against.has_failed();
    let pairs = Metric::ALL.iter().filter_map(|metric| {
        let ratio = ratio(&candidate.values(*metric)?, &against.values(*metric)?)?;
        Some(Pair {
            candidate: candidate.name.clone(),
            against: against.name.clone(),
            metric: *metric,
            ratio,
            added: None,
            verdict: if has_failed { Verdict::Failed } else { metric.verdict(ratio) },
        })
    });
    pairs.collect()
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
        let after = candidate("b", &[90.0, 91.0, 89.0, 90.5]);
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
        assert!(enough.warnings().is_empty());

        let known = |n| Comparison::new(vec![rounds("a", 200.0, n)]);
        for (n, baseline, is_told) in
            [(1, 1, false), (10, 1, false), (3, 3, false), (4, 4, true), (10, 2, true)]
        {
            assert_eq!(Comparison::can_be_told(n, &known(baseline)).is_ok(), is_told, "{n} and {baseline}");
            let (comparison, _) = Comparison::with_baseline(vec![rounds("a", 100.0, n)], &known(baseline));
            assert_eq!(comparison.regressions(0.05).count() > 0, is_told, "{n} and {baseline}");
            assert_eq!(verdicts(&comparison)[0] == Verdict::Slower, is_told, "{n} and {baseline}");
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
