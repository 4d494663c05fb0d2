//! State that the connections of one worker share.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_http1::HeadIndex;
use thruway_message::{OwnedRequestHead, RequestHead, StatusCode};
use thruway_net::{PooledBuffer, Worker};

use super::log::{CLIENT_CLOSED_REQUEST, Log, Logged, Outcome, RecordStart, SpanTimes, UnusedLogs};
use super::origin_fields::OriginFields;
use super::worker_tracing::WorkerTracing;
use crate::config::Config;
use crate::connection_info::ConnectionInfo;
use crate::live::WorkerHandler;
use crate::pre_handler::PreHandlers;
use crate::record::{Record, TakeRecord};
use crate::request::Request;
use crate::response::{InterimSlot, Response, ResponseMetadata};

/// The handler, the settings and the buffers that the connections of one worker share.
pub(crate) struct Service {
    pub(crate) handler: Rc<WorkerHandler>,
    /// The pre-handlers of the listener, which run before `handler`, if any.
    pre_handlers: Option<PreHandlers>,
    pub(crate) config: Arc<Config>,
    pub(crate) worker: Rc<Worker>,
    pub(super) buffers: RefCell<Buffers>,
    pub(crate) origin_fields: RefCell<OriginFields>,
    /// Destination of interim responses while a handler's future is polled.
    pub(crate) interim_slot: InterimSlot,
    /// The receivers of the records of requests. `None` if the server neither records nor traces requests.
    recording: Option<Rc<Recording>>,
}

/// The receivers of the records of requests.
pub(crate) struct Recording {
    take: Option<RefCell<TakeRecord>>,
    tracing: Option<WorkerTracing>,
    unused_logs: UnusedLogs,
}

impl Recording {
    /// Returns the receivers. `None` if there is no receiver.
    pub(crate) fn new(take: Option<TakeRecord>, tracing: Option<WorkerTracing>) -> Option<Self> {
        let has_receiver = take.is_some() || tracing.is_some();
        let unused_logs = UnusedLogs::default();
        has_receiver.then(|| Self { take: take.map(RefCell::new), tracing, unused_logs })
    }

    /// Keeps the memory of a recorded request for a later request.
    #[inline]
    fn reuse(&self, mut log: Box<Log>) {
        if let (Some(tracing), Some(trace)) = (&self.tracing, log.start.trace.take()) {
            tracing.reuse(trace);
        }
        self.unused_logs.add(log);
    }
}

/// Buffers that a connection uses only while it is polled.
pub(super) struct Buffers {
    /// Input buffer; `input[parsed..filled]` is not parsed yet.
    pub(super) input: Box<[u8]>,
    pub(super) parsed: usize,
    pub(super) filled: usize,
    /// `true` if the socket has no more data until the next wakeup of the task.
    pub(super) would_block: bool,
    /// Positions of the field lines of the current request.
    pub(super) index: HeadIndex,
    /// Bytes to write.
    pub(super) output: PooledBuffer,
}

impl Service {
    pub(super) fn new(
        handler: Rc<WorkerHandler>,
        config: Arc<Config>,
        worker: Rc<Worker>,
        recording: Option<Rc<Recording>>,
    ) -> Self {
        let buffers = RefCell::new(Buffers::new(&config));
        let origin_fields = RefCell::new(OriginFields::new());
        let interim_slot = InterimSlot::of(&worker);
        Self { handler, pre_handlers: None, config, worker, buffers, origin_fields, interim_slot, recording }
    }

    /// Returns a copy of this service with another config and with new buffers.
    pub(super) fn with_config(&self, config: Arc<Config>) -> Self {
        Self::new(self.handler.clone(), config, self.worker.clone(), self.recording.clone())
    }

    /// Returns a copy of this service with pre-handlers and with new buffers.
    pub(super) fn with_pre_handlers(&self, pre_handlers: PreHandlers) -> Self {
        Self { pre_handlers: Some(pre_handlers), ..self.with_config(self.config.clone()) }
    }

    /// Returns the response of the pre-handlers, or `None` if the handler must answer the request.
    #[inline]
    pub(crate) fn answer_first(&self, request: &Request<'_>) -> Option<Response> {
        self.pre_handlers.as_ref()?.answer(request)
    }

    /// Starts a poll of a connection: updates the date for responses, and returns the current time.
    #[inline]
    pub(crate) fn begin_poll(&self) -> Duration {
        let clock = self.worker.clock();
        let now = clock.now();
        self.origin_fields.borrow_mut().renew(clock, now);
        now
    }

    /// Lends the shared input buffer to `act`. The contents of the buffer are undefined.
    pub(crate) fn with_input<R>(&self, act: impl FnOnce(&mut [u8]) -> R) -> R {
        act(&mut self.buffers.borrow_mut().input)
    }

    /// Returns the exact current time and begins the trace of the request. Returns `None` if the server
    /// neither records nor traces requests. `head` is `None` for bytes that are not a valid request.
    #[inline]
    pub(crate) fn record_start(&self, head: Option<&RequestHead<'_>>) -> Option<RecordStart> {
        self.recording.as_ref().map(|recording| {
            let at = self.worker.clock().now_exact();
            let trace = recording.tracing.as_ref().zip(head).map(|(tracing, head)| tracing.begin(head, at));
            RecordStart { at, trace }
        })
    }

    /// Keeps the memory of the trace for a later request, if the request is already recorded.
    #[inline]
    pub(super) fn end_start(&self, start: RecordStart) {
        if let Some(tracing) = self.recording.as_ref().and_then(|recording| recording.tracing.as_ref())
            && let Some(trace) = start.trace
            && Rc::strong_count(&trace) == 1
        {
            tracing.reuse(trace);
        }
    }

