//! Durations of the steps of a forwarded request, for access logs. The durations are recorded only if an
//! access log needs them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::Worker;
use thruway_server::{Forwarded, Response};

use super::request_id::RequestId;
use crate::Failure;
use crate::upstream::{Server, Upstream};

/// Records the durations of the steps of one forwarded request.
pub(super) struct Timeline {
    worker: Rc<Worker>,
    forwarded: Box<Forwarded>,
    /// Time at which the previous step ended.
    since: Duration,
}

impl Timeline {
    pub(super) fn new(upstream: &Upstream, id: RequestId, worker: Rc<Worker>) -> Self {
        let forwarded = Forwarded { request_id: id.into_used_id(), ..Forwarded::to(upstream.label.clone()) };
        let since = worker.clock().now_exact();
        Self { worker, forwarded: Box::new(forwarded), since }
    }

    /// Records that a server was selected.
    pub(super) fn selected(&mut self, server: &Arc<Server>) {
        self.note(|forwarded, elapsed| {
            forwarded.queue += elapsed;
            forwarded.server = Some(server.label.clone());
            (forwarded.connect, forwarded.head) = (None, None);
        });
    }

    /// Records that a connection is open.
    pub(super) fn connected(&mut self, is_reused: bool) {
        self.note(|forwarded, elapsed| forwarded.connect = (!is_reused).then_some(elapsed));
    }

    /// Records that the response head arrived.
    pub(super) fn responded(&mut self) {
        self.note(|forwarded, elapsed| forwarded.head = Some(elapsed));
    }

    /// Records a retry.
    pub(super) fn retries(&mut self) {
        self.note(|forwarded, _| forwarded.retries += 1);
    }

    /// Records the failure of a request that got no response.
    pub(super) fn failed(&mut self, failure: Failure) {
        self.note(|forwarded, _| forwarded.failure = Some(failure.proxy_error()));
    }

    /// Attaches the recorded durations to `response`, for the access log.
    pub(super) fn finish(self, response: &mut Response) {
        response.set_forwarded(self.forwarded);
    }

    /// Calls `note` with the duration since the previous step ended.
    fn note(&mut self, note: impl FnOnce(&mut Forwarded, Duration)) {
        let now = self.worker.clock().now_exact();
        note(&mut self.forwarded, now.saturating_sub(self.since));
        self.since = now;
    }
}
