//! The tracing of the requests of one worker.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_message::RequestHead;
use thruway_telemetry::{IdGenerator, RequestTrace, SpanBuffer, TraceParent, Tracer, combine_trace_state};

use super::known_fields::KnownFields;
use super::log::SpanTimes;
use super::trace_spans::write_spans;
use crate::record::Record;

/// The tracing of the requests of one worker.
pub(crate) struct WorkerTracing {
    tracer: Arc<Tracer>,
    buffer: SpanBuffer,
    traces: RefCell<WorkerTraces>,
    known: RefCell<Box<KnownFields>>,
}

/// The memory and the ids for later requests.
#[derive(Default)]
struct WorkerTraces {
    /// Memory of the traces of completed requests.
    unused: Vec<Rc<RequestTrace>>,
    ids: IdGenerator,
}

impl WorkerTracing {
    pub(crate) fn new(tracer: &Arc<Tracer>) -> Self {
        Self {
            tracer: tracer.clone(),
            buffer: tracer.add_buffer(),
            traces: RefCell::default(),
            known: RefCell::default(),
        }
    }

    /// Begins the trace of a request that has arrived at the time `start`. If the client has sent a valid
    /// `traceparent`, the request belongs to the trace of the client. The function is never inlined, because its
    /// code would make requests without a trace slower.
    #[inline(never)]
    pub(super) fn begin(&self, head: &RequestHead<'_>, start: Duration) -> Rc<RequestTrace> {
        let parent = parent_of(head);
        let state = if parent.is_some() { state_of(head) } else { String::new() };
        let WorkerTraces { unused, ids } = &mut *self.traces.borrow_mut();
        if let Some(mut trace) = unused.pop()
            && let Some(place) = Rc::get_mut(&mut trace)
        {
            self.tracer.begin_again(place, parent, &state, start, ids);
            return trace;
        }
        Rc::new(self.tracer.begin(parent, &state, start))
    }

    /// Keeps the memory of the trace of a completed request for a later request.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs a third of the function")]
    pub(super) fn reuse(&self, mut trace: Rc<RequestTrace>) {
        let Some(place) = Rc::get_mut(&mut trace) else { return };
        place.clear();
        let unused = &mut self.traces.borrow_mut().unused;
        if unused.len() < UNUSED_MAX {
            unused.push(trace);
        }
    }

    /// Passes the spans of a completed request to the exporter.
    #[inline(never)]
    pub(super) fn export(&self, record: &Record<'_>, trace: &RequestTrace, times: SpanTimes) {
        write_spans(&mut self.buffer.writer(), record, trace, &times, &mut self.known.borrow_mut());
    }
}

/// Maximum number of unused traces of a worker.
const UNUSED_MAX: usize = 64;

/// Returns the valid `traceparent` of the client. `None` if there are several, because W3C Trace Context
/// §3.2 permits one header.
#[inline]
fn parent_of(head: &RequestHead<'_>) -> Option<TraceParent> {
    let length = TraceParent::FIELD_NAME.len();
    // Most requests have no name of this length. This check is faster than a search.
    if !head.field_lines.spans().iter().any(|span| span.name_length() == length) {
        return None;
    }
    let mut parents = head.field_lines.all(TraceParent::FIELD_NAME);
    let parent = TraceParent::parse(parents.next()?.as_bytes())?;
    parents.next().is_none().then_some(parent)
}

#[cold]
fn state_of(head: &RequestHead<'_>) -> String {
    combine_trace_state(head.field_lines.all("tracestate").map(|value| value.as_bytes()))
}
