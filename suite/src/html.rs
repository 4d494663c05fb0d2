//! Reports from templates: Markdown, and one page that needs nothing else, neither network nor script.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serializer;

use crate::results::SuiteReport;
use crate::sections::{self, RatioBar, Section};
use thruway_bench::report::{Bar, STYLE, bars};

impl SuiteReport {
    /// Returns the report as a page for browsers.
    pub(crate) fn to_html(&self) -> String {
        render("suite.html", &sections::all(self))
    }
}

/// Renders the sections of a report with one of the templates.
pub(crate) fn render(name: &str, sections: &[Section]) -> String {
    let mut templates = Environment::new();
    templates.add_filter("cell", |text: &str| escaped(text));
    let rendered = TEMPLATES.iter().try_for_each(|(name, text)| templates.add_template(name, text));
    let rendered = rendered.and_then(|()| {
        let context = context! { title => TITLE, style => STYLE, sections => Value::from(Serde(sections)) };
        templates.get_template(name)?.render(context)
    });
    // The templates are part of this program, and tests render them.
    rendered.unwrap_or_else(|error| format!("cannot render the report: {error}"))
}

/// Escapes Markdown: blanks at the ends of lines are a line break, and bars separate columns.
fn escaped(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
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
            ratio if ratio.contains_one() => "same",
            ratio if (ratio.median > 1.0) == bar.is_more_better => "better",
            _ => "worse",
        },
    });
    serializer.serialize_str(&bars("ours / theirs, with intervals", &drawn.collect::<Vec<_>>()))
}

const TITLE: &str = "The suite of Thruway";
const TEMPLATES: [(&str, &str); 2] =
    [("suite.html", include_str!("suite.html")), ("suite.md", include_str!("suite.md"))];
