//! Collects metrics for a scrape or for an export.

use thruway_telemetry::{HistogramPoint, MetricKind, MetricsCollection, MetricsEncoder, Number};

use super::negotiation::MetricsFormat;
use super::otel_names::{attributes_of, metric_of};
use super::text_format::TextMetrics;

/// The metrics of one scrape or export.
pub(super) struct Exposition(Output);

enum Output {
    Text(TextMetrics),
    Otlp(MetricsEncoder),
}

/// The samples of one metric.
pub(super) struct MetricFamily<'e> {
    output: &'e mut Output,
    name: &'static str,
}

impl Exposition {
    /// Creates a text for a scrape.
    pub(super) const fn new(format: MetricsFormat) -> Self {
        Self(Output::Text(TextMetrics::new(format)))
    }

    /// Collects the metrics in `encoder`.
    pub(super) const fn for_export(encoder: MetricsEncoder) -> Self {
        Self(Output::Otlp(encoder))
    }

    /// Begins a metric. Write all its samples before the next metric begins.
    pub(super) fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) -> MetricFamily<'_> {
        match &mut self.0 {
            Output::Text(text) => text.begin(name, kind, help),
            Output::Otlp(encoder) => encoder.begin(metric_of(name, kind, help)),
        }
        MetricFamily { output: &mut self.0, name }
    }

    /// Returns the text. Returns an empty text if the metrics were collected for an export.
    pub(super) fn into_text(self) -> String {
        match self.0 {
            Output::Text(text) => text.finish(),
            Output::Otlp(_) => String::new(),
        }
    }

    /// Returns the metrics for an export. Returns no metrics if this is a text.
    pub(super) fn into_collection(self) -> MetricsCollection {
        match self.0 {
            Output::Text(_) => MetricsCollection::default(),
            Output::Otlp(encoder) => encoder.finish(),
        }
    }
}

impl MetricFamily<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Number>) {
        match self.output {
            Output::Text(text) => text.sample(self.name, "", labels, value.into()),
            Output::Otlp(encoder) => encoder.add_number(&attributes_of(labels), value.into()),
        }
    }

    /// Adds the samples of a histogram.
    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], point: &HistogramPoint<'_>) {
        match self.output {
            Output::Text(text) => text.histogram(self.name, labels, point),
            Output::Otlp(encoder) => encoder.add_histogram(&attributes_of(labels), point),
        }
    }
}
