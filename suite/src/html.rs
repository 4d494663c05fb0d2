//! The report of a suite as one page that needs nothing else: no network, no script.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serializer;

use crate::results::SuiteReport;
use crate::sections::{self, RatioBar};
use thruway_bench::report::{Bar, STYLE, bars};

impl SuiteReport {
    /// As a page for browsers.
    pub(crate) fn to_html(&self) -> String {
        let shown = sections::all(self);
        let mut templates = Environment::new();
        let rendered = templates.add_template("suite.html", TEMPLATE).and_then(|()| {
            let context = context! { title => TITLE, style => STYLE, sections => Value::from(Serde(&shown)) };
            templates.get_template("suite.html")?.render(context)
        });
        // The template is part of this program and is rendered in tests.
        rendered.unwrap_or_else(|error| format!("<!doctype html><p>{error}"))
    }
}

/// Serializes ratios as a drawing; as an empty text if there are none.
pub(crate) fn drawn<S: Serializer>(ratios: &[RatioBar], serializer: S) -> Result<S::Ok, S::Error> {
    if ratios.is_empty() {
        return serializer.serialize_str("");
    }
    let drawn = ratios.iter().map(|bar| Bar {
        label: bar.label.clone(),
        median: bar.ratio.median,
        low: bar.ratio.low,
        high: bar.ratio.high,
        class: match bar.ratio {
            ratio if ratio.holds_one() => "same",
            ratio if (ratio.median > 1.0) == bar.is_more_better => "better",
            _ => "worse",
        },
    });
    serializer.serialize_str(&bars("ours / theirs, with intervals", &drawn.collect::<Vec<_>>()))
}

const TITLE: &str = "The suite of Thruway";
const TEMPLATE: &str = include_str!("suite.html");
