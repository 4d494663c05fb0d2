//! The report of a suite as one page that needs nothing else: no network, no script.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serialize;

use crate::results::SuiteReport;
use crate::sections::{self, RatioBar, Section};
use thruway_bench::report::{Bar, STYLE, bars};

/// What the template shows of a section.
#[derive(Serialize)]
struct Shown {
    title: String,
    paragraphs: Vec<String>,
    tables: Vec<ShownTable>,
    bars: String,
    listings: Vec<[String; 2]>,
}

#[derive(Serialize)]
struct ShownTable {
    is_prose: bool,
    caption: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl SuiteReport {
    /// As a page for browsers.
    pub(crate) fn to_html(&self) -> String {
        let shown: Vec<Shown> = sections::all(self).into_iter().map(Shown::of).collect();
        let mut templates = Environment::new();
        let rendered = templates.add_template("suite.html", TEMPLATE).and_then(|()| {
            let context = context! { title => TITLE, style => STYLE, sections => Value::from(Serde(&shown)) };
            templates.get_template("suite.html")?.render(context)
        });
        // The template is part of this program and is rendered in tests.
        rendered.unwrap_or_else(|error| format!("<!doctype html><p>{error}"))
    }
}

impl Shown {
    fn of(section: Section) -> Self {
        let Section { title, paragraphs, tables, bars, listings } = section;
        let tables = tables.into_iter().map(|table| ShownTable {
            is_prose: table.is_prose,
            caption: table.caption,
            heads: table.heads,
            rows: table.rows,
        });
        Self {
            title,
            paragraphs,
            tables: tables.collect(),
            bars: drawn(&bars),
            listings: listings.into_iter().map(|(name, listing)| [name, listing]).collect(),
        }
    }
}

fn drawn(ratios: &[RatioBar]) -> String {
    if ratios.is_empty() {
        return String::new();
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
    bars("What is ours as a multiple of what is theirs, with intervals", &drawn.collect::<Vec<_>>())
}

const TITLE: &str = "The suite of Thruway";
const TEMPLATE: &str = include_str!("suite.html");
