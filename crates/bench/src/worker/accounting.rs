//! Records the results of the requests that a worker sends.

use std::time::{Duration, UNIX_EPOCH};

use super::connection::Handshake;
use super::dispatch::Worker;
use super::plan::{Answered, StartedRequest, StepRequest};
use crate::failure::{Failure, FailureKind};
use crate::record::Record;
use crate::stop::Limit;

impl Worker {
    pub(super) fn complete(&self, ticket: StartedRequest, now: Duration, answered: &Answered) {
        if !self.is_measured(ticket, now) {
            return;
        }
        let record = &mut *self.record.borrow_mut();
        if let Some(status) = answered.status {
            record.count_status(status, 1);
        }
        record.answered += 1;
        record.sent_bytes += answered.sent_bytes;
        record.received_bytes += answered.received_bytes;
        record.content_bytes += answered.content_bytes;
        record.event_streams += u64::from(answered.is_event_stream);
        record.last_answer = now;
        record.last_end = now;
        let interval = &mut self.intervals.borrow_mut().current;
        interval.answered += 1;
        if !self.has_time(ticket) {
            return;
        }
        record.service.record(now.saturating_sub(ticket.started));
        if self.is_open() {
            record.response.record(now.saturating_sub(ticket.intended));
            self.note_lateness(record, ticket, now);
        }
        self.note_stage(record, ticket, true, Some(now.saturating_sub(ticket.intended)));
        interval.response.record(now.saturating_sub(ticket.intended));
    }

    /// Returns `true` if a request that ends at `now` is counted. In a closed loop with a duration, a request
    /// counts if it ends in the measured time, even if it started in the warm-up. These requests compensate
    /// for the requests that are still in progress at the end. In all other loads, a request counts if it was
    /// scheduled in the measured time.
    #[inline]
    fn is_measured(&self, ticket: StartedRequest, now: Duration) -> bool {
        let ends_by_clock = !self.is_open() && matches!(self.share.limit, Limit::Duration(_));
        self.has_time(ticket) || ends_by_clock && now >= self.measured_from
    }

    /// Returns `true` if the request was scheduled in the measured time, not in the warm-up. Only the times
    /// of such requests are recorded.
    #[inline]
    fn has_time(&self, ticket: StartedRequest) -> bool {
        ticket.intended >= self.measured_from
    }

    /// Records a complete but unexpected response.
    pub(super) fn complete_unexpected(
        &self,
        ticket: StartedRequest,
        now: Duration,
        status: u16,
        failure: &Failure,
    ) {
        if self.is_measured(ticket, now) {
            self.record.borrow_mut().count_status(status, 1);
        }
        self.fail(ticket, now, failure);
    }

    pub(super) fn fail(&self, ticket: StartedRequest, now: Duration, failure: &Failure) {
        if !self.is_measured(ticket, now) {
            return;
        }
        let record = &mut *self.record.borrow_mut();
        let interval = &mut self.intervals.borrow_mut().current;
        record.fail(failure);
        record.last_end = record.last_end.max(now);
        interval.failed += 1;
        if !failure.kind.counts_as_waited() || !self.has_time(ticket) {
            self.note_stage(record, ticket, false, None);
            return;
        }
        // The waiting time of requests that were never sent depends on the end of the load, not on the
        // server.
        if failure.kind != FailureKind::Unsent {
            record.service.record(now.saturating_sub(ticket.started));
            self.note_lateness(record, ticket, now);
        }
        if self.is_open() {
            record.response.record(now.saturating_sub(ticket.intended));
        }
        self.note_stage(record, ticket, false, Some(now.saturating_sub(ticket.intended)));
        interval.response.record(now.saturating_sub(ticket.intended));
    }

