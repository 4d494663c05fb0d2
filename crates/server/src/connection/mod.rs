//! One connection, from the first octet to the last.
//!
//! ```text
//!            ┌───────────────────── a turn ─────────────────────┐
//!  client ──▶│ input: read, parse ─▶ handler ─▶ answers: in order│──▶ output: one write for all ──▶ client
//!            └───────────────────────────────────────────────────┘
//! ```
//! A connection is a future. Each time it is polled it takes turns until nothing moves any more: it reads into the
//! buffer that all connections of the worker share, answers all that is in it, and writes the answers together. What
//! remains is copied out, so that a connection that waits owns no buffer. The rules of HTTP/1.1 are in
//! `thruway-http1`; here is only what needs a clock, a socket and handlers.

// what connections of a worker share
mod origin_fields;
mod service;

// requests in
mod incoming;
mod input;

// answers out
mod exchange;
mod answers;
mod streaming;
mod output;

// how it ends
mod ending;
mod timers;
mod handed_over;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_http1::ServerConnection;
use thruway_message::StatusCode;
use thruway_net::{ConnectionGuard, Deadline, PooledBuffer, Transport, Worker};

use crate::http2;
use crate::spoken::{Spoken, recognise};
use crate::{Config, ConnectionInfo, Handler, TakeRecord};
use ending::Ending;
use exchange::{Exchange, TailRecord};
use handed_over::{HandOver, HandedOver};
use output::Output;
use streaming::Streaming;
use timers::Timers;

use service::Buffers;

// what connections of other versions do as these
pub(crate) use answers::settle;
pub(crate) use exchange::{Log, Logged, panicked, poll_later};
pub(crate) use incoming::IncomingContent;
pub(crate) use input::{misdirected, too_many_connections};
pub(crate) use origin_fields::OriginFields;
pub(crate) use service::{Outcome, Service};
pub(crate) use streaming::{is_client_fault, log_failure, poll_meanwhile, poll_piece};
pub(crate) use timers::OVER_LIMIT_PATIENCE;

/// Drives the connections of one worker, over whatever transport: what a server does with a connection once it is
/// accepted.
#[derive(Clone)]
pub struct ConnectionDriver {
    service: Rc<Service>,
}

impl ConnectionDriver {
    /// Answers with `handler`; gives a record of each request to `record`, if there is one.
    pub fn new(
        handler: Arc<dyn Handler>,
        config: Arc<Config>,
        worker: Rc<Worker>,
        record: Option<TakeRecord>,
    ) -> Self {
        Self { service: Rc::new(Service::new(handler, config, worker, record)) }
    }

    /// The same with another config.
    pub(crate) fn with_config(&self, config: Arc<Config>) -> Self {
        Self { service: Rc::new(self.service.with_config(config)) }
    }

    /// The same with another handler.
    pub(crate) fn with_handler(&self, handler: Arc<dyn Handler>) -> Self {
        Self { service: Rc::new(self.service.with_handler(handler)) }
    }

    /// Drives a connection to its end. If the guard says that there are too many, its first request is answered 503.
    pub fn drive<T: Transport>(
        &self,
        transport: T,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        drive(Connection::new(transport, self.service.clone(), info, guard))
    }

    /// Drives a connection that speaks this, of which the octets `early` were read already. The value comes from whoever has
    /// negotiated it; who has not asks [`drive_recognised`](Self::drive_recognised).
    pub async fn drive_as<T: Transport>(
        &self,
        spoken: Spoken,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) {
        match spoken {
            Spoken::Http1 => Box::pin(self.drive_from(transport, early, info, guard)).await,
            Spoken::Http2 => {
                Box::pin(http2::drive(self.service.clone(), transport, early, info, guard)).await;
            }
        }
    }

    /// The same with what the first octets tell that it speaks.
    pub async fn drive_recognised<T: Transport>(
        &self,
        mut transport: T,
        mut early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) {
        let timeouts = self.service.config.timeouts;
        if let Some(spoken) = recognise(&mut transport, &mut early, &guard, timeouts).await {
            self.drive_as(spoken, transport, early, info, guard).await;
        }
    }

    /// The same, where the octets `early` were read already.
    pub(crate) fn drive_from<T: Transport>(
        &self,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        let mut connection = Connection::new(transport, self.service.clone(), info, guard);
        connection.unparsed = early;
        drive(connection)
    }

    /// How long the client of a connection may take to say who it is.
    pub(crate) fn header_patience(&self, guard: &ConnectionGuard) -> Duration {
        timers::patience(guard, self.service.config.timeouts.header_section)
    }

    /// How long a client may take to read why it was refused.
    pub(crate) fn linger(&self) -> Duration {
        self.service.config.timeouts.linger
    }

    /// Answers the octets `early`, which are HTTP where TLS is spoken, and what comes behind them.
    pub(crate) fn refuse_plain_http<T: Transport>(
        &self,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        let mut connection = Connection::new(transport, self.service.clone(), info, guard);
        connection.unparsed = early;
        connection.refuse(StatusCode::BAD_REQUEST, "a request without TLS was sent to a port for https");
        drive(connection)
    }
}

/// The state of one connection.
struct Connection<T> {
    transport: T,
    service: Rc<Service>,
    info: ConnectionInfo,

    // requests in
    http1: ServerConnection,
    /// What has arrived and was not parsed when the last turn ended.
    unparsed: PooledBuffer,
    input: Input,
    /// What is read no further is in the middle of a request: the client may still be sending it.
    is_abandoned: bool,
    /// The content of the request that was parsed last, while it arrives.
    incoming: Option<IncomingContent>,

