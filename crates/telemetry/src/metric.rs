//! Collects the values of metrics in the messages of OTLP: `opentelemetry/proto/metrics/v1/metrics.proto`.
//! The numbers in the functions are the field numbers of this file. All values are cumulative: they count
//! from the start of the process.

use std::fmt;
use std::time::Duration;

use crate::attributes::write_attribute;
use crate::exemplar::Exemplar;
use crate::protobuf::{
    write_bytes, write_double, write_fixed64, write_integer, write_message, write_packed_fixed64,
};
use crate::span::Attribute;

/// Name and kind of a metric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The name, such as `http.server.request.duration`.
    pub name: String,
    /// A sentence about the metric.
    pub description: String,
    /// The unit in the notation of UCUM, such as `s`. Empty if the metric has no unit.
    pub unit: &'static str,
    /// The kind.
    pub kind: MetricKind,
}

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// A sum that never decreases.
    Counter,
    /// A sum that can decrease.
    UpDownCounter,
    /// A current value.
    Gauge,
    /// A histogram with explicit bounds.
    Histogram,
}

/// The value of a metric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer.
    Integer(u64),
    /// A floating-point number.
    Float(f64),
}

/// The state of a histogram.
#[derive(Clone, Copy, Debug)]
pub struct HistogramPoint<'a> {
    /// The inclusive upper bounds of all buckets except the last.
    pub bounds: &'a [Duration],
    /// The number of values in each bucket.
    pub buckets: &'a [u64],
    /// The sum of all values.
    pub sum: Duration,
    /// At most one exemplar for each bucket.
    pub exemplars: &'a [Exemplar],
}

/// Encodes the values of all metrics at one time.
#[derive(Debug)]
pub struct MetricsEncoder {
    start_nanos: u64,
    now_nanos: u64,
    bytes_max: usize,
    complete: Vec<MetricBatch>,
    batch: MetricBatch,
    metric: Option<Metric>,
    /// The encoded data points of `metric`.
    points: Vec<u8>,
    bytes: usize,
    dropped: u64,
}

/// Encoded metrics that are exported together, as entries of the list `ScopeMetrics.metrics`.
#[derive(Clone, Default, Debug)]
pub struct MetricBatch {
    /// The encoded metrics.
    pub bytes: Vec<u8>,
    /// Number of values (data points) in the batch.
    pub points: u64,
}

/// The values of all metrics at one time.
#[derive(Clone, Default, Debug)]
pub struct MetricsCollection {
    /// The batches to export.
    pub batches: Vec<MetricBatch>,
    /// Number of values that did not fit.
    pub dropped: u64,
}

impl MetricsEncoder {
    /// Default maximum size of a collection: 8 MiB.
    pub const BYTES_MAX: usize = 8 << 20;

    /// Size from which the encoder begins another batch. Many gRPC servers accept messages of at most 4 MiB.
    pub const BATCH_BYTES: usize = 1 << 20;

    /// Creates an encoder for values at the time `now_nanos`, which count since `start_nanos`. Both times are
    /// in nanoseconds since the Unix epoch. After `bytes_max` bytes, the encoder drops and counts further
    /// values.
    pub fn new(start_nanos: u64, now_nanos: u64, bytes_max: usize) -> Self {
        Self {
            start_nanos,
            now_nanos,
            bytes_max,
            complete: Vec::new(),
            batch: MetricBatch::default(),
            metric: None,
            points: Vec::new(),
            bytes: 0,
            dropped: 0,
        }
    }

    /// Begins a metric. The following values belong to this metric.
    pub fn begin(&mut self, metric: Metric) {
        self.end_metric();
        self.metric = Some(metric);
    }

