//! One stream: a request and its response.
//!
//! ```text
//! Awaits ──▶ Sends ──▶ Ended
//!        └──▶ Tunnels ──▶ Ended
//! ```
//! A stream is a future in the task of its connection. It is canceled when the connection ends.

use std::cell::Cell;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use thruway_http1::{RequestFacts, ResponseBody};
use thruway_message::{FieldLinesBuf, StatusCode};
use thruway_net::{ConnectionGuard, Deadline, Http2Stream};

use super::incoming::{Incoming, Reading};
use super::response_head::{head_of, response_head, tunnel_head};
use super::sending::{Sending, Sent};
use super::tunnel::TunneledStream;
use crate::connection::{Log, Logged, Outcome, Service, poll_later, settle};
use crate::connection_info::ConnectionInfo;
use crate::handler::{Answer, Later};
use crate::response::{Response, ResponseMetadata, Source};

/// State that the streams of a connection share.
pub(super) struct Connected {
    pub(super) service: Rc<Service>,
    pub(super) info: ConnectionInfo,
    pub(super) guard: ConnectionGuard,
    /// `true` if a stream has passed data to the library, which must still write this data.
    pub(super) has_moved: Cell<bool>,
}

/// A request and the state of its response.
pub(super) struct Stream {
    connected: Rc<Connected>,
    facts: RequestFacts,
    incoming: Option<Incoming>,
    /// If the client requests a tunnel, the bytes that it sends through the tunnel.
    to_tunnel: Option<RecvStream>,
    state: State,
    /// Data for the record. `None` if the server records no requests, or if the request was already recorded.
    log: Option<Box<Log>>,
    /// Wakes the stream at its timeout. Created when the stream first waits.
    deadline: Option<Deadline>,
}

enum State {
    /// The handler has not responded yet.
    Awaits {
        respond: SendResponse<Bytes>,
        later: Later,
    },
    /// The response body is being sent.
    Sends(Box<Sending>),
    /// The stream is a tunnel.
    Tunnels(TunneledStream),
    Ended,
}

impl Stream {
    pub(super) fn new(
        connected: Rc<Connected>,
        facts: RequestFacts,
        incoming: Option<Incoming>,
        to_tunnel: Option<RecvStream>,
        log: Option<Box<Log>>,
    ) -> Self {
        Self { connected, facts, incoming, to_tunnel, state: State::Ended, log, deadline: None }
    }

