//! Writes reports as a self-contained HTML page without scripts.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context};
use serde::Serialize;

use super::contents::{Part, Report};

use super::figures::{rate, three_digits, time};
use super::plot::{Bar, Line, Plot, bars};
use super::text;
use super::{environment, stages, steps, thresholds};
use crate::compare::comparison::Comparison;
use crate::compare::verdict::{Metric, Pair, Verdict};

/// Data about one load for the HTML template.
#[derive(Serialize)]
struct LoadSummary {
    target: String,
    connection_options: String,
    overview: Vec<[String; 2]>,
    errors: Vec<[String; 2]>,
    thresholds: Vec<[String; 2]>,
    warnings: Vec<String>,
    times: Vec<TimesRow>,
    stages: Vec<Vec<String>>,
    steps: Vec<Vec<String>>,
    urls: Vec<Vec<String>>,
    rate_plot: String,
    times_plot: String,
}

#[derive(Serialize)]
struct TimesRow {
    name: &'static str,
    values: Vec<String>,
}

#[derive(Serialize)]
struct ShownPair {
    candidate: String,
    against: String,
    metric: &'static str,
    ratio: String,
    interval: String,
    added: String,
    verdict: &'static str,
    class: &'static str,
}

/// The name of a plotted curve, and the function that returns its value for each part.
type Series<'a> = (&'a str, fn(&Part) -> f64);

/// Returns an HTML page with one or more reports, and with their comparison if there is one.
pub(crate) fn page(title: &str, reports: &[Report], comparison: Option<&Comparison>) -> String {
    let mut templates = Environment::new();
    // With this setting, a missing value is an error. Otherwise, the page would be incomplete without notice.
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    let shown: Vec<LoadSummary> = reports.iter().map(shown).collect();
    let pairs = comparison.map(|comparison| comparison.pairs.iter().map(shown_pair).collect::<Vec<_>>());
    let of_report = reports.first().and_then(|report| report.environment.as_ref());
    let environment = comparison.and_then(|comparison| comparison.environment.as_ref()).or(of_report);
    let rendered = templates.add_template("report.html", TEMPLATE).and_then(|()| {
        templates.get_template("report.html")?.render(context! {
            title,
            style => STYLE,
            loads => Value::from(Serde(&shown)),
            pairs => Value::from(Serde(&pairs)),
            doubts => comparison.map(|comparison| comparison.warnings.clone()).unwrap_or_default(),
            distribution => distribution(reports),
            bars => comparison.map(comparison_bars),
            note => comparison.and_then(Comparison::note),
            environment => Value::from(Serde(&environment.map(environment::Environment::rows))),
        })
    });
    // An error is not expected, because the template is part of this program and tests render it.
    rendered.unwrap_or_else(|error| format!("<!doctype html><p>{error}"))
}

fn shown(report: &Report) -> LoadSummary {
    let rows = [("response", &report.response_time), ("service", &report.service_time)];
    let closed = [("time", &report.response_time)];
    let rows = if report.is_open() { &rows[..] } else { &closed[..] };
    // Without any response, there are no times to show.
    let rows = if report.response_time.max_us > 0.0 { rows } else { &[] };
    let times = rows.iter().map(|(name, times)| TimesRow {
        name,
        values: [times.p50_us, times.p90_us, times.p99_us, times.p99_9_us, times.max_us]
            .map(|time| times.format_time(time))
            .to_vec(),
    });
    LoadSummary {
        target: report.target.clone(),
        connection_options: text::connection_options(report),
        overview: text::overview(report),
        errors: text::errors(report),
        thresholds: thresholds::rows(&report.thresholds),
        warnings: report.warnings.clone(),
        times: times.collect(),
        stages: stages::table(&report.stages),
        steps: steps::table(&report.steps),
        urls: steps::table_of_urls(&report.urls, &report.steps),
        rate_plot: over_time(
            report,
            "Requests per second over time",
            rate,
            &[("answered", |part| part.requests_per_second)],
        ),
        times_plot: over_time(
            report,
            "Response times over time",
            time,
            &[("p50", |part| part.p50_us), ("p99", |part| part.p99_us), ("max", |part| part.max_us)],
        ),
    }
}

