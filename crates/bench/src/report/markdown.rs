//! A report as Markdown.

use std::fmt::Write as _;

use super::{Report, text};

pub(super) fn report(report: &Report) -> String {
    let mut markdown = format!("# {}\n\n{}\n\n", escaped(&report.target), text::manner(report));
    table(&mut markdown, ["", ""], &text::overview(report));
    markdown.push_str("\n| time | p50 | p90 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|\n");
    let rows = [("response", &report.response_time), ("service", &report.service_time)];
    let shown = if report.offered_rate.is_some() { &rows[..] } else { &rows[1..] };
    for (name, times) in shown {
        let _ = write!(markdown, "| {name} |");
        for value in [times.p50, times.p90, times.p99, times.p99_9, times.max] {
            let _ = write!(markdown, " {} |", times.told(value));
        }
        markdown.push('\n');
    }
    if !report.errors.is_empty() {
        markdown.push('\n');
        table(&mut markdown, ["failed", "how"], &text::errors(report));
    }
    for warning in &report.warnings {
        let _ = write!(markdown, "\n**Warning:** {warning}\n");
    }
    markdown
}

fn table(markdown: &mut String, heads: [&str; 2], rows: &[[String; 2]]) {
    let _ = write!(markdown, "| {} | {} |\n|---|---|\n", heads[0], heads[1]);
    for [name, value] in rows {
        let _ = writeln!(markdown, "| {} | {} |", escaped(name), escaped(value));
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
