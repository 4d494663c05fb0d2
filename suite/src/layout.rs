//! The texts of reports and the metrics of their tables, which `suite/data/report.toml` lists.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::case::Workload;
use crate::figures::Metric;

/// The layout of all reports. The file is part of this program, and a test reads it.
pub(crate) static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/report.toml")).unwrap_or_else(|error| panic!("report.toml: {error}"))
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    /// The paragraph about the method of measurement.
    pub(crate) method: String,
    /// Columns of the CSV form.
    pub(crate) csv: Vec<Metric>,
    /// Columns of the tables with all figures of ours.
    pub(crate) in_full: Vec<Metric>,
    workload: BTreeMap<Workload, WorkloadLayout>,
}

/// The section of a workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkloadLayout {
    pub(crate) title: String,
    /// A paragraph about its figures.
    pub(crate) about: Option<String>,
    /// A table for each; none if the section has tables of its own.
    #[serde(default)]
    pub(crate) metrics: Vec<Metric>,
}

impl Layout {
    pub(crate) fn of(&self, workload: Workload) -> &WorkloadLayout {
        &self.workload[&workload]
    }
}
