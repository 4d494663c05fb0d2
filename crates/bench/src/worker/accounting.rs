//! Records the results of the requests that a worker sends.

use std::time::Duration;

use super::connection::Handshake;
use super::dispatch::Worker;
use super::plan::{Answered, StartedRequest};
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