    /// Adds a value of the current metric.
    pub fn add_number(&mut self, attributes: &[Attribute<'_>], value: Number) {
        let (start, now) = (self.start_nanos, self.now_nanos);
        self.add(|output| {
            for attribute in attributes {
                write_attribute(output, 7, attribute);
            }
            write_fixed64(output, 2, start);
            write_fixed64(output, 3, now);
            match value {
                Number::Integer(value) => write_fixed64(output, 6, value.min(i64::MAX.cast_unsigned())),
                Number::Float(value) => write_double(output, 4, value),
            }
        });
    }

    /// Adds the state of a histogram to the current metric.
    pub fn add_histogram(&mut self, attributes: &[Attribute<'_>], point: &HistogramPoint<'_>) {
        let (start, now) = (self.start_nanos, self.now_nanos);
        self.add(|output| {
            for attribute in attributes {
                write_attribute(output, 9, attribute);
            }
            write_fixed64(output, 2, start);
            write_fixed64(output, 3, now);
            write_fixed64(output, 4, point.buckets.iter().sum());
            write_double(output, 5, point.sum.as_secs_f64());
            write_packed_fixed64(output, 6, point.buckets.iter().copied());
            write_packed_fixed64(output, 7, point.bounds.iter().map(|bound| bound.as_secs_f64().to_bits()));
            for exemplar in point.exemplars {
                write_exemplar(output, exemplar);
            }
        });
    }

    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes >= self.bytes_max {
            self.dropped += 1;
            return;
        }
        let before = self.points.len();
        write_message(&mut self.points, 1, write);
        self.bytes += self.points.len() - before;
        self.batch.points += 1;
        if self.batch.bytes.len() + self.points.len() >= Self::BATCH_BYTES {
            self.end_batch();
        }
    }

    /// Moves the values of the current metric to the batch.
    fn end_metric(&mut self) {
        let Some(metric) = self.metric.as_ref().filter(|_| !self.points.is_empty()) else { return };
        let points = std::mem::take(&mut self.points);
        write_message(&mut self.batch.bytes, METRICS, |output| {
            write_bytes(output, 1, metric.name.as_bytes());
            write_bytes(output, 2, metric.description.as_bytes());
            write_bytes(output, 3, metric.unit.as_bytes());
            let data = match metric.kind {
                MetricKind::Gauge => 5,
                MetricKind::Counter | MetricKind::UpDownCounter => 7,
                MetricKind::Histogram => 9,
            };
            write_message(output, data, |output| {
                output.extend_from_slice(&points);
                if metric.kind != MetricKind::Gauge {
                    write_integer(output, 2, CUMULATIVE);
                }
                if metric.kind == MetricKind::Counter {
                    write_integer(output, 3, 1);
                }
            });
        });
    }

    /// Begins another batch, which may contain further values of the same metric.
    fn end_batch(&mut self) {
        self.end_metric();
        if self.batch.points > 0 {
            self.complete.push(std::mem::take(&mut self.batch));
        }
    }

    /// Returns all values.
    pub fn finish(mut self) -> MetricsCollection {
        self.end_batch();
        MetricsCollection { batches: self.complete, dropped: self.dropped }
    }
}

impl MetricsCollection {
    /// Returns the number of values in all batches.
    pub fn points(&self) -> u64 {
        self.batches.iter().map(|batch| batch.points).sum()
    }
}

fn write_exemplar(output: &mut Vec<u8>, exemplar: &Exemplar) {
    write_message(output, 8, |output| {
        write_fixed64(output, 2, exemplar.unix_nanos);
        write_double(output, 3, exemplar.value.as_secs_f64());
        write_bytes(output, 4, &exemplar.span_id.0);
        write_bytes(output, 5, &exemplar.trace_id.0);
    });
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self::Integer(value as u64)
    }
}

impl From<u32> for Number {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<bool> for Number {
    fn from(value: bool) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// The field number of `ScopeMetrics.metrics`.
const METRICS: u32 = 2;

/// `AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Value;

    fn encoder(bytes_max: usize) -> MetricsEncoder {
        let mut encoder = MetricsEncoder::new(1, 2, bytes_max);
        encoder.begin(metric("m", MetricKind::Counter));
        encoder
    }

    fn metric(name: &str, kind: MetricKind) -> Metric {
        Metric { name: name.to_owned(), description: String::new(), unit: "s", kind }
    }

    #[test]
    fn counter_has_the_bytes_of_the_protocol() {
        let mut encoder = encoder(MetricsEncoder::BYTES_MAX);
        encoder.add_number(&[Attribute { name: "a", value: Value::Boolean(true) }], 3_u64.into());
        let MetricsCollection { batches, dropped } = encoder.finish();
        let point = [
            &[0x3a, 7, 0x0a, 1, b'a', 0x12, 2, 0x10, 1][..],
            &[0x11, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x19, 2, 0, 0, 0, 0, 0, 0, 0],
            &[0x31, 3, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let sum = [&[0x0a, 36][..], &point, &[0x10, 2, 0x18, 1]].concat();
        let expected = [&[0x12, 50, 0x0a, 1, b'm', 0x1a, 1, b's', 0x3a, 42][..], &sum].concat();
        assert_eq!((batches.len(), batches[0].points, dropped), (1, 1, 0));
        assert_eq!(batches[0].bytes, expected);
    }

    #[test]
    fn metric_without_values_is_left_out() {
        let mut encoder = encoder(MetricsEncoder::BYTES_MAX);
        encoder.begin(metric("other", MetricKind::Gauge));
        assert_eq!(encoder.finish().batches.len(), 0);
    }

    #[test]
    fn values_above_the_bound_are_dropped_and_counted() {
        let mut encoder = encoder(1000);
        (0..100_u64).for_each(|value| encoder.add_number(&[], value.into()));
        let collection = encoder.finish();
        let bytes: usize = collection.batches.iter().map(|batch| batch.bytes.len()).sum();
        assert!((1000..1100).contains(&bytes), "{bytes}");
        assert_eq!(collection.points() + collection.dropped, 100);
    }

    #[test]
    fn many_values_of_one_metric_are_split_into_batches() {
        let mut encoder = encoder(MetricsEncoder::BYTES_MAX);
        let text = "t".repeat(1000);
        let attributes = [Attribute { name: "a", value: Value::Text(&text) }];
        (0..3000_u64).for_each(|value| encoder.add_number(&attributes, value.into()));
        let collection = encoder.finish();
        assert_eq!((collection.points(), collection.dropped), (3000, 0));
        assert!(collection.batches.len() >= 3);
        for batch in &collection.batches {
            assert!(batch.bytes.len() <= MetricsEncoder::BATCH_BYTES + 2000);
            assert_eq!(batch.bytes[0], 0x12);
        }
    }
}
