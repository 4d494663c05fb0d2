//! The report of a suite as Markdown, as text for a terminal and as CSV.

use std::fmt::Write as _;

use crate::layout::LAYOUT;
use crate::results::SuiteReport;
use crate::sections::{self, Section};
use crate::tables::Table;
use thruway_bench::report::quoted;

impl SuiteReport {
    /// As Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = "# The suite of Thruway\n".to_owned();
        for section in sections::all(self) {
            markdown(&mut text, &section);
        }
        text
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

fn markdown(text: &mut String, section: &Section) {
    let _ = write!(text, "\n## {}\n", section.title);
    for paragraph in &section.paragraphs {
        let _ = write!(text, "\n{}\n", escaped(paragraph));
    }
    for Table { caption, heads, rows, .. } in &section.tables {
        let line = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|cell| escaped(cell)).collect();
            format!("| {} |", cells.join(" | "))
        };
        let _ = write!(text, "\n### {}\n\n{}\n|", escaped(caption), line(heads));
        text.push_str(&"---|".repeat(heads.len()));
        text.push('\n');
        for row in rows {
            let _ = writeln!(text, "{}", line(row));
        }
    }
    for (name, listing) in &section.listings {
        let _ = write!(
            text,
            "\n<details><summary>{}</summary>\n\n```\n{}\n```\n\n</details>\n",
            escaped(name),
            listing.trim_end()
        );
    }
}

/// Blanks at the ends of lines would be a line break, and bars a column.
fn escaped(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
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
