//! An HTTP/1.1 connection: its state, its poll iterations, its timers and its end.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_http1::ServerConnection;
use thruway_message::StatusCode;
use thruway_net::{ConnectionGuard, Deadline, PooledBuffer, Transport};

use super::ending::{Ending, PendingTunnel, TunneledConnection};
use super::exchange::Exchange;
use super::incoming::IncomingContent;
use super::log::TailRecord;
use super::output::Output;
use super::service::{Buffers, Service};
use super::streaming::Streaming;
use super::timers::{ReadTimer, Timers, limited_timeout};
use crate::config::Timeouts;
use crate::connection_info::ConnectionInfo;
use crate::request::ContentError;

/// The state of one connection.
pub(super) struct Connection<T> {
    pub(super) transport: T,
    pub(super) service: Rc<Service>,
    pub(super) info: ConnectionInfo,

    // requests
    pub(super) http1: ServerConnection,
    /// Bytes that were received but not parsed in the last poll iteration.
    pub(super) unparsed: PooledBuffer,
    pub(super) input: Input,
    /// `true` if reading stopped in the middle of a request, so the client may still be sending.
    pub(super) is_abandoned: bool,
    /// The body of the last parsed request, while it arrives.
    pub(super) incoming: Option<IncomingContent>,
    /// `true` while a handler runs. It distinguishes a panic of the handler from a panic of the server.
    pub(super) is_handler_running: bool,

    // responses
    /// Requests that wait for their responses, in the order of arrival.
    pub(super) exchanges: VecDeque<Exchange>,
    /// `true` if the handlers must be polled again, because a handler may wait for the latest event, such as
    /// received data.
    pub(super) handlers_need_poll: bool,
    /// The response that is being streamed.
    pub(super) streaming: Option<Box<Streaming>>,
    pub(super) output: Output,
    /// Record of the response with the large body at the end of the output. `None` if there is no such
    /// response, or if the server records no requests.
    pub(super) tail_record: Option<Box<TailRecord>>,

    /// Tells if and how the connection ends after the output is written. If the end has begun, the connection
    /// parses no further requests.
    pub(super) ending: Ending,
    pub(super) timers: Timers,
    pub(super) deadline: Deadline,
    /// Keeps this connection counted as open.
    pub(super) guard: ConnectionGuard,
}

/// The last result of reading from the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// The result of the last read is outdated, so there may be data to read.
    Unknown,
    /// No data is available. The transport wakes this task when data arrives.
    Awaited,
    /// The client has closed its sending side.
    Ended,
}

/// Result of a step of a poll iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Some progress was made, so other steps may be possible now.
    Moved,
    /// No progress was made. The task is woken when progress is possible.
    Waits,
}

impl<T: Transport> Connection<T> {
    pub(super) fn new(
        transport: T,
        service: Rc<Service>,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> Self {
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
            is_handler_running: false,
            exchanges: VecDeque::new(),
            handlers_need_poll: false,
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

    /// Runs poll iterations until no further progress is possible. Ready at the end of the connection. The
    /// result contains a tunnel if the connection becomes a tunnel.
    fn poll_turns(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        now: Duration,
    ) -> Poll<io::Result<Option<Box<PendingTunnel>>>> {
        if self.is_idle() && buffers.unparsed().is_empty() && self.poll_idle(cx, buffers, now)? {
            return Poll::Pending;
        }
        // Any of the handlers may have caused the wakeup of the task.
        self.handlers_need_poll = true;
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
        // Lets the other connections of the worker run first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns `true` if the connection only waits for the next request: all earlier requests are complete, and
    /// their responses are written.
    #[inline]
    fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
            && self.streaming.is_none()
            && self.incoming.is_none()
            && self.output.is_empty()
            && matches!(self.ending, Ending::No)
            && !self.is_input_ended()
            && self.http1.expects_request()
    }

    /// Reads requests on an idle connection, and writes their responses. Returns `true` if the connection is idle
    /// again. This is one iteration of [`poll_turns`](Self::poll_turns) without the steps that an idle connection
    /// does not need. Most polls consist of this iteration.
    #[inline]
    fn poll_idle(&mut self, cx: &mut Context<'_>, buffers: &mut Buffers, now: Duration) -> io::Result<bool> {
        if self.poll_fill(cx, buffers, usize::MAX)? == Step::Waits {
            return Ok(true);
        }
        self.timers.moved_at = now;
        if self.is_input_ended() {
            return Ok(false);
        }
        self.parse(cx, buffers, now);
        let (output, _) = self.poll_output(cx)?;
        if output.is_pending() || !self.is_idle() || !buffers.unparsed().is_empty() {
            return Ok(false);
        }
        // Usually, there is no more data, so this call only requests a wakeup.
        Ok(self.poll_fill(cx, buffers, usize::MAX)? == Step::Waits)
    }

    /// Writes the output. Ready if all of it is written. The `Step` tells if any bytes were written.
    #[inline]
    fn poll_output(&mut self, cx: &mut Context<'_>) -> io::Result<(Poll<()>, Step)> {
        if self.output.is_empty() {
            return Ok((Poll::Ready(()), Step::Waits));
        }
        let mut has_moved = false;
        let outcome = self.output.poll_write(cx, &mut self.transport, &mut has_moved)?;
        if self.tail_record.is_some() && !self.output.has_tail() {
            self.record_tail();
        }
        if has_moved {
            self.timers.stalled_since = None;
        }
        Ok((outcome, if has_moved { Step::Moved } else { Step::Waits }))
    }

    /// Drives the connection. Ready at the end of the connection. The result contains a tunnel if the
    /// connection becomes a tunnel.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Box<PendingTunnel>>> {
        self.deadline.set_waker(cx.waker());
        let service = self.service.clone();
        let now = service.begin_poll();
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
                // Errors of the connection are not reported, because the client has left.
                Poll::Ready(end.unwrap_or_default())
            }
        }
    }
}

