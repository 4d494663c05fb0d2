//! Distributed tracing and metrics: W3C Trace Context, sampling, spans, exemplars, and the messages of OTLP
//! (OpenTelemetry protocol).
//!
//! This crate does no I/O and reads no clock. A server creates a [`RequestTrace`] for each request, and
//! handlers add their steps to it. At the end of the request, the server asks the [`Tracer`] if it exports
//! the trace, and writes the spans into a [`SpanBuffer`]. Another thread takes the encoded spans from the
//! [`SpanQueue`], and sends them to a collector.
//!
//! ```
//! use std::time::Duration;
//!
//! use thruway_telemetry::{Sampling, TraceParent, Tracer};
//!
//! let tracer = Tracer::new(Sampling { ratio: 0.0, slow: Duration::from_secs(1) });
//! let parent = TraceParent::parse(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
//! let trace = tracer.begin(Some(parent), "", Duration::ZERO);
//! assert!(trace.trace_parent().is_sampled(), "the caller has sampled the trace");
//! assert_eq!(trace.trace_parent().trace_id, parent.trace_id);
//! ```
#![forbid(unsafe_code)]

// W3C Trace Context
mod trace_parent;
mod trace_state;

// one request
mod sampling;
mod attempt;
mod request_trace;
mod mcp_step;
mod span;

// metrics
mod exemplar;
mod metric;

// export
mod protobuf;
mod attributes;
mod otlp;
mod batch;
mod queue;
mod retry;
mod retry_info;

pub use attempt::{AttemptDetail, AttemptTarget, host_and_port};
pub use attributes::{EncodedFields, SpanAttributes};
pub use batch::{ExportRequest, SpanBatch};
pub use exemplar::{Exemplar, Exemplars};
pub use mcp_step::{McpAnswered, McpCall, McpDetail, McpFailure, McpProgress};
pub use metric::{
    HistogramPoint, Metric, MetricBatch, MetricKind, MetricsCollection, MetricsEncoder, Number,
};
pub use otlp::{Framing, Resource, encode_request, rejected_items};
pub use queue::{ExportCounts, SpanBuffer, SpanQueue, SpanWriter};
pub use request_trace::{RequestTrace, Step, StepDetail, UpstreamPath};
pub use retry::{ExportOutcome, RetrySchedule};
pub use retry_info::retry_delay;
pub use sampling::{Sampling, Tracer};
pub use span::{Attribute, Span, SpanKind, SpanStatus, Value};
pub use trace_parent::{IdGenerator, SpanId, TraceId, TraceParent};
pub use trace_state::combine_trace_state;