    /// Returns the status to record for a request that got no response. The status is 503 if the timeout of a
    /// graceful shutdown has expired, and otherwise 499, because the client has left.
    pub(crate) fn unanswered(&self) -> StatusCode {
        if self.worker.is_cut_off() { StatusCode::SERVICE_UNAVAILABLE } else { CLIENT_CLOSED_REQUEST }
    }

    /// Copies the request head, so that the request can be recorded later.
    pub(crate) fn keep(&self, logged: Logged<'_>) -> Box<Log> {
        logged.keep(self.recording.as_ref().map(|recording| &recording.unused_logs))
    }

    /// Records a request and its outcome.
    pub(crate) fn record(&self, connection: &ConnectionInfo, logged: Logged<'_>, outcome: Outcome) {
        let Some(recording) = &self.recording else { return };
        if !self.is_ignored(recording, logged.start(), outcome.status) {
            self.record_with(recording, connection, &logged, outcome);
        }
        if let Logged::Kept(log) = logged {
            recording.reuse(log);
        }
    }

    /// Returns `true` if only the tracer would receive the record, and its trace is certainly not exported.
    /// Most requests are ignored if few traces are sampled, so this function reads the fast clock.
    #[inline]
    fn is_ignored(&self, recording: &Recording, start: &RecordStart, status: StatusCode) -> bool {
        if recording.take.is_some() {
            return false;
        }
        let Some(trace) = &start.trace else { return true };
        let has_failed = status.as_u16() >= 500 || trace.is_broken_off();
        trace.is_dropped(self.worker.clock().now(), has_failed)
    }

    #[inline(never)]
    fn record_with(
        &self,
        recording: &Recording,
        connection: &ConnectionInfo,
        logged: &Logged<'_>,
        outcome: Outcome,
    ) {
        let Outcome { status, content_bytes, received_bytes, is_complete, metadata } = outcome;
        let (clock, start) = (self.worker.clock(), logged.start());
        let end = clock.now_exact();
        let duration = end.saturating_sub(start.at);
        let traced = recording.tracing.as_ref().zip(start.trace.as_deref());
        let exported = traced.filter(|(_, trace)| {
            trace.is_exported(duration, status.as_u16() >= 500 || trace.is_broken_off())
        });
        if recording.take.is_none() && exported.is_none() {
            return;
        }
        let head = match logged {
            Logged::Parsed { head, .. } => Some(**head),
            Logged::Kept(log) => log.head.as_ref().map(OwnedRequestHead::as_head),
        };
        let proxies = self.config.trusted_proxies.at(connection.client).zip(head);
        let origin = proxies.map(|(proxies, head)| proxies.origin(connection.client, head.field_lines));
        let client = origin.as_ref().map_or(connection.client, |origin| origin.client);
        let scheme = origin.and_then(|origin| origin.scheme).unwrap_or_else(|| connection.scheme());
        let time = if exported.is_some() { clock.time_of_day_exact() } else { clock.time_of_day() };
        let record = Record {
            connection,
            client,
            scheme,
            head,
            time,
            status,
            content_bytes,
            received_bytes,
            duration,
            forwarded: metadata.as_ref().and_then(ResponseMetadata::forwarded),
            refused: metadata.as_ref().and_then(ResponseMetadata::refused),
            user: metadata.as_ref().and_then(ResponseMetadata::user),
            route: metadata.as_ref().and_then(ResponseMetadata::route),
            is_logged: !metadata.as_ref().is_some_and(ResponseMetadata::is_unlogged),
            trace: start.trace.as_ref().map(|trace| trace.trace_parent()),
            is_complete,
            is_cut_off: !is_complete && self.worker.is_cut_off(),
        };
        if let Some(take) = &recording.take {
            take.borrow_mut()(&record);
        }
        if let Some((tracing, trace)) = exported {
            tracing.export(&record, trace, SpanTimes::new(end, time));
        }
    }
}

impl Buffers {
    fn new(config: &Config) -> Self {
        // The input buffer must hold a request head and at least one more byte.
        let limits = &config.limits;
        let head_bytes_max = limits.request_target_bytes as usize + limits.header_section_bytes as usize;
        let trailer_bytes_max = limits.trailer_section_bytes as usize + limits.chunk_extension_bytes as usize;
        let input_bytes = INPUT_BYTES.max(head_bytes_max.max(trailer_bytes_max) + INPUT_BYTES / 4);
        Self {
            input: vec![0; input_bytes].into_boxed_slice(),
            parsed: 0,
            filled: 0,
            would_block: false,
            index: HeadIndex::with_capacity(limits.field_lines as usize),
            output: PooledBuffer::default(),
        }
    }

    /// Returns the bytes that are not parsed yet.
    pub(super) fn unparsed(&self) -> &[u8] {
        &self.input[self.parsed..self.filled]
    }

    /// Moves the unparsed bytes to the start of the buffer, to make space after them.
    pub(super) fn compact(&mut self) {
        if self.parsed > 0 {
            self.input.copy_within(self.parsed..self.filled, 0);
            self.filled -= self.parsed;
            self.parsed = 0;
        }
    }
}

/// Size of the input buffer, unless the limits require a larger one. A read can fill the whole buffer. Large
/// reads save system calls for deep pipelines and large bodies. All connections of a worker share one input
/// buffer.
const INPUT_BYTES: usize = 64 << 10;
