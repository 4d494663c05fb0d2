//! Writes metrics in the text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};
use std::time::Duration;

/// Text of one scrape.
#[derive(Default)]
pub(super) struct Exposition(String);

/// Type of a metric.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The samples of one metric.
pub(super) struct MetricFamily<'e> {
    text: &'e mut String,
    name: &'static str,
}

impl Exposition {
    pub(super) const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a metric. Write all its samples before the next metric begins.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> MetricFamily<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        MetricFamily { text: &mut self.0, name }
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl MetricFamily<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// Adds a sample with the suffix `ending` in its name, such as `_bucket` in a histogram.
    pub(super) fn part(&mut self, ending: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{ending}", self.name);
        for (place, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"", if place == 0 { '{' } else { ',' });
            push_escaped(self.text, value);
            self.text.push('"');
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

/// Writes the samples of a histogram. The last bucket has no upper bound.
pub(super) fn write_histogram(
    family: &mut MetricFamily<'_>,
    labels: &[(&str, &str)],
    bounds: &[Duration],
    buckets: &[u64],
    total: Duration,
) {
    let mut sum = 0;
    let bounds = bounds.iter().map(|bound| bound.as_secs_f64().to_string());
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(buckets) {
        sum += count;
        family.part("_bucket", &[labels, &[("le", &*bound)]].concat(), sum);
    }
    family.part("_sum", labels, total.as_secs_f64());
    family.part("_count", labels, sum);
}

fn push_escaped(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_labels_are_quoted_and_escaped() {
        let mut exposition = Exposition::default();
        let mut family = exposition.family("a_total", Kind::Counter, "What it is.");
        family.sample(&[], 1);
        family.sample(&[("b", "x\"y\\z\n"), ("c", "")], 0.5);
        family.part("_sum", &[("b", "")], 2);
        let expected = "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1\n\
                        a_total{b=\"x\\\"y\\\\z\\n\",c=\"\"} 0.5\na_total_sum{b=\"\"} 2\n";
        assert_eq!(exposition.into_text(), expected);
    }
}