impl<T: Transport> Connection<T> {
    /// Ends the connection as `ending` describes, after the pending output is written. Later requests get no
    /// response.
    pub(super) fn end_after_output(&mut self, ending: Ending) {
        if !self.ending.is_due() {
            self.ending = ending;
        }
    }

    /// Ends the connection step by step. Called after the output is written. Ready when the connection can be
    /// dropped.
    fn poll_ending(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        now: Duration,
    ) -> Poll<io::Result<Option<Box<PendingTunnel>>>> {
        loop {
            match &mut self.ending {
                Ending::No | Ending::Abort => return Poll::Ready(Ok(None)),
                Ending::Reset => {
                    self.transport.discard_unsent();
                    return Poll::Ready(Ok(None));
                }
                Ending::Close => {
                    if self.is_client_sending(cx, buffers)? {
                        self.ending = Ending::Linger;
                        continue;
                    }
                    // The connection counts as open until the client has received all data.
                    ready!(self.transport.poll_close(cx))?;
                    return Poll::Ready(Ok(None));
                }
                Ending::PendingTunnel(_) => {
                    let Ending::PendingTunnel(tunnel) = mem::take(&mut self.ending) else { continue };
                    return Poll::Ready(Ok(Some(tunnel)));
                }
                Ending::Linger => {
                    ready!(self.transport.poll_shutdown(cx))?;
                    let until = now + self.service.config.timeouts.linger;
                    self.ending = Ending::Lingering { until, left_bytes: LINGER_BYTES_MAX };
                }
                Ending::Lingering { left_bytes, .. } => {
                    (buffers.parsed, buffers.filled) = (0, 0);
                    let read = ready!(self.transport.poll_read(cx, &mut buffers.input))?;
                    *left_bytes = left_bytes.saturating_sub(read);
                    if read == 0 || *left_bytes == 0 {
                        return Poll::Ready(Ok(None));
                    }
                }
            }
        }
    }

    /// Returns `true` if the client has sent bytes that the connection has not parsed. Reads from the socket
    /// only if the socket has become readable.
    fn is_client_sending(&mut self, cx: &mut Context<'_>, buffers: &mut Buffers) -> io::Result<bool> {
        if self.is_input_ended() {
            return Ok(false);
        }
        if self.incoming.is_some() || self.is_abandoned || !buffers.unparsed().is_empty() {
            return Ok(true);
        }
        if !self.transport.may_have_arrived() {
            return Ok(false);
        }
        match self.transport.poll_read(cx, &mut buffers.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(read) => Ok(read? > 0),
        }
    }

    /// Called when the connection is dropped, either after its end or because the timeout of a graceful
    /// shutdown has expired.
    fn cut_off(&mut self) {
        if self.output.ends_with_connection && (self.streaming.is_some() || !self.output.is_empty()) {
            // A normal close would make the partial response look complete.
            self.transport.discard_unsent();
        }
        self.record_unanswered();
    }
}

impl<T: Transport> Connection<T> {
    /// Handles expired timers.
    #[inline]
    fn handle_deadline(&mut self, cx: &mut Context<'_>, now: Duration) {
        if self.timers.next().is_some_and(|at| at <= now) {
            self.handle_overdue(cx, now);
        }
    }

    #[cold]
    fn handle_overdue(&mut self, cx: &mut Context<'_>, now: Duration) {
        if self.timers.write.is_some_and(|at| at <= now) {
            // Without this call, the kernel would keep trying to send the data.
            self.transport.discard_unsent();
            self.ending = Ending::Abort;
            return;
        }
        match self.timers.read.take() {
            Some((ReadTimer::HeaderSection, _)) => {
                self.refuse(StatusCode::REQUEST_TIMEOUT, "the header section arrives too slowly");
            }
            Some((ReadTimer::Content, _)) => self.fail_incoming(ContentError::TimedOut),
            Some((ReadTimer::HalfClosed, _)) if self.is_ended_by_connection() => {
                // A normal close would make the partial response look complete.
                self.ending = Ending::Reset;
            }
            Some((_, _)) => {
                // If the client has not received all earlier data, the connection stays open until then. The
                // write timeout limits this time.
                let is_sent = self.transport.poll_close(cx).is_ready();
                self.ending = if is_sent { Ending::Abort } else { Ending::Close };
            }
            None => {}
        }
    }

