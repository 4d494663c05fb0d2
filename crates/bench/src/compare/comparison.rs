//! Compares pairs of candidates in every metric, and adds warnings if the result is not reliable.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::verdict::{Candidate, Metric, Pair, Sample, Verdict};
use crate::report::{self, Environment, Report, Settings};
use crate::statistics::{CERTAINTY, Ratio, coverage_of_unpaired};

/// The result of a comparison. The JSON form of the result can be the baseline of a later comparison.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The version of the JSON format: `thruway-bench-compare/3`.
    pub format: String,
    /// Date, machine, version and command line. Absent if the program did not add them.
    #[serde(default)]
    pub environment: Option<Environment>,
    /// The load settings, which are the same for each candidate. Absent if an older version of Thruway
    /// wrote the comparison.
    #[serde(default)]
    pub settings: Option<Settings>,
    /// The candidates in the order of the command line.
    pub candidates: Vec<Candidate>,
    /// The compared pairs. Each pair compares a later candidate with the first candidate, or a candidate
    /// with the baseline.
    pub pairs: Vec<Pair>,
    /// Reasons why the verdicts are less reliable than they seem, as text for the user.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl Comparison {
    /// Compares each later candidate with the first candidate, round by round.
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

    /// Creates a comparison of these pairs. Collects the warnings about the candidates and appends `warning`.
    fn of(candidates: Vec<Candidate>, pairs: Vec<Pair>, warning: Option<String>) -> Self {
        let mut warnings = Vec::new();
        let failed = candidates.iter().filter(|candidate| candidate.has_failed());
        let failed: Vec<_> = failed.map(|candidate| format!("`{}`", candidate.name)).collect();
        if !failed.is_empty() {
            let failed = failed.join(" and ");
            warnings.push(format!("requests to {failed} failed, so the results are not comparable"));
        }
        warnings.extend(candidates.iter().filter_map(late_generator));
        warnings.extend(warning);
        let format = FORMAT.to_owned();
        Self { format, environment: None, settings: None, candidates, pairs, warnings }
    }

    /// Returns this comparison with the load settings added.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings: Some(settings), ..self }
    }

    /// Returns this comparison with its environment.
    #[must_use]
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment: Some(environment), ..self }
    }

    /// Explains the ratios. Returns `None` if no pair was measured in the same rounds.
    pub(crate) fn note(&self) -> Option<&'static str> {
        self.pairs.iter().any(|pair| pair.is_paired).then_some(PAIRED_RATIOS)
    }

    /// Compares each candidate with its [counterpart](Self::counterpart) in the baseline. Also returns the
    /// names of the candidates without a counterpart.
    ///
    /// The baseline was measured in another run, so no verdict is certain: see [`Ratio::of_separate_runs`].
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

    /// Returns the candidate with this name in the baseline. If the names differ and the baseline has only
    /// one candidate, returns this candidate.
    pub fn counterpart(&self, name: &str) -> Option<&Candidate> {
        let same = self.candidates.iter().find(|known| known.name == name);
        same.or_else(|| self.candidates.first().filter(|_| self.candidates.len() == 1))
    }

    /// Checks that `rounds` new rounds and the rounds of `baseline` are enough to detect a regression.
    ///
    /// # Errors
    /// Returns the name and the number of rounds of the first candidate in the baseline that has too few
    /// rounds.
    pub fn check_round_counts(rounds: usize, baseline: &Self) -> Result<(), (&str, usize)> {
        let counts = baseline.candidates.iter().map(|known| (known.name.as_str(), known.rounds.len()));
        let mut too_few = counts.filter(|(_, known)| !is_enough(rounds, *known));
        too_few.next().map_or(Ok(()), Err)
    }

    /// Returns the pairs whose whole confidence interval is worse than the baseline by more than `tolerance`.
    /// A tolerance of 0.05 means 5 %.
    pub fn regressions(&self, tolerance: f64) -> impl Iterator<Item = &Pair> {
        let is_beyond = move |pair: &&Pair| match pair.metric {
            Metric::AchievedRate => pair.ratio.high < 1.0 - tolerance,
            _ => pair.ratio.low > 1.0 + tolerance,
        };
        self.pairs.iter().filter(|pair| pair.verdict == Verdict::LikelySlower).filter(is_beyond)
    }

    /// Reads a baseline from JSON that [`to_json`](Self::to_json) or [`Report::to_json`] has written. In a
    /// report, each part of the measured time counts as a round.
    ///
    /// # Errors
    /// Returns a message if `text` is not the JSON form of a comparison or of a report.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let json: Value = serde_json::from_str(text).map_err(|error| report::unreadable(&error))?;
        match json["format"].as_str() {
            Some(FORMAT) => serde_json::from_value(json).map_err(|error| report::unreadable(&error)),
            Some(report::FORMAT) => serde_json::from_value(json)
                .map(|report| Self::of_report(&report))
                .map_err(|error| report::unreadable(&error)),
            Some(other) => {
                let (ours, report) = (FORMAT, report::FORMAT);
                Err(format!("its format is `{}`, instead of `{ours}` or `{report}`", other.escape_debug()))
            }
            None => Err("it has no `format`".to_owned()),
        }
    }

    /// Converts the report of a single load to a baseline.
    fn of_report(report: &Report) -> Self {
        let candidate = Candidate { name: report.target.clone(), rounds: Sample::of_parts(report) };
        Self::of(vec![candidate], Vec::new(), None).with_settings(report.settings.clone())
    }
}

