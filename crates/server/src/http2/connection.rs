//! An HTTP/2 connection and its streams.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use thruway_http1::{BodyLength, RequestFacts, ResponseTo};
use thruway_message::{RequestHead, StatusCode, Version};
use thruway_net::{ConnectionGuard, Deadline, PooledBuffer, Transport};

use super::accepting::{Accepting, accept, give_back};
use super::incoming::{Incoming, Reading};
use super::request_head::{HeadBuffer, Refusal};
use super::stream::{Connected, Stream};
use super::wire::Wire;
use crate::connection::{Log, Logged, Outcome, Service, misdirected, panicked, too_many_connections};
use crate::connection_info::ConnectionInfo;
use crate::handler::{Answer, Handler};
use crate::request::{Request, RequestContent};
use crate::response::Response;

/// Drives a connection to its end. `early` contains the bytes that were already read from `transport`.
pub(crate) fn drive<T: Transport>(
    service: Rc<Service>,
    transport: T,
    early: PooledBuffer,
    info: ConnectionInfo,
    guard: ConnectionGuard,
) -> impl Future<Output = ()> {
    let mut connection = Connection::new(service, transport, early, info, guard);
    poll_fn(move |cx| connection.poll(cx))
}

/// The state of one connection.
pub(super) struct Connection<T: Transport> {
    pub(super) wire: Wire<T>,
    pub(super) connected: Rc<Connected>,
    pub(super) phase: Phase<T>,
    pub(super) streams: FuturesUnordered<Stream>,
    pub(super) requests: u64,
    /// Last time at which a request was in progress. Before the first request, the time at which the
    /// connection was accepted.
    pub(super) busy_at: Duration,
    /// Time of the GOAWAY frame that asks the client to open no further streams. `None` before this frame.
    pub(super) leaving_since: Option<Duration>,
    /// `true` if the connection is being aborted with a final GOAWAY.
    pub(super) is_aborted: bool,
    deadline: Deadline,
}

/// Phase of a connection.
pub(super) enum Phase<T: Transport> {
    /// The server waits for the preface of the client.
    Begins(h2::server::Handshake<Wire<T>, Bytes>),
    Open(h2::server::Connection<Wire<T>, Bytes>),
    /// All data is written. The server gives the client time to read it before the connection closes.
    Lingers {
        until: Duration,
        left_bytes: usize,
    },
}

/// Result of a poll iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PollOutcome {
    /// Some progress was made.
    Moved,
    /// No progress was made. The task is woken when progress is possible.
    Waits,
    /// The connection is over. Either the client has left, or it has had enough time to read the last data.
    IsOver,
}