    // answers out
    /// Requests that are not answered yet, in their order.
    exchanges: VecDeque<Exchange>,
    /// Something has happened since they were asked that their handlers may have waited for.
    is_news_to_handlers: bool,
    /// The answer whose content is being written.
    streaming: Option<Box<Streaming>>,
    output: Output,
    /// The answer whose large content stands at the end of the output; `None` if nobody takes records.
    tail_record: Option<Box<TailRecord>>,

    /// What happens when the answers written so far have reached the client; nothing is parsed any more.
    ending: Ending,
    timers: Timers,
    deadline: Deadline,
    /// Counts this connection as open.
    guard: ConnectionGuard,
}

/// What the transport has said last of what comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Input {
    /// Nothing that still holds: there may be something to read.
    Unknown,
    /// There is nothing yet, and it will wake this task when there is.
    Awaited,
    /// The client sends nothing more.
    Ended,
}

/// What a step of a turn came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Something moved: the other steps may have something to do now.
    Moved,
    /// Nothing moved; the task will be woken when it can.
    Waits,
}

impl<T: Transport> Connection<T> {
    fn new(transport: T, service: Rc<Service>, info: ConnectionInfo, guard: ConnectionGuard) -> Self {
        let now = service.worker.clock().now();
        let deadline = service.worker.deadlines().register();
        Self {
            transport,
            info,
            http1: ServerConnection::new(service.config.limits),
            unparsed: PooledBuffer::default(),
            input: Input::Unknown,
            is_abandoned: false,
            incoming: None,
            exchanges: VecDeque::new(),
            is_news_to_handlers: false,
            streaming: None,
            output: Output::default(),
            tail_record: None,
            ending: Ending::No,
            timers: Timers::new(now),
            deadline,
            guard,
            service,
        }
    }

    /// Takes a turn, and another, until nothing moves. Ready when the connection is at its end, with what it is
    /// handed over to.
    fn poll_turns(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        now: Duration,
    ) -> Poll<io::Result<Option<Box<HandOver>>>> {
        // Whatever woke this task may have been meant for them.
        self.is_news_to_handlers = true;
        for _ in 0..TURNS_MAX {
            let answered = self.poll_answers(cx, now);
            let read = self.poll_input(cx, buffers, now)?;
            let (output, written) = self.poll_output(cx)?;
            if matches!(self.ending, Ending::Abort) {
                return Poll::Ready(Ok(None));
            }
            if self.ending.is_due() {
                if output.is_ready() {
                    return self.poll_ending(cx, buffers, now);
                }
                if written == Step::Waits {
                    return Poll::Pending;
                }
            }
            if [answered, read, written] == [Step::Waits; 3] {
                return Poll::Pending;
            }
            self.timers.moved_at = now;
        }
        // Others want their turn too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes what is there. Ready if that is everything; and whether anything was written.
    #[inline]
    fn poll_output(&mut self, cx: &mut Context<'_>) -> io::Result<(Poll<()>, Step)> {
        if self.output.is_empty() {
            return Ok((Poll::Ready(()), Step::Waits));
        }
        let mut has_moved = false;
        let outcome = self.output.poll_write(cx, &mut self.transport, &mut has_moved)?;
        if !self.output.has_tail() {
            self.record_tail();
        }
        if has_moved {
            self.timers.stalled_since = None;
        }
        Ok((outcome, if has_moved { Step::Moved } else { Step::Waits }))
    }

    /// Drives the connection. Ready at its end, with what it is handed over to.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Box<HandOver>>> {
        self.deadline.set_waker(cx.waker());
        let service = self.service.clone();
        let now = service.begin_turn();
        let buffers = &mut *service.buffers.borrow_mut();
        self.take_buffers(buffers);
        self.handle_deadline(cx, now);
        let outcome = self.poll_turns(cx, buffers, now);
        self.give_buffers_back(buffers);
        match outcome {
            Poll::Pending => {
                self.set_deadline(now);
                Poll::Pending
            }
            Poll::Ready(end) => {
                self.record_unanswered();
                // A connection that fails is the client's business: there is nobody to tell.
                Poll::Ready(end.unwrap_or_default())
            }
        }
    }
}

/// Drives a connection to its end, and what it is handed over to. Not `async`: that would keep room for the connection twice.
fn drive<T: Transport>(connection: Connection<T>) -> impl Future<Output = ()> {
    let mut driven = Driven(State::Connection(connection));
    poll_fn(move |cx| driven.poll(cx))
}

/// A connection, or what it was handed over to.
struct Driven<T: Transport>(State<T>);

#[expect(
    clippy::large_enum_variant,
    reason = "most are connections to their end; a box would be one more for each"
)]
enum State<T> {
    Connection(Connection<T>),
    HandedOver(Box<HandedOver>),
    Ended,
}

impl<T: Transport> Driven<T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Connection(connection) = &mut self.0
            && let Some(over) = ready!(connection.poll(cx))
            && let State::Connection(connection) = mem::replace(&mut self.0, State::Ended)
        {
            let Connection { transport, unparsed, guard, service, info, .. } = connection;
            let over = HandedOver::new(*over, transport, unparsed, service, info, guard);
            self.0 = State::HandedOver(Box::new(over));
        }
        match &mut self.0 {
            State::HandedOver(over) => over.poll(cx),
            State::Connection(_) | State::Ended => Poll::Ready(()),
        }
    }
}

/// What is dropped before its end was cut off with the drain: nobody polls it any more, so what it leaves undone is seen to here.
impl<T: Transport> Drop for Driven<T> {
    fn drop(&mut self) {
        if let State::Connection(connection) = &mut self.0 {
            connection.cut_off();
        }
    }
}

/// How many turns a connection takes before others get theirs. Each may read and write a whole buffer.
const TURNS_MAX: usize = 8;
