//! Times of the steps of a forwarded request, for access logs and for traces. The times are recorded only if
//! an access log or a trace needs them.

use std::rc::Rc;
use std::time::Duration;

use thruway_net::Clock;
use thruway_server::{Forwarded, Request, Response};
use thruway_telemetry::{AttemptDetail, RequestTrace, SpanId, StepDetail, UpstreamPath};

use super::request_id::RequestId;
use crate::Failure;
use crate::upstream::{ServerSlot, Upstream};

/// Records the durations of the steps of one forwarded request.
pub(super) struct Timeline {
    /// Durations for the access log. `None` if only a trace needs the times.
    forwarded: Option<Box<Forwarded>>,
    /// Time at which the previous step ended.
    since: Duration,
    /// The trace of the request. `None` if tracing is off.
    traced: Option<TracedRequest>,
}

/// The trace of a request, and the span of its current attempt.
struct TracedRequest {
    trace: Rc<RequestTrace>,
    attempt: Option<SpanId>,
    /// Number of earlier attempts.
    retries: u32,
    /// `true` if the current attempt has a connection. If it has none, the request may move to another server
    /// within the same attempt.
    is_connected: bool,
}

/// The trace of a request whose response body is still arriving.
pub(super) struct BodyTrace {
    trace: Rc<RequestTrace>,
    attempt: SpanId,
}

impl BodyTrace {
    /// Records that the body of the response has ended too early, at the time `now`.
    #[cold]
    pub(super) fn failed(&self, failure: Failure, now: Duration) {
        self.trace.break_off(failure.proxy_error());
        self.trace.change(self.attempt, |step| {
            step.end = Some(now);
            if let StepDetail::Attempt(detail) = &mut step.detail {
                detail.error = Some(failure.proxy_error());
            }
        });
    }

    /// Records that the body of the response is complete, at the time `now`.
    pub(super) fn completed(&self, now: Duration) {
        self.trace.change(self.attempt, |step| step.end = Some(now));
    }
}

impl Timeline {
    /// Begins a timeline. If the request has a trace, the time since its arrival becomes the step for routing
    /// and policies. `is_logged` is `true` if the response must have the durations.
    pub(super) fn new(request: &Request<'_>, upstream: &Upstream, id: RequestId, is_logged: bool) -> Self {
        let of_request =
            || Forwarded { request_id: id.into_used_id(), ..Forwarded::to(upstream.label.clone()) };
        let forwarded = is_logged.then(|| Box::new(of_request()));
        let (trace, clock) = (request.trace(), request.worker().clock());
        let since = match trace {
            // Routing and policies usually take a few microseconds.
            Some(trace) if is_coarse(trace, is_logged) && trace.starts_after(clock.now()) => trace.start(),
            _ => clock.now_exact(),
        };
        let traced = trace.map(|trace| {
            trace.set_routed(since);
            TracedRequest { trace: trace.clone(), attempt: None, retries: 0, is_connected: false }
        });
        Self { forwarded, since, traced }
    }

    /// Returns the time at which the previous step ended. Its precision is nanoseconds until the first response.
    pub(super) const fn since(&self) -> Duration {
        self.since
    }

    /// Records that the body of the request has arrived. The next step begins now.
    pub(super) fn buffered(&mut self, clock: &Clock) {
        self.since = clock.now_exact();
    }

    /// Records that the request waits for a server of `upstream`.
    pub(super) fn waits(&self, upstream: &Upstream) {
        if let Some(traced) = &self.traced {
            traced.trace.set_upstream(&upstream.label);
        }
    }

    /// Records that a server was selected, possibly after a wait.
    pub(super) fn selected(&mut self, slot: &ServerSlot) {
        let since = self.since;
        self.note(slot.clock(), |forwarded, elapsed| forwarded.queue += elapsed);
        if let Some(traced) = &self.traced {
            traced.add_wait(since, self.since);
        }
        self.selected_at_once(slot);
    }

