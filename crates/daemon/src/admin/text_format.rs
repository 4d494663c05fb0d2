//! Writes metrics in the text format of Prometheus, version 0.0.4, or in the format of OpenMetrics 1.0.

use std::fmt::Write as _;
use std::time::Duration;

use thruway_telemetry::{Exemplar, HistogramPoint, MetricKind, Number};

use super::negotiation::MetricsFormat;

/// Text of one scrape.
pub(super) struct TextMetrics {
    text: String,
    format: MetricsFormat,
}

impl TextMetrics {
    pub(super) const fn new(format: MetricsFormat) -> Self {
        Self { text: String::new(), format }
    }

    /// Writes the header of a metric.
    pub(super) fn begin(&mut self, name: &str, kind: MetricKind, help: &str) {
        let (kind, suffix) = match kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Histogram => ("histogram", ""),
            MetricKind::Gauge | MetricKind::UpDownCounter => ("gauge", ""),
        };
        // In OpenMetrics, the name of a metric does not contain the suffix of its samples.
        let title = if self.is_open() { name.strip_suffix(suffix).unwrap_or(name) } else { name };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {title} {help}\n# TYPE {title} {kind}\n");
    }

    /// Writes a sample. The suffix `ending`, such as `_bucket`, is a part of its name.
    pub(super) fn sample(&mut self, name: &str, ending: &str, labels: &[(&str, &str)], value: Number) {
        self.write_sample(name, ending, labels, value);
        self.text.push('\n');
    }

    /// Writes the samples of a histogram. The last bucket has no upper bound. Only OpenMetrics permits
    /// exemplars.
    pub(super) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], point: &HistogramPoint<'_>) {
        let bounds = point.bounds.iter().map(|bound| self.bound(*bound)).collect::<Vec<_>>();
        let mut sum = 0;
        let buckets = bounds.into_iter().chain(["+Inf".to_owned()]).zip(point.buckets).enumerate();
        for (place, (bound, count)) in buckets {
            sum += count;
            self.write_sample(name, "_bucket", &[labels, &[("le", &*bound)]].concat(), sum.into());
            let is_here = |exemplar: &&Exemplar| exemplar.bucket(point.bounds) == place;
            if let Some(exemplar) = point.exemplars.iter().find(is_here).filter(|_| self.is_open()) {
                self.write_exemplar(exemplar);
            }
            self.text.push('\n');
        }
        self.sample(name, "_sum", labels, point.sum.as_secs_f64().into());
        self.sample(name, "_count", labels, sum.into());
    }

    fn write_sample(&mut self, name: &str, ending: &str, labels: &[(&str, &str)], value: Number) {
        let _ = write!(self.text, "{name}{ending}");
        for (place, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"", if place == 0 { '{' } else { ',' });
            push_escaped(&mut self.text, value);
            self.text.push('"');
        }
        let _ = write!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Writes an exemplar. Its labels have 63 characters; the limit of OpenMetrics is 128.
    fn write_exemplar(&mut self, exemplar: &Exemplar) {
        let (trace, span) = (exemplar.trace_id.to_hex(), exemplar.span_id.to_hex());
        let text = |digits| str::from_utf8(digits).unwrap_or_default();
        let (trace, span) = (text(&trace), text(&span));
        let (value, milliseconds) = (exemplar.value.as_secs_f64(), exemplar.unix_nanos / 1_000_000);
        let (seconds, milliseconds) = (milliseconds / 1000, milliseconds % 1000);
        let _ = write!(
            self.text,
            " # {{trace_id=\"{trace}\",span_id=\"{span}\"}} {value:?} {seconds}.{milliseconds:03}"
        );
    }

    /// Returns the bound of a bucket as text. OpenMetrics requires a point in the number.
    fn bound(&self, bound: Duration) -> String {
        let bound = bound.as_secs_f64();
        if self.is_open() { format!("{bound:?}") } else { bound.to_string() }
    }

    fn is_open(&self) -> bool {
        self.format == MetricsFormat::OpenMetrics
    }

    /// Returns the text.
    pub(super) fn finish(mut self) -> String {
        if self.is_open() {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
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
    use thruway_telemetry::TraceParent;

    use super::*;

    const BOUNDS: [Duration; 2] = [Duration::from_micros(250), Duration::from_secs(1)];

    #[test]
    fn metric_labels_are_quoted_and_escaped() {
        let mut text = TextMetrics::new(MetricsFormat::Prometheus);
        text.begin("a_total", MetricKind::Counter, "What it is.");
        text.sample("a_total", "", &[], 1_u64.into());
        text.sample("a_total", "", &[("b", "x\"y\\z\n"), ("c", "")], 0.5.into());
        text.sample("a_total", "_sum", &[("b", "")], 2_u64.into());
        let expected = "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1\n\
                        a_total{b=\"x\\\"y\\\\z\\n\",c=\"\"} 0.5\na_total_sum{b=\"\"} 2\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn openmetrics_has_names_without_suffixes_and_an_end() {
        let mut text = TextMetrics::new(MetricsFormat::OpenMetrics);
        text.begin("a_total", MetricKind::Counter, "Help.");
        text.sample("a_total", "", &[], 1_u64.into());
        text.begin("b_info", MetricKind::Gauge, "Help.");
        text.sample("b_info", "", &[("c", "d")], 1_u64.into());
        text.begin("e_seconds", MetricKind::Histogram, "Help.");
        text.histogram("e_seconds", &[], &histogram(&[]));
        let expected = "# HELP a Help.\n# TYPE a counter\na_total 1\n\
                        # HELP b_info Help.\n# TYPE b_info gauge\nb_info{c=\"d\"} 1\n\
                        # HELP e_seconds Help.\n# TYPE e_seconds histogram\n\
                        e_seconds_bucket{le=\"0.00025\"} 1\ne_seconds_bucket{le=\"1.0\"} 3\n\
                        e_seconds_bucket{le=\"+Inf\"} 6\ne_seconds_sum 7\ne_seconds_count 6\n# EOF\n";
        assert_eq!(text.finish(), expected);
    }

    fn histogram(exemplars: &[Exemplar]) -> HistogramPoint<'_> {
        let sum = Duration::from_secs(7);
        HistogramPoint { bounds: &BOUNDS, buckets: &[1, 2, 3], sum, exemplars }
    }

    fn exemplar(value: Duration) -> Exemplar {
        let parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let TraceParent { trace_id, span_id, .. } = TraceParent::parse(parent).unwrap();
        Exemplar { trace_id, span_id, value, unix_nanos: 1_520_879_607_007_900_000 }
    }

    #[test]
    fn only_openmetrics_has_exemplars_in_their_buckets() {
        let exemplars = [exemplar(Duration::from_secs(2)), exemplar(Duration::from_micros(250))];
        let written = |format| {
            let mut text = TextMetrics::new(format);
            text.histogram("e_seconds", &[("a", "b")], &histogram(&exemplars));
            text.finish()
        };
        let ids = "trace_id=\"0af7651916cd43dd8448eb211c80319c\",span_id=\"b7ad6b7169203331\"";
        let expected = format!(
            "e_seconds_bucket{{a=\"b\",le=\"0.00025\"}} 1 # {{{ids}}} 0.00025 1520879607.007\n\
             e_seconds_bucket{{a=\"b\",le=\"1.0\"}} 3\n\
             e_seconds_bucket{{a=\"b\",le=\"+Inf\"}} 6 # {{{ids}}} 2.0 1520879607.007\n\
             e_seconds_sum{{a=\"b\"}} 7\ne_seconds_count{{a=\"b\"}} 6\n# EOF\n"
        );
        assert_eq!(written(MetricsFormat::OpenMetrics), expected);
        assert!(!written(MetricsFormat::Prometheus).contains('#'));
        let characters = ids.chars().filter(|character| character.is_alphanumeric() || *character == '_');
        assert!(characters.count() <= 128);
    }
}