impl<T: Transport> Connection<T> {
    fn new(
        service: Rc<Service>,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> Self {
        let limits = &service.config.http2;
        let wire = Wire::new(service.clone(), transport, early, service.worker.clock().now());
        let library = limits.builder(&service.config.limits).handshake(wire.clone_for_library());
        let deadline = service.worker.deadlines().register();
        Self {
            wire,
            phase: Phase::Begins(library),
            streams: FuturesUnordered::new(),
            requests: 0,
            busy_at: service.worker.clock().now(),
            leaving_since: None,
            is_aborted: false,
            deadline,
            connected: Rc::new(Connected { service, info, guard, has_moved: Cell::new(false) }),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.deadline.set_waker(cx.waker());
        let now = self.connected.service.begin_poll();
        self.wire.begin_poll(now);
        if self.deadline().is_some_and(|at| at <= now) && self.handle_overdue(now).is_ready() {
            self.break_off_streams();
            return Poll::Ready(());
        }
        for _ in 0..POLLS_MAX {
            match self.poll_once(cx, now) {
                PollOutcome::Moved => {}
                PollOutcome::Waits if self.write(cx).is_ready() => return Poll::Ready(()),
                PollOutcome::Waits => {
                    self.deadline.set(self.deadline());
                    return Poll::Pending;
                }
                PollOutcome::IsOver => return Poll::Ready(()),
            }
        }
        if self.write(cx).is_ready() {
            return Poll::Ready(());
        }
        // Yields, so that the other connections of the worker can run.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes all pending bytes at once. Ready if the client has left.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.wire.poll_gathered(cx) {
            Poll::Ready(Err(error)) if matches!(self.phase, Phase::Open(_)) => {
                tracing::debug!(%error, "HTTP/2 connection failed");
                self.break_off_streams();
                Poll::Ready(())
            }
            _ => Poll::Pending,
        }
    }

    fn poll_once(&mut self, cx: &mut Context<'_>, now: Duration) -> PollOutcome {
        match &mut self.phase {
            Phase::Begins(library) => match Pin::new(library).poll(cx) {
                Poll::Pending => PollOutcome::Waits,
                Poll::Ready(Ok(library)) => {
                    self.phase = Phase::Open(library);
                    PollOutcome::Moved
                }
                Poll::Ready(Err(error)) => self.ended(Some(&error), now),
            },
            Phase::Open(_) => self.poll_open(cx, now),
            Phase::Lingers { left_bytes, .. } => match self.wire.poll_linger(cx, left_bytes) {
                Poll::Pending => PollOutcome::Waits,
                Poll::Ready(()) => PollOutcome::IsOver,
            },
        }
    }

    /// Accepts requests and polls the streams. The next iteration writes their output.
    fn poll_open(&mut self, cx: &mut Context<'_>, now: Duration) -> PollOutcome {
        if !self.streams.is_empty() {
            self.busy_at = now;
        }
        self.leave_if_due(now);
        self.wire.gather();
        if self.wire.is_out_of_points() {
            self.abort(Reason::ENHANCE_YOUR_CALM);
        }
        let Phase::Open(library) = &mut self.phase else { return PollOutcome::Moved };
        let (mut accepted, accepting) = accept(library, &self.connected.service.worker, cx);
        self.connected.service.handler.renew();
        for (request, respond) in accepted.drain(..) {
            self.handle_request(request, respond, cx, now);
        }
        give_back(&self.connected.service.worker, accepted);
        match accepting {
            Accepting::Done => {}
            Accepting::Continues => self.connected.note_moved(true),
            Accepting::Ended(error) => return self.ended(error.as_ref(), now),
        }
        while let Poll::Ready(Some(())) = self.streams.poll_next_unpin(cx) {
            self.connected.note_moved(true);
        }
        let has_moved = self.connected.has_moved.replace(false);
        // If the final GOAWAY frame must wait until the client accepts bytes, the task is woken at that time.
        let is_to_be_aborted = self.wire.is_out_of_points() && !self.is_aborted;
        if has_moved || is_to_be_aborted { PollOutcome::Moved } else { PollOutcome::Waits }
    }

    /// Calls the handler for a request with a valid head. Returns the stream and the handler's answer. If the
    /// response is available at once, also starts to send it.
    fn handle_request(
        &mut self,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        cx: &mut Context<'_>,
        now: Duration,
    ) {
        self.requests += 1;
        self.busy_at = now;
        // If the client has already reset the stream, the handler is not called.
        if respond.poll_reset(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let (parts, from) = request.into_parts();
        let mut buffer = HeadBuffer::take(&self.connected.service.worker);
        let limits = &self.connected.service.config.limits;
        let begun = match buffer.read(&parts, from.is_end_stream(), limits) {
            Ok((head, facts)) => Some(self.begin(&head, facts, parts.uri.scheme_str(), from, cx, now)),
            Err(refusal) => self.refuse(refusal, &mut respond),
        };
        buffer.give_back(&self.connected.service.worker);
        if let Some((mut stream, answer)) = begun
            && stream.answer(respond, answer, cx, now).is_pending()
        {
            self.streams.push(stream);
        }
    }

    /// Calls the handler.
    fn begin(
        &self,
        head: &RequestHead<'_>,
        facts: RequestFacts,
        scheme: Option<&str>,
        from: RecvStream,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> (Stream, Answer) {
        let Connected { service, info, guard, .. } = &*self.connected;
        let (mut incoming, mut content, mut to_tunnel) = (None, None, None);
        if facts.wants_tunnel {
            to_tunnel = Some(from);
        } else if facts.body_length != BodyLength::NONE {
            let (mut arriving, to_handler) = Incoming::new(from, &facts, now);
            // Makes the part of the body that arrived with the head available to the handler at once.
            let reading = arriving.poll(cx, service, now);
            incoming = (reading == Reading::Continues).then_some(arriving);
            content = Some(to_handler);
        }
        let whole = content.as_ref().and_then(RequestContent::take_arrived);
        let handler = service.handler.current();
        let start = service.record_start(Some(head));
        let mut request =
            Request::new(head, &facts, whole.as_deref().unwrap_or_default(), info, guard.worker());
        request.set_proxies(service.config.trusted_proxies.at(info.client));
        request.set_trace(start.as_ref().and_then(|start| start.trace.as_ref()));
        if let Some(content) = content.filter(|_| whole.is_none()) {
            request.set_arriving(content);
        }
        let answer = self.call_handler(&*handler, &mut request, scheme);
        // Dropping the request discards its body, unless the handler has taken the body.
        drop(request);
        let log = start.as_ref().map(|start| service.keep(Logged::Parsed { head, start }));
        (Stream::new(self.connected.clone(), facts, incoming, to_tunnel, log), answer)
    }

    /// Returns the handler's answer, or an error response. The status of the error is 500 if the handler
    /// panics, and 503 if there are too many connections. It is 421 if the connection does not serve the
    /// requested host or `scheme`.
    fn call_handler<'a>(
        &self,
        handler: &'a dyn Handler,
        request: &mut Request<'a>,
        scheme: Option<&str>,
    ) -> Answer {
        let Connected { service, guard, info, .. } = &*self.connected;
        if guard.is_over_limit() {
            return Answer::Now(too_many_connections());
        }
        // A proxy may decrypt TLS and forward the HTTP/2 bytes unchanged. So `https` is valid on a connection
        // without TLS, from any client address. The server uses `:scheme` only for this check.
        let is_scheme_served = scheme.is_none_or(|scheme| info.serves_scheme(scheme, true));
        if !is_scheme_served || request.is_misdirected() {
            return Answer::Now(misdirected());
        }
        let answer = || match service.answer_first(request) {
            Some(response) => Answer::Now(response),
            None => handler.handle(request),
        };
        catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| Answer::Now(panicked()))
    }

    /// Responds to a request that must not reach a handler, or resets its stream.
    #[cold]
    fn refuse(&self, refusal: Refusal, respond: &mut SendResponse<Bytes>) -> Option<(Stream, Answer)> {
        let service = &self.connected.service;
        let log = service.record_start(None).map(|start| Box::new(Log { head: None, start }));
        self.connected.note_moved(true);
        match refusal {
            Refusal::Malformed(rule) => {
                tracing::debug!(reason = rule.message(), "reset an HTTP/2 stream: its request is malformed");
                respond.send_reset(Reason::PROTOCOL_ERROR);
                if let Some(log) = log {
                    let status = StatusCode::BAD_REQUEST;
                    let outcome = Outcome {
                        status,
                        content_bytes: 0,
                        received_bytes: None,
                        is_complete: false,
                        metadata: None,
                    };
                    service.record(&self.connected.info, Logged::Kept(log), outcome);
                }
                None
            }
            Refusal::Answered(rule) => {
                let (status, reason) = (rule.status(), rule.message());
                let response = Response::text(format_args!("{status} {}: {reason}\n", status.reason()));
                let answer = Answer::Now(response.with_status(status));
                Some((Stream::new(self.connected.clone(), REFUSED, None, None, log), answer))
            }
        }
    }
}

/// A connection is dropped before its end if the timeout of a graceful shutdown has expired. No task polls
/// the connection again, so this function records its requests.
impl<T: Transport> Drop for Connection<T> {
    fn drop(&mut self) {
        self.break_off_streams();
    }
}

/// Facts that the server assumes for a refused request, which it treats like a request without a body.
const REFUSED: RequestFacts = RequestFacts {
    version: Version::Http2,
    response_to: ResponseTo::Other,
    body_length: BodyLength::NONE,
    is_persistent: true,
    expects_continue: false,
    wants_tunnel: false,
};

/// Maximum number of poll iterations of a connection before other connections run.
const POLLS_MAX: usize = 8;
