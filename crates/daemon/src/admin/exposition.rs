//! Writes metrics in the text format of Prometheus, version 0.0.4, or in the format of OpenMetrics 1.0.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use super::negotiation::MetricsFormat;

/// Text of one scrape.
pub(super) struct Exposition {
    text: String,
    format: MetricsFormat,
}

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
    format: MetricsFormat,
    name: &'static str,
}

impl Exposition {
    pub(super) const fn new(format: MetricsFormat) -> Self {
        Self { text: String::new(), format }
    }

    /// Begins a metric. Write all its samples before the next metric begins.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> MetricFamily<'_> {
        let is_open = self.format == MetricsFormat::OpenMetrics;
        let (kind, suffix) = match kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Histogram => ("histogram", ""),
            Kind::Gauge => ("gauge", ""),
        };
        // In OpenMetrics, the name of a metric does not contain the suffix of its samples.
        let title = if is_open { name.strip_suffix(suffix).unwrap_or(name) } else { name };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {title} {help}\n# TYPE {title} {kind}\n");
        MetricFamily { text: &mut self.text, format: self.format, name }
    }

    pub(super) fn into_text(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
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

    /// Returns the bound of a bucket as text. OpenMetrics requires a point in the number.
    fn bound(&self, bound: Duration) -> String {
        let bound = bound.as_secs_f64();
        match self.format {
            MetricsFormat::Prometheus => bound.to_string(),
            MetricsFormat::OpenMetrics => format!("{bound:?}"),
        }
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
    let bounds: Vec<_> = bounds.iter().map(|bound| family.bound(*bound)).collect();
    for (bound, count) in bounds.into_iter().chain(["+Inf".to_owned()]).zip(buckets) {
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
        let mut exposition = Exposition::new(MetricsFormat::Prometheus);
        let mut family = exposition.family("a_total", Kind::Counter, "What it is.");
        family.sample(&[], 1);
        family.sample(&[("b", "x\"y\\z\n"), ("c", "")], 0.5);
        family.part("_sum", &[("b", "")], 2);
        let expected = "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1\n\
                        a_total{b=\"x\\\"y\\\\z\\n\",c=\"\"} 0.5\na_total_sum{b=\"\"} 2\n";
        assert_eq!(exposition.into_text(), expected);
    }
    #[test]
    fn openmetrics_has_names_without_suffixes_and_an_end() {
        let mut exposition = Exposition::new(MetricsFormat::OpenMetrics);
        exposition.family("a_total", Kind::Counter, "Help.").sample(&[], 1);
        exposition.family("b_info", Kind::Gauge, "Help.").sample(&[("c", "d")], 1);
        let mut family = exposition.family("e_seconds", Kind::Histogram, "Help.");
        let bounds = [Duration::from_micros(250), Duration::from_secs(1)];
        write_histogram(&mut family, &[], &bounds, &[1, 2, 3], Duration::from_secs(7));
        let expected = "# HELP a Help.\n# TYPE a counter\na_total 1\n\
                        # HELP b_info Help.\n# TYPE b_info gauge\nb_info{c=\"d\"} 1\n\
                        # HELP e_seconds Help.\n# TYPE e_seconds histogram\n\
                        e_seconds_bucket{le=\"0.00025\"} 1\ne_seconds_bucket{le=\"1.0\"} 3\n\
                        e_seconds_bucket{le=\"+Inf\"} 6\ne_seconds_sum 7\ne_seconds_count 6\n# EOF\n";
        assert_eq!(exposition.into_text(), expected);
    }
}
