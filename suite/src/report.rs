//! The report of a suite as Markdown. `suite/data/report.toml` lists its texts and the metrics of its tables,
//! and `suite/data/report.md` is its template.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Deserialize;

use crate::case::Workload;
use crate::figures::Metric;
use crate::results::SuiteReport;
use crate::sections::sections;

/// The layout of all reports. The file is part of this program, and a test reads it.
pub(crate) static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/report.toml")).unwrap_or_else(|error| panic!("report.toml: {error}"))
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    /// The paragraph about the method of measurement.
    pub(crate) method: String,
    pub(crate) workload: BTreeMap<Workload, WorkloadLayout>,
}

/// The section of a workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkloadLayout {
    pub(crate) title: String,
    /// A paragraph about its figures.
    pub(crate) about: Option<String>,
    /// The columns of its table.
    pub(crate) metrics: Vec<Metric>,
    /// Pairs of cases: the rate in the first is divided by the rate in the second.
    #[serde(default)]
    pub(crate) shares: Vec<[String; 2]>,
}

impl SuiteReport {
    /// Returns the report as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut templates = Environment::new();
        templates.add_filter("cell", |text: &str| escaped(text));
        let rendered = templates.render_str(
            include_str!("../data/report.md"),
            context! { sections => Value::from(Serde(sections(self))) },
        );
        // The template is part of this program, and tests render it.
        rendered.unwrap_or_else(|error| format!("cannot render the report: {error}"))
    }
}

/// Escapes Markdown: blanks at the ends of lines are a line break, and bars separate columns.
fn escaped(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
