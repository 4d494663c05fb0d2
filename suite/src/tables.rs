//! Tables, the same for every form.

use crate::figures::{Figures, Metric, as_f64};
use crate::layout::LAYOUT;
use crate::results::{CandidateResult, CaseResult};
use serde::Serialize;
use thruway_bench::report::{rate, three_digits};
use thruway_bench::statistics::Ratio;

/// A table of text; the first column names what the rows are about.
#[derive(Serialize)]
pub(crate) struct Table {
    /// `true` for words, which may wrap; `false` for figures.
    pub(crate) is_prose: bool,
    pub(crate) caption: String,
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Of figures.
    pub(crate) fn new(caption: impl Into<String>, heads: Vec<String>, rows: Vec<Vec<String>>) -> Self {
        Self { is_prose: false, caption: caption.into(), heads, rows }
    }

    /// Of words.
    pub(crate) fn prose(caption: impl Into<String>, heads: &[&str], rows: Vec<Vec<String>>) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { is_prose: true, ..Self::new(caption, heads, rows) }
    }

    /// Returns `None` if there are no rows.
    pub(crate) fn or_nothing(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }
}

/// A row for each candidate, a column for each case: medians.
pub(crate) fn by_case(cases: &[&CaseResult], metric: Metric) -> Option<Table> {
    let rows = names(cases).into_iter().filter_map(|name| {
        let cells: Vec<_> = cases
            .iter()
            .map(|case| case.candidate(name).and_then(|found| median(metric, &found.rounds)))
            .collect();
        row(name, cells)
    });
    columns(metric.label(), cases, rows.collect()).or_nothing()
}

/// The same with what is ours as a multiple of what is theirs.
pub(crate) fn ratios_by_case(cases: &[&CaseResult], metric: Metric) -> Option<Table> {
    let rows = names(cases).into_iter().skip(1).filter_map(|name| {
        let cells: Vec<_> = cases
            .iter()
            .map(|case| ratio(metric, case.ours()?, case.candidate(name)?).map(with_interval))
            .collect();
        row(name, cells)
    });
    columns(&format!("{}, ours / theirs", metric.label()), cases, rows.collect()).or_nothing()
}

/// A row for each case, a column for each candidate, and what is ours as a multiple of each other's.
pub(crate) fn by_candidate(cases: &[&CaseResult], metric: Metric) -> Option<Table> {
    let names = names(cases);
    let mut heads = vec!["case".to_owned()];
    heads.extend(names.iter().map(|name| (*name).to_owned()));
    heads.extend(names.iter().skip(1).map(|name| format!("ours / {name}")));
    let rows = cases.iter().filter_map(|case| {
        let medians = names.iter().map(|name| median(metric, &case.candidate(name)?.rounds));
        let others = names.iter().skip(1);
        let ratios = others.map(|name| ratio(metric, case.ours()?, case.candidate(name)?).map(with_interval));
        row(&case.name, medians.chain(ratios).collect())
    });
    Table::new(metric.label(), heads, rows.collect()).or_nothing()
}

/// All figures of ours: a row for each case.
pub(crate) fn in_full(caption: &str, cases: &[&CaseResult]) -> Option<Table> {
    let figures = LAYOUT.in_full.iter().map(|metric| metric.label());
    let heads = ["case"].into_iter().chain(figures).chain(["answered", "success"]);
    let heads = heads.map(str::to_owned).collect();
    let rows = cases.iter().filter_map(|case| {
        let rounds = &case.ours()?.rounds;
        let cells = LAYOUT.in_full.iter().map(|metric| median(*metric, rounds));
        row(&case.name, cells.chain([Some(answered(rounds)), Some(success(rounds))]).collect())
    });
    Table::new(caption, heads, rows.collect()).or_nothing()
}

/// Counts the answered and the failed requests of each candidate.
pub(crate) fn outcomes(cases: &[&CaseResult]) -> Option<Table> {
    let rows = names(cases).into_iter().filter_map(|name| {
        let cells = cases.iter().map(|case| {
            let rounds = &case.candidate(name)?.rounds;
            let failed: u64 = rounds.iter().map(|figures| figures.failed).sum();
            Some(format!("{} / {failed}", answered(rounds)))
        });
        row(name, cells.collect())
    });
    columns("answered / failed, all rounds", cases, rows.collect()).or_nothing()
}

/// The names of all candidates, ours first.
pub(crate) fn names<'a>(cases: &[&'a CaseResult]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for candidate in cases.iter().flat_map(|case| &case.candidates) {
        if !names.contains(&candidate.name.as_str()) {
            names.push(candidate.name.as_str());
        }
    }
    names
}

/// A ratio with its interval.
pub(crate) fn with_interval(Ratio { median, low, high, .. }: Ratio) -> String {
    format!("{} ({} to {})", three_digits(median), three_digits(low), three_digits(high))
}

/// Returns `ours` as a multiple of `theirs`.
pub(crate) fn ratio(metric: Metric, ours: &CandidateResult, theirs: &CandidateResult) -> Option<Ratio> {
    metric.ratio(&ours.rounds, &theirs.rounds)
}

pub(crate) fn median(metric: Metric, rounds: &[Figures]) -> Option<String> {
    metric.summary(rounds).map(|summary| metric.format(summary.median))
}

fn columns(caption: &str, cases: &[&CaseResult], rows: Vec<Vec<String>>) -> Table {
    let heads = cases.iter().map(|case| shortened(&case.name).to_owned());
    Table::new(caption, [String::new()].into_iter().chain(heads).collect(), rows)
}

/// Without the workload, which stands above the table.
pub(crate) fn shortened(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, rest)| rest)
}

/// A row, if there is anything in it.
pub(crate) fn row(name: &str, cells: Vec<Option<String>>) -> Option<Vec<String>> {
    if cells.iter().all(Option::is_none) {
        return None;
    }
    let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "–".to_owned()));
    Some([name.to_owned()].into_iter().chain(cells).collect())
}

fn answered(rounds: &[Figures]) -> String {
    rate(as_f64(rounds.iter().map(|figures| figures.answered).sum()))
}

fn success(rounds: &[Figures]) -> String {
    let answered: u64 = rounds.iter().map(|figures| figures.answered).sum();
    let failed: u64 = rounds.iter().map(|figures| figures.failed).sum();
    match failed {
        0 => "100 %".to_owned(),
        _ => format!("{:.3} %", 100.0 * as_f64(answered) / as_f64(answered + failed)),
    }
}
