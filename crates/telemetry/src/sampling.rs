//! Decides which traces are exported.
//!
//! The decision at the start of a request becomes the flag `sampled` in the header `traceparent`. At the end,
//! traces of failed and slow requests are exported too, because their steps are recorded anyway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::queue::{SpanBuffer, SpanQueue};
use crate::request_trace::RequestTrace;
use crate::trace_parent::{IdGenerator, SAMPLED, TraceId, TraceParent};

/// The sampling settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Share of the new traces that are sampled, from 0 to 1. If the caller has sent a trace, its flag `sampled`
    /// decides instead.
    pub ratio: f64,
    /// Duration from which the trace of a request is always exported.
    pub slow: Duration,
}

/// Creates the traces of requests, and decides about their export. All workers share one tracer.
#[derive(Debug)]
pub struct Tracer {
    /// A trace is sampled if the lower 63 bits of its id are less than this number.
    threshold: AtomicU64,
    slow_nanos: AtomicU64,
    queue: Arc<SpanQueue>,
}

impl Tracer {
    /// Creates a tracer with an empty queue for [`SpanQueue::BYTES_MAX`] bytes.
    pub fn new(sampling: Sampling) -> Self {
        Self::with_queue(sampling, SpanQueue::new(SpanQueue::BYTES_MAX))
    }

    /// Creates a tracer that puts spans into `queue`.
    pub fn with_queue(sampling: Sampling, queue: SpanQueue) -> Self {
        let tracer =
            Self { threshold: AtomicU64::new(0), slow_nanos: AtomicU64::new(0), queue: Arc::new(queue) };
        tracer.set_sampling(sampling);
        tracer
    }

    /// Replaces the sampling settings. Requests that begin later use the new settings.
    pub fn set_sampling(&self, sampling: Sampling) {
        self.threshold.store(threshold(sampling.ratio), Ordering::Relaxed);
        let nanos = u64::try_from(sampling.slow.as_nanos()).unwrap_or(u64::MAX);
        self.slow_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Returns the queue of encoded spans.
    pub const fn queue(&self) -> &Arc<SpanQueue> {
        &self.queue
    }

    /// Returns a buffer for the spans of one worker.
    pub fn add_buffer(&self) -> SpanBuffer {
        self.queue.add_buffer()
    }

    /// Begins the trace of a request that has arrived at the time `start`. `parent` is the valid `traceparent` of
    /// the caller, if any. `state` is the `tracestate` of the caller. Without a parent, begins a new trace.
    pub fn begin(&self, parent: Option<TraceParent>, state: &str, start: Duration) -> RequestTrace {
        let parent_id = parent.map(|parent| parent.span_id);
        let own = self.identity(parent, &mut IdGenerator::default());
        RequestTrace::new(own, parent_id, state, start, self.slow())
    }

    /// Begins a trace like [`begin`](Self::begin), in the memory of the [cleared](RequestTrace::clear) trace
    /// `trace`. The ids come from `ids`.
    #[inline]
    pub fn begin_again(
        &self,
        trace: &mut RequestTrace,
        parent: Option<TraceParent>,
        state: &str,
        start: Duration,
        ids: &mut IdGenerator,
    ) {
        let parent_id = parent.map(|parent| parent.span_id);
        trace.restart(self.identity(parent, ids), parent_id, state, start, self.slow());
    }

    #[inline]
    fn slow(&self) -> u64 {
        self.slow_nanos.load(Ordering::Relaxed)
    }

    /// Returns the ids and the flags of a new request.
    #[inline]
    fn identity(&self, parent: Option<TraceParent>, ids: &mut IdGenerator) -> TraceParent {
        let span_id = ids.span_id();
        if let Some(parent) = parent {
            return parent.with_span(span_id);
        }
        let trace_id = ids.trace_id();
        let flags = if self.is_in_ratio(trace_id) { SAMPLED } else { 0 };
        TraceParent { trace_id, span_id, flags }
    }

    #[inline]
    fn is_in_ratio(&self, trace_id: TraceId) -> bool {
        trace_id.low() & LOW_BITS < self.threshold.load(Ordering::Relaxed)
    }
}

/// Returns the bound for the sampling decision: a trace is sampled if the lower 63 bits of its id are below it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the ratio is clamped, and the lost precision is far below one trace"
)]
fn threshold(ratio: f64) -> u64 {
    let ratio = if ratio.is_nan() { 0.0 } else { ratio.clamp(0.0, 1.0) };
    (ratio * (LOW_BITS + 1) as f64) as u64
}

/// The bits of a trace id that decide about sampling. The sampler `TraceIdRatioBased` of the OpenTelemetry
/// SDKs uses the same number of bits.
const LOW_BITS: u64 = (1 << 63) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn tracer(ratio: f64) -> Tracer {
        Tracer::new(Sampling { ratio, slow: Duration::from_secs(1) })
    }

    fn sampled_of_1000(tracer: &Tracer) -> usize {
        (0..1000).filter(|_| tracer.begin(None, "", Duration::ZERO).trace_parent().is_sampled()).count()
    }

    #[test]
    fn ratio_decides_about_new_traces() {
        assert_eq!(sampled_of_1000(&tracer(0.0)), 0);
        assert_eq!(sampled_of_1000(&tracer(1.0)), 1000);
        let some = sampled_of_1000(&tracer(0.5));
        assert!((300..700).contains(&some), "{some}");
        assert_eq!([f64::NAN, -1.0, 2.0].map(threshold), [0, 0, 1 << 63]);
    }

    #[test]
    fn parent_decides_about_its_trace() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("03", true), ("02", false)] {
            let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
            let parent = TraceParent::parse(text.as_bytes()).unwrap();
            for ratio in [0.0, 1.0] {
                let trace = tracer(ratio).begin(Some(parent), "a=1", Duration::ZERO);
                assert_eq!(trace.trace_parent().is_sampled(), is_sampled, "{flags} {ratio}");
                assert_eq!(trace.parent(), Some(parent.span_id));
                assert_ne!(trace.trace_parent().span_id, parent.span_id);
                assert_eq!(&*trace.state(), "a=1");
            }
        }
    }

    #[test]
    fn failed_and_slow_requests_are_always_exported() {
        let tracer = tracer(0.0);
        let begin = || tracer.begin(None, "", Duration::ZERO);
        let (fast, slow) = (Duration::from_millis(999), Duration::from_secs(1));
        let trace = begin();
        assert!(!trace.is_exported(fast, false));
        assert!(trace.is_exported(fast, true));
        assert!(trace.is_exported(slow, false));
        tracer.set_sampling(Sampling { ratio: 0.0, slow: Duration::from_secs(2) });
        assert!(!begin().is_exported(slow, false));
        assert!(trace.is_exported(slow, false), "requests in progress keep the setting");
    }
}
