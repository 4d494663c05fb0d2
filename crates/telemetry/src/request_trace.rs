//! The trace of one request: its ids, and the steps that the handlers of the request have recorded.

use std::cell::{Cell, Ref, RefCell};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::attempt::AttemptDetail;
use crate::exemplar::Exemplar;
use crate::mcp_step::McpDetail;
use crate::trace_parent::{SpanId, TraceParent};

/// The trace of a request. The server and the handlers of the request share it. Times are times of the
/// worker's clock.
#[derive(Debug)]
pub struct RequestTrace {
    own: Cell<TraceParent>,
    parent: Cell<Option<SpanId>>,
    state: RefCell<Box<str>>,
    /// Time of the arrival in nanoseconds.
    start: u64,
    /// The id of the span that was created last.
    last: Cell<SpanId>,
    /// Number of nanoseconds from which the trace is always exported.
    slow: u64,
    /// Until this time in nanoseconds, as a fast clock shows it, the request is not slow.
    fast_until: u64,
    /// The span that contains the further steps. `None` if the span of the request contains them.
    current: Cell<Option<SpanId>>,
    route: RefCell<Option<Arc<str>>>,
    /// Time at which the route was known and the policies were checked.
    routed_at: Cell<Option<Duration>>,
    /// The name of the upstream. `None` if a server was selected at once, because its attempt has the name too.
    upstream: RefCell<Option<Arc<str>>>,
    /// `true` if `upstream_path` is valid.
    has_upstream_path: Cell<bool>,
    /// Path of the requests to the upstream servers. Empty if it equals the path of the request.
    upstream_path: RefCell<String>,
    /// Reason for the failure of the request.
    failure: Cell<Option<&'static str>>,
    is_broken_off: Cell<bool>,
    steps: RefCell<Vec<Step>>,
}

/// A step of a request, which becomes a span.
#[derive(Debug)]
pub struct Step {
    /// The id of the span.
    pub id: SpanId,
    /// The span that contains this step. `None` if the span of the request contains it.
    pub parent: Option<SpanId>,
    /// The start of the step.
    pub start: Duration,
    /// The end of the step. `None` while the step is in progress.
    pub end: Option<Duration>,
    /// The kind of the step, and its attributes.
    pub detail: StepDetail,
}

/// The kind of a step, and its attributes.
#[derive(Debug)]
pub enum StepDetail {
    /// Routing, and the checks of the policies.
    Routing,
    /// The wait for a server or for a connection.
    Queue,
    /// The name lookup and the connection attempt of an HTTP attempt, without TLS.
    Connect,
    /// The TLS handshake with the upstream server.
    Tls,
    /// A request to an upstream server.
    Attempt(AttemptDetail),
    /// An operation of the Model Context Protocol.
    Mcp(Box<McpDetail>),
}

/// The path of the requests to the upstream servers, without the query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpstreamPath<'a> {
    /// The path of the client's request.
    OfRequest,
    /// Another path.
    Rewritten(&'a str),
}

impl RequestTrace {
    /// Maximum error of a time from a fast clock: the time between two timer interrupts of a kernel with 100
    /// interrupts per second.
    pub const COARSE_TIME_ERROR_MAX: Duration = Duration::from_nanos(COARSE_NANOS);

    pub(crate) fn new(
        own: TraceParent,
        parent: Option<SpanId>,
        state: &str,
        start: Duration,
        slow: u64,
    ) -> Self {
        let start = nanos(start);
        Self {
            own: Cell::new(own),
            parent: Cell::new(parent),
            state: RefCell::new(state.into()),
            start,
            fast_until: fast_until(start, slow),
            last: Cell::new(own.span_id.next()),
            slow,
            current: Cell::new(None),
            route: RefCell::default(),
            routed_at: Cell::new(None),
            upstream: RefCell::default(),
            has_upstream_path: Cell::new(false),
            upstream_path: RefCell::default(),
            failure: Cell::new(None),
            is_broken_off: Cell::new(false),
            steps: RefCell::default(),
        }
    }

    /// Begins the trace of another request. All fields except these have the values of a new trace.
    #[inline]
    pub(crate) fn restart(
        &mut self,
        own: TraceParent,
        parent: Option<SpanId>,
        state: &str,
        start: Duration,
        slow: u64,
    ) {
        let start = nanos(start);
        self.own.set(own);
        self.last.set(own.span_id.next());
        self.parent.set(parent);
        (self.start, self.slow, self.fast_until) = (start, slow, fast_until(start, slow));
        if !state.is_empty() {
            *self.state.get_mut() = state.into();
        }
    }