    /// Sends the response if it is available. Otherwise, starts to wait for the response. Ready when the
    /// stream has ended.
    pub(super) fn answer(
        &mut self,
        respond: SendResponse<Bytes>,
        answer: Answer,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Poll<()> {
        match answer {
            Answer::Now(response) => self.start(respond, response),
            Answer::Later(later) => self.state = State::Awaits { respond, later },
        }
        self.poll_progress(cx, now)
    }

    /// Makes all possible progress. Ready when the stream has ended.
    fn poll_progress(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<()> {
        self.poll_incoming(cx, now);
        loop {
            let outcome = match &mut self.state {
                State::Awaits { respond, later } => {
                    let outcome = poll_answer(respond, later, &self.connected, cx);
                    match outcome {
                        Poll::Ready(Some(response)) => {
                            self.start_awaited(response);
                            continue;
                        }
                        Poll::Ready(None) => Poll::Ready(Sent::BrokenOff),
                        Poll::Pending => {
                            self.send_continue(now);
                            Poll::Pending
                        }
                    }
                }
                State::Sends(sending) => {
                    let mut has_moved = false;
                    let outcome = sending.poll(cx, self.connected.guard.is_draining(), now, &mut has_moved);
                    self.connected.note_moved(has_moved);
                    outcome
                }
                State::Tunnels(over) => over.poll(cx).map(|()| Sent::Complete),
                State::Ended => return Poll::Ready(()),
            };
            match outcome {
                Poll::Ready(sent) => self.end(sent == Sent::Complete),
                Poll::Pending if self.is_overdue(now) => {}
                Poll::Pending => {
                    self.wait(cx);
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>, now: Duration) {
        let Some(incoming) = &mut self.incoming else { return };
        let before = incoming.received_bytes();
        let reading = incoming.poll(cx, &self.connected.service, now);
        if let State::Sends(sending) = &mut self.state
            && incoming.received_bytes() > before
        {
            // The client is sending its request body, so it counts as active even if it does not read.
            sending.stalled_since = None;
        }
        if reading == Reading::IsOver {
            self.incoming = None;
        }
    }

    /// Sends a response that was not available at once.
    fn start_awaited(&mut self, response: Response) {
        if let State::Awaits { respond, .. } = mem::replace(&mut self.state, State::Ended) {
            self.start(respond, response);
        }
    }

    /// Sends the head of the response, and also the whole body if the windows of the client allow it.
    /// Otherwise, later polls send the body.
    fn start(&mut self, mut respond: SendResponse<Bytes>, mut response: Response) {
        settle(&mut response, &self.facts);
        if let Some(tls) = &self.connected.info.tls {
            tls.add_strict_transport_security(&mut response);
        }
        if response.has_tunnel() {
            return self.hand_over(respond, response);
        }
        if self.to_tunnel.is_some() && response.status().is_success() {
            // The handler has returned a success response to CONNECT without a tunnel. The client would treat
            // its body as data from the tunnel (RFC 8441 §5).
            response = Response::new(StatusCode::NOT_IMPLEMENTED);
        }
        let status = response.status();
        let body = ResponseBody::for_response(&self.facts, status, response.content().length());
        let head = response_head(&response, body, &self.connected.service.origin_fields.borrow());
        self.connected.note_moved(true);
        let metadata = response.take_metadata();
        let source = if body.has_content() { response.take_content() } else { Source::Empty };
        let Ok(to) = respond.send_response(head, !body.has_content()) else {
            return self.record_unanswered(metadata);
        };
        if !body.has_content() {
            return self.record(status, 0, true, metadata);
        }
        let length = if let ResponseBody::Bytes(bytes) = body { Some(bytes) } else { None };
        let mut sending = Sending::new(to, source, length, status, metadata);
        match sending.send_at_once() {
            Some(sent) => self.record(status, sending.sent_bytes, sent == Sent::Complete, sending.metadata),
            None => self.state = State::Sends(Box::new(sending)),
        }
    }

    /// Turns the stream into a tunnel. The request is recorded when the tunnel ends.
    fn hand_over(&mut self, mut respond: SendResponse<Bytes>, mut response: Response) {
        let head = tunnel_head(&response, &self.connected.service.origin_fields.borrow());
        let (metadata, from) = (response.take_metadata(), self.to_tunnel.take());
        self.connected.note_moved(true);
        match (response.take_content(), from, respond.send_response(head, false)) {
            (Source::Tunnel(handler), Some(from), Ok(to)) => {
                self.state =
                    State::Tunnels(TunneledStream::new(handler, Http2Stream::new(to, from, ()), metadata));
            }
            _ => self.record_unanswered(metadata),
        }
    }

    /// Sends `100 (Continue)` if the handler waits for the body and the client waits for this interim
    /// response (RFC 9110 §10.1.1).
    fn send_continue(&mut self, now: Duration) {
        if let State::Awaits { respond, .. } = &mut self.state
            && self.incoming.as_mut().is_some_and(|incoming| incoming.take_continue(now))
        {
            // This call fails only if the client has left, which other code detects.
            let _ = respond.send_informational(head_of(StatusCode::CONTINUE, &FieldLinesBuf::new()));
            self.connected.note_moved(true);
        }
    }

    /// Handles expired deadlines. Returns `true` if a deadline had expired.
    fn is_overdue(&mut self, now: Duration) -> bool {
        let timeouts = self.connected.service.config.timeouts;
        let is_over = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        if let State::Sends(sending) = &mut self.state
            && is_over(sending.stalled_since.map(|since| since + timeouts.write_stall))
        {
            sending.give_up();
            self.connected.note_moved(true);
            self.end(false);
            return true;
        }
        if let Some(incoming) = &self.incoming
            && is_over(incoming.deadline(&timeouts))
        {
            incoming.time_out(&self.connected.service);
            self.incoming = None;
            return true;
        }
        false
    }

    /// Sets the timer that wakes the stream at its next deadline. Also wakes the stream when a graceful
    /// shutdown starts.
    fn wait(&mut self, cx: &Context<'_>) {
        let Service { config, worker, .. } = &*self.connected.service;
        let stalled = match &self.state {
            State::Sends(sending) => sending.stalled_since.map(|since| since + config.timeouts.write_stall),
            State::Awaits { .. } | State::Tunnels(_) | State::Ended => None,
        };
        let content = self.incoming.as_ref().and_then(|incoming| incoming.deadline(&config.timeouts));
        let deadline = self.deadline.get_or_insert_with(|| worker.deadlines().register());
        deadline.set(stalled.into_iter().chain(content).min());
        deadline.set_waker(cx.waker());
    }

    /// Ends the stream and records its request. `is_complete` is `true` after a complete response.
    fn end(&mut self, is_complete: bool) {
        match mem::replace(&mut self.state, State::Ended) {
            State::Awaits { .. } => self.record_unanswered(None),
            State::Sends(sending) => {
                let Sending { status, sent_bytes, metadata, .. } = *sending;
                self.record(status, sent_bytes, is_complete, metadata);
            }
            State::Tunnels(over) => self.record_tunnel(over, is_complete),
            State::Ended => {}
        }
    }

    /// Ends the stream because its connection ends. If the response is not complete, it stays incomplete.
    pub(super) fn break_off(&mut self) {
        self.end(false);
    }

    fn record(
        &mut self,
        status: StatusCode,
        content_bytes: u64,
        is_complete: bool,
        metadata: Option<ResponseMetadata>,
    ) {
        self.record_as(Outcome { status, content_bytes, received_bytes: None, is_complete, metadata });
    }

    fn record_unanswered(&mut self, metadata: Option<ResponseMetadata>) {
        self.record(self.connected.service.unanswered(), 0, false, metadata);
    }

    /// Records the request that has opened the tunnel, with the byte counts of the tunnel. `is_at_end` is
    /// `true` if the tunnel ended normally.
    fn record_tunnel(&mut self, over: TunneledStream, is_at_end: bool) {
        self.record_as(Outcome {
            status: StatusCode::OK,
            content_bytes: over.sent_bytes(),
            received_bytes: Some(over.received_bytes()),
            is_complete: is_at_end && !over.is_broken_off(),
            metadata: over.metadata,
        });
    }

    fn record_as(&mut self, outcome: Outcome) {
        if let Some(log) = self.log.take() {
            self.connected.service.record(&self.connected.info, Logged::Kept(log), outcome);
        }
    }
}

impl Connected {
    pub(super) fn note_moved(&self, has_moved: bool) {
        self.has_moved.set(self.has_moved.get() || has_moved);
    }
}

/// Polls the future of the response, and sends the interim responses of the handler. `None` if the client has
/// reset the stream.
fn poll_answer(
    respond: &mut SendResponse<Bytes>,
    later: &mut Later,
    connected: &Connected,
    cx: &mut Context<'_>,
) -> Poll<Option<Response>> {
    if respond.poll_reset(cx).is_ready() {
        return Poll::Ready(None);
    }
    let mut interim = Vec::new();
    let outcome = poll_later(later, &connected.service.interim_slot, &mut interim, cx);
    for interim in &interim {
        // This call fails only if the client has left, which other code detects.
        let _ = respond.send_informational(head_of(interim.status, &interim.field_lines));
        connected.note_moved(true);
    }
    outcome.map(Some)
}

impl Future for Stream {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.connected.service.worker.clock().now();
        self.poll_progress(cx, now)
    }
}