/// Plots the response times of all loads by percentile. On the horizontal axis, the range from 90 to 99 %
/// is as wide as the range from 99 to 99.9 %.
fn distribution(reports: &[Report]) -> String {
    let place = |percentile: f64| -(1.0 - percentile / 100.0).log10();
    let lines = reports.iter().map(|report| {
        let curve = report.response_time.curve.iter().filter(|point| point.percentile < 100.0);
        Line {
            name: report.target.clone(),
            points: curve.map(|point| (place(point.percentile), point.time_us)).collect(),
        }
    });
    let lines: Vec<Line> = lines.collect();
    let last =
        lines.iter().filter_map(|line| line.points.last()).fold(1.0, |last: f64, point| last.max(point.0));
    let marks = [
        (0.0, "0"),
        (50.0, "50"),
        (90.0, "90"),
        (99.0, "99"),
        (99.9, "99.9"),
        (99.99, "99.99"),
        (99.999, "99.999"),
    ];
    let marks = marks.into_iter().map(|(percentile, label)| (place(percentile), label.to_owned()));
    let x_marks = marks.filter(|(at, _)| *at <= last + 0.05).collect();
    let title = "Response times by percentile";
    Plot { title, lines, x_marks, format_y: time, is_logarithmic: true }.svg()
}

fn over_time(report: &Report, title: &str, format_y: fn(f64) -> String, series: &[Series<'_>]) -> String {
    let lines = series.iter().map(|(name, value)| Line {
        name: (*name).to_owned(),
        points: report.over_time.iter().map(|part| (part.at_seconds, value(part))).collect(),
    });
    let end = report.elapsed_seconds;
    let x_marks = (0..=4).map(|quarter| {
        let at = end * f64::from(quarter) / 4.0;
        (at, format!("{} s", three_digits(at)))
    });
    let is_logarithmic = series.len() > 1;
    Plot { title, lines: lines.collect(), x_marks: x_marks.collect(), format_y, is_logarithmic }.svg()
}

fn comparison_bars(comparison: &Comparison) -> String {
    let shown = comparison.pairs.iter().map(|pair| Bar {
        label: format!("{}: {} ×{:.3}", shortened(&pair.candidate), pair.metric.label(), pair.ratio.median),
        median: pair.ratio.median,
        low: pair.ratio.low,
        high: pair.ratio.high,
        class: class(pair.verdict),
    });
    bars("Ratios to the first candidate, with confidence intervals", &shown.collect::<Vec<_>>())
}

/// Shortens the name of a candidate so that it fits above its bar.
fn shortened(name: &str) -> String {
    let name = name.trim_start_matches("http://");
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME_MAX - 1).collect();
    format!("{start}…")
}

fn shown_pair(pair: &Pair) -> ShownPair {
    let is_rate = pair.metric == Metric::AchievedRate;
    ShownPair {
        candidate: shortened(&pair.candidate),
        against: shortened(&pair.against),
        metric: if is_rate { "requests/s" } else { pair.metric.label() },
        ratio: format!("{:.3}", pair.ratio.median),
        interval: format!("{:.3} to {:.3} ({})", pair.ratio.low, pair.ratio.high, pair.certainty()),
        added: pair.added_in_words(),
        verdict: pair.verdict.words(),
        class: class(pair.verdict),
    }
}

const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster | Verdict::LikelyFaster => "better",
        Verdict::Slower | Verdict::LikelySlower | Verdict::Failed => "worse",
        Verdict::NoDifferenceShown | Verdict::GeneratorLate => "same",
    }
}

const NAME_MAX: usize = 44;
/// The CSS of each HTML page.
pub const STYLE: &str = include_str!("style.css");
const TEMPLATE: &str = include_str!("report.html");