    /// Returns the time since 1970.
    pub(super) fn date(&self) -> Duration {
        self.clock.time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Records a redirect that the user follows. A redirect counts as an answered request, but not as an answered
    /// step.
    pub(super) fn complete_redirect(
        &self,
        step: StepRequest,
        ticket: StartedRequest,
        now: Duration,
        answered: &Answered,
    ) {
        self.complete(ticket, now, answered);
        let record = &mut *self.record.borrow_mut();
        if let Some(scenario) = record.scenario.as_mut().filter(|_| self.is_measured(ticket, now)) {
            scenario.steps[step.index].redirects += 1;
        }
    }

    /// Records the expected response to the request of a step.
    pub(super) fn complete_step(
        &self,
        step: StepRequest,
        ticket: StartedRequest,
        now: Duration,
        answered: &Answered,
    ) {
        self.complete(ticket, now, answered);
        self.note_step(step, ticket, now, true, self.has_time(ticket), None);
    }

    /// Records the failed request of a step. `status` is the status of the complete
    /// response, if there is one. `example` describes the failure.
    pub(super) fn fail_step(
        &self,
        step: StepRequest,
        ticket: StartedRequest,
        now: Duration,
        failure: &Failure,
        status: Option<u16>,
        example: String,
    ) {
        match status {
            Some(status) => self.complete_unexpected(ticket, now, status, failure),
            None => self.fail(ticket, now, failure),
        }
        let has_time = failure.kind.counts_as_waited() && self.has_time(ticket);
        self.note_step(step, ticket, now, false, has_time, Some(example));
    }

    fn note_step(
        &self,
        step: StepRequest,
        ticket: StartedRequest,
        now: Duration,
        is_answered: bool,
        has_time: bool,
        example: Option<String>,
    ) {
        let record = &mut *self.record.borrow_mut();
        let Some(scenario) = record.scenario.as_mut().filter(|_| self.is_measured(ticket, now)) else {
            return;
        };
        let record = &mut scenario.steps[step.index];
        record.record(is_answered, has_time.then(|| now.saturating_sub(step.since)));
        record.example = record.example.take().or(example);
    }

    /// Records an iteration of a scenario. `is_complete` is `true` if all its steps got the expected response.
    pub(super) fn complete_iteration(&self, ticket: StartedRequest, now: Duration, is_complete: bool) {
        let record = &mut *self.record.borrow_mut();
        if let Some(scenario) = record.scenario.as_mut().filter(|_| self.is_measured(ticket, now)) {
            let has_time = is_complete && self.has_time(ticket);
            let time = has_time.then(|| now.saturating_sub(ticket.intended));
            scenario.iterations.record(is_complete, time);
            if let Some(stages) = &mut scenario.iterations_by_stage {
                stages.record(ticket.intended.saturating_sub(self.measured_from), is_complete, time);
            }
        }
    }

    /// Records an iteration that is still in progress at the end of the load.
    pub(super) fn cut_off_iteration(&self, ticket: StartedRequest) {
        let record = &mut *self.record.borrow_mut();
        if let Some(scenario) = record.scenario.as_mut().filter(|_| self.has_time(ticket)) {
            scenario.iterations_cut_off += 1;
        }
    }

    #[inline]
    fn note_lateness(&self, record: &mut Record, ticket: StartedRequest, now: Duration) {
        if let Some(lateness) = &mut record.lateness {
            let at = ticket.intended.saturating_sub(self.measured_from);
            lateness.record(at, now.saturating_sub(ticket.intended));
        }
    }

    /// Records the outcome of a request in the results of its stage.
    #[inline]
    fn note_stage(
        &self,
        record: &mut Record,
        ticket: StartedRequest,
        is_answered: bool,
        response: Option<Duration>,
    ) {
        if let Some(stages) = &mut record.stages {
            stages.record(ticket.intended.saturating_sub(self.measured_from), is_answered, response);
        }
    }

    /// Records a connection that was opened for a request.
    pub(super) fn note_opened(&self, handshake: Option<Handshake>) {
        let record = &mut *self.record.borrow_mut();
        record.connections_opened += 1;
        if self.clock.now_exact() < self.measured_from {
            return;
        }
        match handshake {
            None => {}
            Some(Handshake::Full) => record.handshakes_full += 1,
            Some(Handshake::Resumed) => record.handshakes_resumed += 1,
        }
    }

    /// Records the number of streams that the server allows on a connection.
    pub(super) fn note_streams_max(&self, allowed: usize) {
        let record = &mut *self.record.borrow_mut();
        record.streams_max = record.streams_max.min(allowed as u64);
    }

    /// Records that the server sent bytes that belong to no request.
    pub(super) fn note_unrelated_bytes(&self, now: Duration) {
        if now >= self.measured_from {
            self.record.borrow_mut().fail(&Failure::of(FailureKind::Surplus));
            self.intervals.borrow_mut().current.failed += 1;
        }
    }

    /// Records a request that is still in progress at the end of the load.
    pub(super) fn give_up(&self, ticket: StartedRequest, now: Duration) {
        if self.is_open() || self.waits_for_all() {
            self.fail(ticket, now, &Failure::of(FailureKind::Unanswered));
        } else {
            let record = &mut *self.record.borrow_mut();
            record.cut_off += 1;
            record.cut_off_waits.record(now.saturating_sub(ticket.started));
        }
    }
}