    /// Records that a server was selected without a wait. Reads no clock.
    #[inline]
    pub(super) fn selected_at_once(&mut self, slot: &ServerSlot) {
        if let Some(forwarded) = &mut self.forwarded {
            forwarded.server = Some(slot.server.label.clone());
            (forwarded.connect, forwarded.head) = (None, None);
        }
        if let Some(traced) = &mut self.traced {
            slot.time_connection();
            traced.begin_attempt(slot, self.since);
        }
    }

    /// Records that a connection is open. Reads no clock for a reused connection, because there was no wait since
    /// the selection of the server.
    pub(super) fn connected(&mut self, slot: &ServerSlot, is_reused: bool) {
        let since = self.since;
        if !is_reused {
            self.note(slot.clock(), |forwarded, elapsed| forwarded.connect = Some(elapsed));
        }
        if let Some(traced) = &mut self.traced {
            traced.is_connected = true;
            if !is_reused {
                traced.add_connection(slot, since, self.since);
            }
        }
    }

    /// Returns the trace of a response whose body or tunnel continues. `None` if tracing is off.
    pub(super) fn body_trace(&self) -> Option<BodyTrace> {
        let traced = self.traced.as_ref()?;
        Some(BodyTrace { trace: traced.trace.clone(), attempt: traced.attempt? })
    }

    /// Returns the trace of the request. `None` if tracing is off.
    pub(super) fn trace(&self) -> Option<&Rc<RequestTrace>> {
        self.traced.as_ref().map(|traced| &traced.trace)
    }

    /// Returns the span of the current attempt. `None` if tracing is off.
    pub(super) fn attempt(&self) -> Option<SpanId> {
        self.traced.as_ref()?.attempt
    }

    /// Records that the head of `response` arrived. `is_complete` is `true` if no part of the body is missing.
    pub(super) fn responded(&mut self, response: &Response, is_complete: bool, clock: &Clock) {
        let status = response.status().as_u16();
        let coarse =
            self.traced.as_ref().and_then(|traced| traced.coarse_time(self.is_logged(), status, clock));
        match coarse {
            Some(now) => self.since = self.since.max(now),
            None => self.note(clock, |forwarded, elapsed| forwarded.head = Some(elapsed)),
        }
        let now = self.since;
        if let Some(traced) = &self.traced {
            traced.change_attempt(is_complete.then_some(now), |attempt| {
                attempt.first_byte = Some(now);
                attempt.status = Some(status);
            });
        }
    }

    /// Records that the current attempt failed.
    pub(super) fn attempt_failed(&mut self, failure: Failure, clock: &Clock) {
        if let Some(traced) = &mut self.traced {
            let now = clock.now_exact();
            traced.change_attempt(Some(now), |attempt| attempt.error = Some(failure.proxy_error()));
            (traced.attempt, traced.is_connected) = (None, false);
        }
    }

    /// Records that the response to the current attempt causes a retry.
    pub(super) fn attempt_rejected(&mut self, clock: &Clock) {
        if let Some(traced) = &mut self.traced {
            traced.change_attempt(Some(clock.now_exact()), |_| {});
            (traced.attempt, traced.is_connected) = (None, false);
        }
    }

    /// Records a retry.
    pub(super) fn retries(&mut self, clock: &Clock) {
        if let Some(traced) = &mut self.traced {
            traced.retries += 1;
        }
        self.note(clock, |forwarded, _| forwarded.retries += 1);
    }

    /// Records the failure of a request that got no response. If no server was selected, the request has waited
    /// in the queue.
    pub(super) fn failed(&mut self, failure: Failure, clock: &Clock) {
        let since = self.since;
        self.note(clock, |forwarded, elapsed| {
            forwarded.failure = Some(failure.proxy_error());
            if forwarded.server.is_none() {
                forwarded.queue += elapsed;
            }
        });
        if let Some(traced) = &self.traced {
            if traced.attempt.is_none() {
                traced.add_wait(since, self.since);
            }
            traced.trace.fail(failure.proxy_error());
        }
    }

