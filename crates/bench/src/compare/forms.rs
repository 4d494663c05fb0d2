//! Output formats of a comparison.

use std::fmt::Write as _;

use schemars::{Schema, schema_for};

use super::comparison::Comparison;
use crate::report::{self, Report};
use crate::statistics::Ratio;

impl Comparison {
    /// Returns the JSON Schema of comparisons.
    pub fn schema() -> Schema {
        schema_for!(Comparison)
    }

    /// Formats the comparison as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Formats the comparison as plain-text tables.
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
        let mut last_heading = None;
        for pair in &self.pairs {
            let Ratio { median, low, high, .. } = pair.ratio;
            let certainty = pair.certainty();
            let heading = (&pair.candidate, &pair.against);
            if last_heading.replace(heading) != Some(heading) {
                let _ = writeln!(text, "\n{} against {}", pair.candidate, pair.against);
            }
            let (metric, verdict) = (pair.metric.label(), pair.verdict.words());
            let _ = writeln!(
                text,
                "  {metric:<11} ×{median:.3}   ({certainty}: {low:.3} to {high:.3})   {verdict}"
            );
            if pair.added_us.is_some() {
                let _ = writeln!(text, "  {:<11} {}", "added", pair.added_in_words());
            }
        }
        if let Some(note) = self.note() {
            let _ = writeln!(text, "\n{note}");
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "\nwarning: {warning}");
        }
        text
    }

    /// Formats the comparison as Markdown.
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
        if let Some(note) = self.note() {
            let _ = writeln!(text, "\n{note}");
        }
        for warning in &self.warnings {
            let _ = write!(text, "\n**Warning:** {warning}\n");
        }
        text
    }

    /// Formats the reports as CSV: one line for each candidate and round.
    pub fn to_csv<'a>(reports: impl Iterator<Item = &'a Report>) -> String {
        report::to_csv(reports)
    }

    /// Formats the comparison as an HTML page that includes the report of each candidate's last round.
    pub fn to_html(&self, reports: &[Report]) -> String {
        let names: Vec<_> = self.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        report::page(&names.join(" · "), reports, Some(self))
    }
}

const HEADS_OF_PAIRS: &str =
    "\n| | against | metric | ratio | interval | added | verdict |\n|---|---|---|--:|--:|--:|---|\n";
