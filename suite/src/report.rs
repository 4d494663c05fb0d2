//! The report of a suite as Markdown. `suite/data/report.md` is its template.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};

use crate::results::SuiteReport;
use crate::sections::sections;

impl SuiteReport {
    /// Returns the report as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut templates = Environment::new();
        templates.add_filter("cell", |text: &str| escaped(text));
        let rendered = templates.render_str(
            include_str!("../data/report.md"),
            context! { sections => Value::from(Serde(sections(self))) },
        );
        // The template is compiled into this program, and tests render it.
        rendered.unwrap_or_else(|error| format!("cannot render the report: {error}"))
    }
}

/// Escapes Markdown, and joins lines, because a table cell must be one line.
fn escaped(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
