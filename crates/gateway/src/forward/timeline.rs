//! Times of a request on its way, for access logs. Without one, there is no timeline.

use std::sync::Arc;
use std::time::Duration;

use thruway_net::Clock;
use thruway_server::{Forwarded, Response};

use super::request_id::RequestId;
use crate::Failure;
use crate::upstream::{Server, Upstream};

/// The timeline of a request.
pub(super) struct Timeline<'c> {
    clock: &'c Clock,
    forwarded: Box<Forwarded>,
    /// When the last step ended.
    since: Duration,
}

impl<'c> Timeline<'c> {
    pub(super) fn new(upstream: &Upstream, id: RequestId, clock: &'c Clock) -> Self {
        let forwarded = Forwarded { request_id: id.into_told(), ..Forwarded::to(upstream.label.clone()) };
        Self { clock, forwarded: Box::new(forwarded), since: clock.now_exact() }
    }

    /// There is a server that may be asked.
    pub(super) fn selected(&mut self, server: &Arc<Server>) {
        self.note(|forwarded, elapsed| {
            forwarded.queue += elapsed;
            forwarded.server = Some(server.label.clone());
            (forwarded.connect, forwarded.head) = (None, None);
        });
    }

    /// There is a connection to it.
    pub(super) fn connected(&mut self, is_reused: bool) {
        self.note(|forwarded, elapsed| forwarded.connect = (!is_reused).then_some(elapsed));
    }

    /// The head of its response is there.
    pub(super) fn responded(&mut self) {
        self.note(|forwarded, elapsed| forwarded.head = Some(elapsed));
    }

    /// It is asked again, or another one.
    pub(super) fn retries(&mut self) {
        self.note(|forwarded, _| forwarded.retries += 1);
    }

    /// There will be no response.
    pub(super) fn failed(&mut self, failure: Failure) {
        self.note(|forwarded, _| forwarded.failure = Some(failure.proxy_error()));
    }

    /// Gives the timeline to the access log, with `response`.
    pub(super) fn finish(self, response: &mut Response) {
        response.set_forwarded(self.forwarded);
    }

    /// Lets `note` record a step that ends now, with its duration.
    fn note(&mut self, note: impl FnOnce(&mut Forwarded, Duration)) {
        let now = self.clock.now_exact();
        note(&mut self.forwarded, now.saturating_sub(self.since));
        self.since = now;
    }
}