    /// Returns `true` if the end of the connection marks the end of the current response.
    fn is_ended_by_connection(&self) -> bool {
        self.streaming.as_ref().is_some_and(|streaming| streaming.ends_with_connection())
    }

    /// Sets the timers for the current state of the connection.
    #[inline]
    fn set_deadline(&mut self, now: Duration) {
        let timeouts = self.service.config.timeouts;
        self.timers.read = self.read_timer(&timeouts, now);
        self.timers.write = if self.is_writing() {
            Some(*self.timers.stalled_since.get_or_insert(now) + timeouts.write_stall)
        } else {
            self.timers.stalled_since = None;
            None
        };
        self.deadline.set(self.timers.next());
    }

    /// Returns `true` if the connection waits until the client has read the output.
    #[inline]
    fn is_writing(&self) -> bool {
        !self.output.is_empty() || (self.ending.is_due() && !matches!(self.ending, Ending::Lingering { .. }))
    }

    #[inline]
    fn read_timer(&self, timeouts: &Timeouts, now: Duration) -> Option<(ReadTimer, Duration)> {
        if let Ending::Lingering { until, .. } = self.ending {
            return Some((ReadTimer::Linger, until));
        }
        if self.ending.is_due() {
            // The write timer covers the remaining output.
            return None;
        }
        if let Some(incoming) = &self.incoming {
            return incoming.deadline(timeouts).map(|at| (ReadTimer::Content, at));
        }
        let awaits_answer = !self.exchanges.is_empty() || self.streaming.is_some();
        if self.is_input_ended() && awaits_answer && self.output.is_empty() {
            return Some((ReadTimer::HalfClosed, self.timers.moved_at + timeouts.half_closed));
        }
        if awaits_answer || self.is_input_ended() {
            return None;
        }
        if let Some(since) = self.timers.head_since {
            return Some((
                ReadTimer::HeaderSection,
                since + limited_timeout(&self.guard, timeouts.header_section),
            ));
        }
        if !self.output.is_empty() {
            // The connection is not idle while the client reads the output.
            return None;
        }
        if self.guard.is_draining() {
            return Some((ReadTimer::DrainIdle, self.timers.moved_at.max(now) + DRAIN_IDLE));
        }
        Some((ReadTimer::Idle, self.timers.moved_at + limited_timeout(&self.guard, timeouts.idle)))
    }
}

/// Drives a connection, or its tunnel, to the end. This function is not `async`, because the future of an
/// `async` function would contain the connection twice.
pub(super) fn drive<T: Transport>(connection: Connection<T>) -> impl Future<Output = ()> {
    let mut driven = Driven(State::Connection(connection));
    poll_fn(move |cx| driven.poll(cx))
}

/// A connection, or the tunnel that it has become.
struct Driven<T: Transport>(State<T>);

#[expect(
    clippy::large_enum_variant,
    reason = "most values are connections, and a box would cost each of them an allocation"
)]
enum State<T> {
    Connection(Connection<T>),
    TunneledConnection(Box<TunneledConnection>),
    Ended,
}

impl<T: Transport> Driven<T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Connection(connection) = &mut self.0
            && let Some(over) = ready!(connection.poll(cx))
            && let State::Connection(connection) = mem::replace(&mut self.0, State::Ended)
        {
            let Connection { transport, unparsed, guard, service, info, .. } = connection;
            let over = TunneledConnection::new(*over, transport, unparsed, service, info, guard);
            self.0 = State::TunneledConnection(Box::new(over));
        }
        match &mut self.0 {
            State::TunneledConnection(over) => over.poll(cx),
            State::Connection(_) | State::Ended => Poll::Ready(()),
        }
    }
}

/// A connection is dropped before its end if the timeout of a graceful shutdown has expired. No task polls
/// the connection again, so this function writes its records.
impl<T: Transport> Drop for Driven<T> {
    fn drop(&mut self) {
        if let State::Connection(connection) = &mut self.0 {
            connection.cut_off();
        }
    }
}

/// Maximum number of poll iterations of a connection before other connections run. Each iteration may read
/// and write a whole buffer.
const TURNS_MAX: usize = 8;

/// Maximum number of bytes that a client may still send while it reads the last response.
const LINGER_BYTES_MAX: usize = 16 << 20;

/// Time after which a graceful shutdown closes an idle connection. Long enough for the reactor to report data
/// that has already arrived.
const DRAIN_IDLE: Duration = Duration::from_millis(150);