    /// Removes the data of a completed request, and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.parent.set(None);
        self.current.set(None);
        self.routed_at.set(None);
        self.failure.set(None);
        self.is_broken_off.set(false);
        *self.route.get_mut() = None;
        *self.upstream.get_mut() = None;
        self.has_upstream_path.set(false);
        if self.upstream_path.get_mut().capacity() > KEPT_PATH_BYTES_MAX {
            *self.upstream_path.get_mut() = String::new();
        }
        self.upstream_path.get_mut().clear();
        self.steps.get_mut().clear();
        if !self.state.get_mut().is_empty() {
            *self.state.get_mut() = Box::default();
        }
    }

    /// Returns the trace, the span of this request, and the flags.
    pub const fn trace_parent(&self) -> TraceParent {
        self.own.get()
    }

    /// Returns the span of the caller. `None` if this request has started the trace.
    pub const fn parent(&self) -> Option<SpanId> {
        self.parent.get()
    }

    /// Returns the valid `tracestate` of the caller, or an empty text.
    #[inline]
    pub fn state(&self) -> Ref<'_, str> {
        Ref::map(self.state.borrow(), |state| &**state)
    }

    /// Moves the request to the trace of its caller, if the headers of the request did not contain a trace.
    /// The body of the request contains `parent` and `state`. Call this function before the trace is sent to
    /// other servers.
    pub fn adopt(&self, parent: TraceParent, state: &str) {
        if self.parent.get().is_none() {
            self.own.set(parent.with_span(self.own.get().span_id));
            self.parent.set(Some(parent.span_id));
            *self.state.borrow_mut() = state.into();
        }
    }

    /// Makes the span `step` the parent of the steps that begin later without a parent.
    pub fn enter(&self, step: SpanId) {
        self.current.set(Some(step));
    }

    /// Makes the span of the request the parent of the steps that begin later without a parent.
    pub fn leave(&self) {
        self.current.set(None);
    }

    /// Returns the value of `traceparent` for requests that the current step sends.
    pub fn current(&self) -> TraceParent {
        let own = self.own.get();
        own.with_span(self.current.get().unwrap_or(own.span_id))
    }

    /// Returns `true` if the request arrived at the time `time` or later.
    #[inline]
    pub const fn starts_after(&self, time: Duration) -> bool {
        nanos(time) <= self.start
    }

    /// Returns the time at which the request arrived.
    pub const fn start(&self) -> Duration {
        Duration::from_nanos(self.start)
    }

    /// Returns `true` if the spans of this request are exported. `duration` is the duration of the request,
    /// or of a part of it. `has_failed` is `true` if the request has failed.
    pub fn is_exported(&self, duration: Duration, has_failed: bool) -> bool {
        self.own.get().is_sampled() || has_failed || nanos(duration) >= self.slow
    }

    /// Returns `true` if the spans of this request are certainly not exported. `now` is the current time of the
    /// worker's clock, and may be too early by [`COARSE_TIME_ERROR_MAX`](Self::COARSE_TIME_ERROR_MAX). A precise time
    /// costs more.
    #[inline]
    pub fn is_dropped(&self, now: Duration, has_failed: bool) -> bool {
        !self.own.get().is_sampled() && !has_failed && nanos(now) < self.fast_until
    }

    /// Returns an exemplar for `value`, the duration of the step with the span `span`. `None` as the span means the
    /// span of the request. `now` returns the current time. Returns `None` if the trace may not be exported.
    pub fn exemplar(
        &self,
        span: Option<SpanId>,
        value: Duration,
        has_failed: bool,
        now: impl FnOnce() -> SystemTime,
    ) -> Option<Exemplar> {
        if !self.is_exported(value, has_failed) {
            return None;
        }
        let TraceParent { trace_id, span_id, .. } = self.own.get();
        let nanos = now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let unix_nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Some(Exemplar { trace_id, span_id: span.unwrap_or(span_id), value, unix_nanos })
    }

    /// Sets the route of the request.
    #[inline]
    pub fn set_route(&self, route: &Arc<str>) {
        *self.route.borrow_mut() = Some(route.clone());
    }

    /// Returns the route of the request.
    #[inline]
    pub fn route(&self) -> Ref<'_, Option<Arc<str>>> {
        self.route.borrow()
    }

    /// Records that routing and the checks of the policies ended at the time `end`. Ignores later
    /// calls.
    #[inline]
    pub fn set_routed(&self, end: Duration) {
        if self.routed_at.get().is_none() {
            self.routed_at.set(Some(end));
        }
    }

    /// Returns the step from the arrival of the request to the call of [`set_routed`](Self::set_routed).
    pub fn routing(&self) -> Option<Step> {
        let (id, detail) = (self.own.get().span_id.next(), StepDetail::Routing);
        let end = self.routed_at.get()?;
        Some(Step { id, parent: None, start: self.start(), end: Some(end), detail })
    }

    /// Sets the name of the upstream. Requests with an attempt do not need this call, because the attempt has the
    /// name.
    pub fn set_upstream(&self, upstream: &Arc<str>) {
        *self.upstream.borrow_mut() = Some(upstream.clone());
    }

    /// Returns the name of the upstream. `None` if the request has no upstream, or if only its attempt has the name.
    pub fn upstream(&self) -> Ref<'_, Option<Arc<str>>> {
        self.upstream.borrow()
    }

    /// Records that the request has failed. Callers pass only a few different values of `reason`.
    pub fn fail(&self, reason: &'static str) {
        self.failure.set(Some(reason));
    }

    /// Returns the reason for the failure of the request.
    pub const fn failure(&self) -> Option<&'static str> {
        self.failure.get()
    }

    /// Records that the response has ended too early. `reason` has few different values.
    pub fn break_off(&self, reason: &'static str) {
        self.fail(reason);
        self.is_broken_off.set(true);
    }

    /// Returns `true` if the response has ended too early.
    pub const fn is_broken_off(&self) -> bool {
        self.is_broken_off.get()
    }

    /// Sets the path of the requests to the upstream servers.
    #[inline]
    pub fn set_upstream_path(&self, path: UpstreamPath<'_>) {
        if let UpstreamPath::Rewritten(path) = path {
            path.clone_into(&mut self.upstream_path.borrow_mut());
        }
        self.has_upstream_path.set(true);
    }

    /// Calls `act` with the path of the requests to the upstream servers, if it was set.
    #[inline]
    pub fn with_upstream_path(&self, act: impl FnOnce(UpstreamPath<'_>)) {
        if self.has_upstream_path.get() {
            let own = self.upstream_path.borrow();
            act(if own.is_empty() { UpstreamPath::OfRequest } else { UpstreamPath::Rewritten(&own) });
        }
    }

    /// Returns the id of the span that the next step gets.
    #[inline]
    pub const fn next_step(&self) -> SpanId {
        self.last.get().next()
    }

    /// Begins a step at the time `start`. Returns the id of its span.
    #[inline]
    pub fn begin(&self, detail: StepDetail, parent: Option<SpanId>, start: Duration) -> SpanId {
        self.add(detail, parent, start, None)
    }

    /// Adds a completed step. Returns the id of its span.
    pub fn add_completed(
        &self,
        detail: StepDetail,
        parent: Option<SpanId>,
        start: Duration,
        end: Duration,
    ) -> SpanId {
        self.add(detail, parent, start, Some(end))
    }

    #[inline]
    fn add(
        &self,
        detail: StepDetail,
        parent: Option<SpanId>,
        start: Duration,
        end: Option<Duration>,
    ) -> SpanId {
        let (id, parent) = (self.last.get().next(), parent.or(self.current.get()));
        self.last.set(id);
        let mut steps = self.steps.borrow_mut();
        if steps.len() < STEPS_MAX {
            steps.push(Step { id, parent, start, end, detail });
        }
        id
    }

    /// Changes the step with the span `id`, if it was recorded.
    #[inline]
    pub fn change(&self, id: SpanId, change: impl FnOnce(&mut Step)) {
        if let Some(step) = self.steps.borrow_mut().iter_mut().rev().find(|step| step.id == id) {
            change(step);
        }
    }

    /// Returns the recorded steps, except [`routing`](Self::routing).
    pub fn steps(&self) -> Ref<'_, [Step]> {
        Ref::map(self.steps.borrow(), Vec::as_slice)
    }
}