/// Compares two candidates of the same run, round by round.
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
            ratio: ratio.rounded(),
            added_us: added(*metric, candidate, against).map(Ratio::rounded),
            verdict: if has_failed { Verdict::Failed } else { metric.verdict(ratio) },
        })
    });
    pairs.collect()
}

/// Compares a candidate with a candidate of an earlier run.
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
            ratio: ratio.rounded(),
            added_us: None,
            verdict,
        })
    });
    pairs.collect()
}

/// Returns `true` if both runs have enough rounds for a verdict. With fewer rounds, all values of one run may
/// be better by pure chance with a probability above 5 %.
fn is_enough(ours: usize, theirs: usize) -> bool {
    coverage_of_unpaired(ours, theirs) >= CERTAINTY
}

fn too_few_pairs(pairs: &[Pair]) -> Option<String> {
    let least = pairs.iter().filter(|pair| !pair.ratio.has_enough_values());
    let least = least.min_by(|a, b| a.ratio.coverage.total_cmp(&b.ratio.coverage))?;
    Some(format!(
        "there are too few rounds for a verdict: the confidence level is only {}. Use at least six rounds",
        least.ratio.certainty()
    ))
}

fn late_generator(candidate: &Candidate) -> Option<String> {
    let late = candidate.late_rounds().filter(|late| *late > 0)?;
    let waiting =
        candidate.rounds.iter().filter_map(|sample| sample.generator_waiting_share).fold(0.0, f64::max);
    Some(format!(
        "the load generator was late or was the bottleneck in {late} of {} rounds of `{}`, so the results are distorted. For up to {:.0} % of the time, it was ready to run but had no CPU core: pin it to separate cores",
        candidate.rounds.len(),
        candidate.name,
        waiting * 100.0
    ))
}

/// Returns the difference between the times of `candidate` and `against`, round by round. Returns `None` if
/// the metric is a rate.
fn added(metric: Metric, candidate: &Candidate, against: &Candidate) -> Option<Ratio> {
    if metric == Metric::AchievedRate {
        return None;
    }
    Ratio::of_differences(&zipped(&candidate.values(metric)?, &against.values(metric)?))
}

fn zipped(ours: &[f64], theirs: &[f64]) -> Vec<(f64, f64)> {
    ours.iter().copied().zip(theirs.iter().copied()).collect()
}

const TOO_FEW_OF_RUNS: &str = "there are too few rounds for a verdict: use at least four rounds, and a baseline with at least four rounds";
const PAIRED_RATIOS: &str = "The command computes each ratio (×) for every round, and shows the median of these ratios.\nThis median can differ from the ratio of the medians of the two servers.";
const SEPARATE_RUNS: &str = "the baseline was measured in another run, and the machine may have changed since then: the verdicts are likely, but not certain. For certainty, compare both servers in one run: `thruway bench compare 'URL -- OLD' 'URL -- NEW'`";
const FORMAT: &str = "thruway-bench-compare/3";