    /// Attaches the recorded durations to `response`, for the access log. `path` is the path of the request to
    /// the upstream.
    pub(super) fn finish<'p>(self, response: &mut Response, path: impl FnOnce() -> UpstreamPath<'p>) {
        let failed = response.status().as_u16() >= 500;
        if let Some(TracedRequest { trace, .. }) = &self.traced
            && (failed || trace.trace_parent().is_sampled())
        {
            trace.set_upstream_path(path());
        }
        if let Some(forwarded) = self.forwarded {
            response.set_forwarded(forwarded);
        }
    }

    const fn is_logged(&self) -> bool {
        self.forwarded.is_some()
    }

    /// Calls `note` with the duration since the previous step ended.
    #[inline]
    fn note(&mut self, clock: &Clock, note: impl FnOnce(&mut Forwarded, Duration)) {
        let now = clock.now_exact();
        if let Some(forwarded) = &mut self.forwarded {
            note(forwarded, now.saturating_sub(self.since));
        }
        self.since = now;
    }
}

/// Returns `true` if the times of the request may have the precision of the fast clock. The trace is not sampled,
/// so it is exported only if the request fails or is slow.
#[inline]
fn is_coarse(trace: &RequestTrace, is_logged: bool) -> bool {
    !is_logged && !trace.trace_parent().is_sampled()
}

impl TracedRequest {
    /// Returns a coarse time if the trace is certainly not exported, as far as known when the response arrives with
    /// the status `status`.
    #[inline]
    fn coarse_time(&self, is_logged: bool, status: u16, clock: &Clock) -> Option<Duration> {
        if !is_coarse(&self.trace, is_logged) {
            return None;
        }
        let now = clock.now();
        self.trace.is_dropped(now, status >= 500).then_some(now)
    }

    /// Adds the step in which the request waited for a server or for a connection.
    fn add_wait(&self, start: Duration, end: Duration) {
        if end.saturating_sub(start) >= WAIT_MIN {
            self.trace.add_completed(StepDetail::Queue, None, start, end);
        }
    }

    /// Begins an attempt at the server of `slot`. If the current attempt has no connection yet, it moves to
    /// this server.
    fn begin_attempt(&mut self, slot: &ServerSlot, now: Duration) {
        let detail = AttemptDetail {
            target: slot.server.target.clone(),
            retries: self.retries,
            status: None,
            first_byte: None,
            error: None,
        };
        match self.attempt {
            Some(attempt) if !self.is_connected => self.trace.change(attempt, |step| {
                (step.start, step.detail) = (now, StepDetail::Attempt(detail));
            }),
            _ => self.attempt = Some(self.trace.begin(StepDetail::Attempt(detail), None, now)),
        }
        self.is_connected = false;
    }

    /// Adds the steps in which the attempt opened its connection.
    fn add_connection(&self, slot: &ServerSlot, start: Duration, end: Duration) {
        match slot.connected_at().filter(|_| slot.upstream.config.tls.is_some()) {
            Some(connected) => {
                self.trace.add_completed(StepDetail::Connect, self.attempt, start, connected);
                self.trace.add_completed(StepDetail::Tls, self.attempt, connected, end);
            }
            None => {
                self.trace.add_completed(StepDetail::Connect, self.attempt, start, end);
            }
        }
    }

    fn change_attempt(&self, end: Option<Duration>, change: impl FnOnce(&mut AttemptDetail)) {
        let Some(attempt) = self.attempt else { return };
        self.trace.change(attempt, |step| {
            step.end = end;
            if let StepDetail::Attempt(detail) = &mut step.detail {
                change(detail);
            }
        });
    }
}

/// Minimum duration of a wait that becomes a step. The selection of a server without waiting is shorter.
const WAIT_MIN: Duration = Duration::from_micros(50);