impl StepDetail {
    /// Returns the name of the step for all steps whose name is constant.
    pub const fn constant_name(&self) -> Option<&'static str> {
        match self {
            Self::Routing => Some("routing and policies"),
            Self::Queue => Some("queue"),
            Self::Connect => Some("connect"),
            Self::Tls => Some("tls"),
            Self::Attempt(_) | Self::Mcp(_) => None,
        }
    }
}

#[inline]
const fn fast_until(start: u64, slow: u64) -> u64 {
    start.saturating_add(slow).saturating_sub(COARSE_NANOS)
}

/// Returns the duration in nanoseconds. The result wraps around after 584 years.
#[inline]
const fn nanos(duration: Duration) -> u64 {
    duration.as_secs().wrapping_mul(1_000_000_000).wrapping_add(duration.subsec_nanos() as u64)
}

/// [`RequestTrace::COARSE_TIME_ERROR_MAX`] in nanoseconds.
const COARSE_NANOS: u64 = 10_000_000;

/// Maximum memory for a path that a cleared trace keeps.
const KEPT_PATH_BYTES_MAX: usize = 256;

/// Maximum number of steps of a request. Later steps are not recorded.
const STEPS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_parent::{SAMPLED, TraceId};

    fn trace() -> RequestTrace {
        let own = TraceParent { trace_id: TraceId::random(), span_id: SpanId::random(), flags: 0 };
        RequestTrace::new(own, None, "", Duration::ZERO, 1_000_000_000)
    }

    #[test]
    fn step_can_be_completed_later() {
        let trace = trace();
        let id = trace.begin(StepDetail::Queue, None, Duration::from_secs(1));
        trace.change(id, |step| step.end = Some(Duration::from_secs(2)));
        let steps = trace.steps();
        assert_eq!((steps[0].id, steps[0].end), (id, Some(Duration::from_secs(2))));
    }

    #[test]
    fn later_steps_belong_to_the_entered_step() {
        let trace = trace();
        let outer = trace.begin(StepDetail::Queue, None, Duration::ZERO);
        trace.enter(outer);
        trace.begin(StepDetail::Connect, None, Duration::ZERO);
        let parents: Vec<_> = trace.steps().iter().map(|step| step.parent).collect();
        assert_eq!(parents, [None, Some(outer)]);
        assert_eq!(trace.current(), trace.trace_parent().with_span(outer));
        trace.leave();
        assert_eq!(trace.current(), trace.trace_parent());
    }

    #[test]
    fn request_without_a_parent_adopts_the_trace_in_its_body() {
        let trace = trace();
        let span = trace.trace_parent().span_id;
        let parent = TraceParent { trace_id: TraceId::random(), span_id: SpanId::random(), flags: SAMPLED };
        trace.adopt(parent, "a=1");
        assert_eq!(trace.trace_parent(), parent.with_span(span));
        assert_eq!((trace.parent(), &*trace.state()), (Some(parent.span_id), "a=1"));
        let other = TraceParent { trace_id: TraceId::random(), ..parent };
        trace.adopt(other, "");
        assert_eq!(trace.trace_parent(), parent.with_span(span), "the first parent stays");
    }

    #[test]
    fn cleared_trace_has_no_data_of_the_earlier_request() {
        let (mut used, new) = (trace(), trace());
        let parent = TraceParent { trace_id: TraceId::random(), span_id: SpanId::random(), flags: SAMPLED };
        used.adopt(parent, "a=1");
        used.enter(used.begin(StepDetail::Queue, None, Duration::ZERO));
        used.set_route(&Arc::from("/a"));
        used.set_upstream(&Arc::from("a"));
        used.set_upstream_path(UpstreamPath::Rewritten("/a"));
        used.set_routed(Duration::ZERO);
        used.break_off("timeout");
        used.clear();
        used.restart(new.trace_parent(), None, "", Duration::ZERO, 1_000_000_000);
        assert_eq!(format!("{used:?}"), format!("{new:?}"));
    }

    #[test]
    fn only_traces_that_are_exported_have_exemplars() {
        let trace = trace();
        let now = || SystemTime::UNIX_EPOCH + Duration::from_secs(7);
        let (fast, slow) = (Duration::from_millis(999), Duration::from_secs(1));
        assert_eq!(trace.exemplar(None, fast, false, now), None);
        let TraceParent { trace_id, span_id, .. } = trace.trace_parent();
        let expected = Exemplar { trace_id, span_id, value: slow, unix_nanos: 7_000_000_000 };
        assert_eq!(trace.exemplar(None, slow, false, now), Some(expected));
        assert!(trace.exemplar(None, fast, true, now).is_some(), "failed requests are exported");
        let parent = TraceParent { trace_id: TraceId::random(), span_id: SpanId::random(), flags: SAMPLED };
        trace.adopt(parent, "");
        let step = trace.begin(StepDetail::Queue, None, Duration::ZERO);
        let exemplar = trace.exemplar(Some(step), fast, false, now).unwrap();
        assert_eq!((exemplar.trace_id, exemplar.span_id), (parent.trace_id, step));
    }

    #[test]
    fn coarse_time_drops_only_traces_that_are_certainly_not_exported() {
        let trace = trace();
        let early = Duration::from_millis(990);
        assert_eq!(early + RequestTrace::COARSE_TIME_ERROR_MAX, Duration::from_secs(1));
        assert!(trace.is_dropped(Duration::from_millis(989), false));
        assert!(!trace.is_dropped(Duration::ZERO, true), "the request has failed");
        assert!(!trace.is_dropped(early, false), "the request may be slow");
        let parent = TraceParent { trace_id: TraceId::random(), span_id: SpanId::random(), flags: SAMPLED };
        trace.adopt(parent, "");
        assert!(!trace.is_dropped(Duration::ZERO, false), "the trace is sampled");
    }

    #[test]
    fn number_of_steps_is_bounded() {
        let trace = trace();
        for _ in 0..1000 {
            let id = trace.begin(StepDetail::Queue, None, Duration::ZERO);
            trace.change(id, |step| step.end = Some(Duration::ZERO));
        }
        assert_eq!(trace.steps().len(), STEPS_MAX);
    }
}
