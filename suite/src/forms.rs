//! The report of a suite as Markdown, as text for a terminal and as CSV.

use std::fmt::Write as _;

use crate::html;
use crate::layout::LAYOUT;
use crate::results::SuiteReport;
use crate::sections;
use crate::tables::Table;
use thruway_bench::report::quoted;

impl SuiteReport {
    /// As Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        html::render("suite.md", &sections::all(self))
    }

    /// For a terminal: the summary.
    pub(crate) fn to_text(&self) -> String {
        let summary = sections::summary(self);
        let mut text = summary.paragraphs.join("\n");
        text.push('\n');
        for table in &summary.tables {
            aligned(&mut text, table);
        }
        text
    }

    /// As CSV: a line for each candidate and round. Times are in microseconds.
    pub(crate) fn to_csv(&self) -> String {
        let mut csv = "workload,case,candidate,round,answered,failed".to_owned();
        for metric in &LAYOUT.csv {
            let _ = write!(csv, ",{}", metric.label().replace(['/', ' '], "_"));
        }
        csv.push_str("\r\n");
        for case in &self.cases {
            for candidate in &case.candidates {
                for (round, figures) in candidate.rounds.iter().enumerate() {
                    let (workload, name) = (case.workload.name(), quoted(&case.name));
                    let _ = write!(csv, "{workload},{name},{},{}", candidate.name, round + 1);
                    let _ = write!(csv, ",{},{}", figures.answered, figures.failed);
                    for value in LAYOUT.csv.iter().map(|metric| metric.of(figures)) {
                        let _ = write!(csv, ",{}", value.map_or_else(String::new, |value| value.to_string()));
                    }
                    csv.push_str("\r\n");
                }
            }
        }
        csv
    }
}

fn aligned(text: &mut String, table: &Table) {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..table.heads.len()).map(width).collect();
    let _ = write!(text, "\n{}\n", table.caption);
    for row in &table.rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:<width$}"));
        let _ = writeln!(text, "{}", cells.collect::<String>().trim_end());
    }
}
