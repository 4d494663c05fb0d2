//! Decodes exported metrics (OTLP), independently of the encoder.

use std::collections::BTreeMap;

use crate::otlp::{Field, attributes_in, fields, hexadecimal, messages, text};

/// A decoded metric.
#[derive(Clone, Default, Debug)]
pub struct DecodedMetric {
    /// The name.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// `gauge`, `sum`, `monotonic sum` or `histogram`. Sums and histograms are cumulative.
    pub kind: &'static str,
    /// The data points.
    pub points: Vec<DecodedPoint>,
}

/// A decoded data point.
#[derive(Clone, Default, Debug)]
pub struct DecodedPoint {
    /// The attributes. Numbers are decimal.
    pub attributes: BTreeMap<String, String>,
    /// Start and time in nanoseconds since the Unix epoch.
    pub nanos: (u64, u64),
    /// The value, or the sum of a histogram.
    pub value: f64,
    /// Number of values in a histogram.
    pub count: u64,
    /// Number of values in each bucket of a histogram.
    pub buckets: Vec<u64>,
    /// The bounds of a histogram.
    pub bounds: Vec<f64>,
    /// The exemplars of a histogram.
    pub exemplars: Vec<DecodedExemplar>,
}

/// A decoded exemplar. Ids are hexadecimal.
#[derive(Clone, Default, Debug)]
pub struct DecodedExemplar {
    /// The trace.
    pub trace_id: String,
    /// The span.
    pub span_id: String,
    /// The measured value.
    pub value: f64,
    /// Time in nanoseconds since the Unix epoch.
    pub nanos: u64,
}

/// Decodes an `ExportMetricsServiceRequest`. Returns the attributes of its resource, and its metrics.
///
/// # Panics
/// Panics if the message is malformed.
pub fn decode_metrics(message: &[u8]) -> (BTreeMap<String, String>, Vec<DecodedMetric>) {
    let (mut resource, mut metrics) = (BTreeMap::new(), Vec::new());
    for (_, of_resource) in messages(message, 1) {
        for (_, attributes) in messages(of_resource, 1) {
            resource = attributes_in(attributes, 1);
        }
        for (_, of_scope) in messages(of_resource, 2) {
            metrics.extend(messages(of_scope, 2).map(|(_, metric)| decode_metric(metric)));
        }
    }
    (resource, metrics)
}

fn decode_metric(message: &[u8]) -> DecodedMetric {
    let mut metric = DecodedMetric::default();
    for (number, field) in fields(message) {
        match (number, field) {
            (1, Field::Bytes(name)) => metric.name = text(name),
            (3, Field::Bytes(unit)) => metric.unit = text(unit),
            (5, Field::Bytes(gauge)) => metric.set_data("gauge", gauge, 7),
            (7, Field::Bytes(sum)) => {
                let is_monotonic = fields(sum).any(|field| matches!(field, (3, Field::Integer(1))));
                metric.set_data(if is_monotonic { "monotonic sum" } else { "sum" }, sum, 7);
            }
            (9, Field::Bytes(histogram)) => metric.set_data("histogram", histogram, 9),
            _ => {}
        }
    }
    metric
}

impl DecodedMetric {
    fn set_data(&mut self, kind: &'static str, data: &[u8], attributes: u64) {
        let is_cumulative = fields(data).any(|field| matches!(field, (2, Field::Integer(2))));
        assert_eq!(is_cumulative, kind != "gauge", "{}", self.name);
        self.kind = kind;
        self.points = messages(data, 1).map(|(_, point)| decode_point(point, attributes)).collect();
    }
}

fn decode_point(message: &[u8], attributes: u64) -> DecodedPoint {
    let is_histogram = attributes == 9;
    let mut point =
        DecodedPoint { attributes: attributes_in(message, attributes), ..DecodedPoint::default() };
    for (number, field) in fields(message) {
        match (number, field, is_histogram) {
            (2, Field::Integer(nanos), _) => point.nanos.0 = nanos,
            (3, Field::Integer(nanos), _) => point.nanos.1 = nanos,
            (4, Field::Integer(count), true) => point.count = count,
            (4, Field::Integer(bits), false) | (5, Field::Integer(bits), true) => {
                point.value = f64::from_bits(bits);
            }
            #[expect(clippy::cast_precision_loss, reason = "tests count to small numbers")]
            (6, Field::Integer(value), false) => point.value = value as f64,
            (6, Field::Bytes(packed), true) => point.buckets = unpacked(packed),
            (7, Field::Bytes(packed), true) => {
                point.bounds = unpacked(packed).into_iter().map(f64::from_bits).collect();
            }
            (8, Field::Bytes(exemplar), true) => point.exemplars.push(decode_exemplar(exemplar)),
            _ => {}
        }
    }
    point
}

fn decode_exemplar(message: &[u8]) -> DecodedExemplar {
    let mut exemplar = DecodedExemplar::default();
    for (number, field) in fields(message) {
        match (number, field) {
            (2, Field::Integer(nanos)) => exemplar.nanos = nanos,
            (3, Field::Integer(bits)) => exemplar.value = f64::from_bits(bits),
            (4, Field::Bytes(id)) => exemplar.span_id = hexadecimal(id),
            (5, Field::Bytes(id)) => exemplar.trace_id = hexadecimal(id),
            _ => {}
        }
    }
    exemplar
}

/// Returns the values of a packed field.
fn unpacked(bytes: &[u8]) -> Vec<u64> {
    let (values, rest) = bytes.as_chunks();
    assert!(rest.is_empty(), "a packed field has whole values");
    values.iter().map(|value| u64::from_le_bytes(*value)).collect()
}
