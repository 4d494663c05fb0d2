//! An HTTP/2 connection: many concurrent requests on separate streams, with responses in any order.
//!
//! The `h2` library handles the frames. The task of the connection polls the library with a waker that only
//! sets a flag. If the flag is set, the task polls the library again.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use h2::client::{Builder, Connection, SendRequest};
use thruway_client::http2::ByteStream;
use thruway_net::Transport;

use super::exchange::{Exchange, Finished, Verdict, verdict};
use super::watched::{Observations, Watched};
use crate::failure::{Failure, FailureKind};
use crate::requests::{Answer, Http2Request};
use crate::worker::connection::{Ended, WireProtocol};
use crate::worker::dispatch::Worker;
use crate::worker::plan::{Answered, NextStep, Phase, StartedRequest};

/// An HTTP/2 connection, and the requests in progress.
pub(in crate::worker) struct Streams<T: Transport> {
    library: Connection<ByteStream<Watched<T>>, Bytes>,
    send: SendRequest<Bytes>,
    observations: Rc<Observations>,
    flag: Arc<Flag>,
    flag_waker: Waker,
    /// Requests that have started but could not be sent yet.
    queued: VecDeque<StartedRequest>,
    exchanges: FuturesUnordered<Exchange>,
    /// Earliest start of all requests without a response.
    oldest: Duration,
    /// Number of complete responses.
    answered: u64,
    /// Requests that the server has not processed, according to its `GOAWAY` frame.
    unhandled: VecDeque<StartedRequest>,
    /// Reason why the connection has ended, or `None` while it is open.
    end: Option<Failure>,
}

/// A waker that sets a flag instead of waking a task.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<T: Transport> WireProtocol<T> for Streams<T> {
    fn new(transport: T, worker: &Worker) -> Self {
        let observations = Rc::new(Observations::default());
        let stream = ByteStream::new(
            Watched::new(transport, observations.clone(), worker.spare.clone()),
            Rc::default(),
        );
        let greeting = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEADER_SECTION_BYTES)
            // Remembers the streams that were reset after a timeout, because their responses may still
            // arrive.
            .max_concurrent_reset_streams(RESET_STREAMS)
            .max_local_error_reset_streams(None)
            .handshake(stream);
        let Some(Ok((send, library))) = greeting.now_or_never() else {
            unreachable!("the handshake only buffers the client preface");
        };
        let flag = Arc::new(Flag::default());
        Self {
            library,
            send,
            observations,
            flag_waker: flag.clone().into(),
            flag,
            queued: VecDeque::with_capacity(worker.connection_options.pipeline.min(1)),
            exchanges: FuturesUnordered::new(),
            oldest: Duration::ZERO,
            answered: 0,
            unhandled: VecDeque::new(),
            end: None,
        }
    }

    fn deadline(&self, worker: &Worker) -> Option<Duration> {
        (!self.is_idle()).then(|| self.oldest + worker.connection_options.timeout)
    }

    fn ask(&mut self, _: &Worker, ticket: StartedRequest) {
        self.oldest = if self.is_idle() { ticket.started } else { self.oldest.min(ticket.started) };
        self.queued.push_back(ticket);
    }

    fn poll(&mut self, cx: &mut Context<'_>, worker: &Worker, slot: usize) -> Poll<Ended> {
        self.observations.begin_poll(cx.waker());
        loop {
            self.flag.0.store(false, Ordering::Relaxed);
            self.poll_library();
            self.take_finished(worker);
            if self.end.is_some() {
                return Poll::Ready(self.conclude(worker));
            }
            let now = worker.clock.now_exact();
            if let Some(ended) = self.check_time(worker, now).or_else(|| self.refill(cx, worker, slot, now)) {
                return Poll::Ready(ended);
            }
            if self.observations.is_poll_over() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !self.flag.0.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
        }
    }
}

impl<T: Transport> Streams<T> {
    fn is_idle(&self) -> bool {
        self.exchanges.is_empty() && self.queued.is_empty()
    }

    /// Lets the `h2` library read and write.
    fn poll_library(&mut self) {
        let polled = self.library.poll_unpin(&mut Context::from_waker(&self.flag_waker));
        let error = match polled {
            Poll::Pending => return,
            Poll::Ready(Ok(())) => self.poll_write_capacity().err(),
            Poll::Ready(Err(error)) => Some(error),
        };
        self.end = Some(match error.map(|error| self.verdict_on(&error, false)) {
            None => Failure::of(FailureKind::Closed),
            Some(Verdict::Failed(failure)) => failure,
            Some(Verdict::Unhandled) => Failure::of(FailureKind::GoneAway),
        });
    }

    /// Returns `true` if another request can be sent now. An error means that this connection accepts no
    /// more requests.
    fn poll_write_capacity(&mut self) -> Result<bool, h2::Error> {
        match self.send.poll_ready(&mut Context::from_waker(&self.flag_waker)) {
            Poll::Pending => Ok(false),
            Poll::Ready(ready) => ready.map(|()| true),
        }
    }

    fn verdict_on(&self, error: &h2::Error, has_begun: bool) -> Verdict {
        if self.observations.is_other_protocol() {
            return Verdict::Failed(Failure::of(FailureKind::NotHttp2));
        }
        verdict(error, has_begun)
    }

    /// Records the results of all finished requests. All requests that finish in one poll get the same end
    /// time.
    fn take_finished(&mut self, worker: &Worker) {
        let mut now = None;
        while let Some(finished) = self.next_finished() {
            let now = *now.get_or_insert_with(|| worker.clock.now_exact());
            let Finished { ticket, expected, outcome } = finished;
            match outcome {
                Ok(mut answer) => {
                    let judged = expected.judge(&mut answer);
                    self.count(worker, ticket, now, &answer, judged);
                }
                Err(broken) => match self.verdict_on(&broken.error, broken.has_begun) {
                    Verdict::Failed(failure) => worker.fail(ticket, now, &failure),
                    Verdict::Unhandled => self.unhandled.push_back(ticket),
                },
            }
        }
    }

    fn next_finished(&mut self) -> Option<Finished> {
        match self.exchanges.poll_next_unpin(&mut Context::from_waker(&self.flag_waker)) {
            Poll::Ready(finished) => finished,
            Poll::Pending => None,
        }
    }

    fn count(
        &mut self,
        worker: &Worker,
        ticket: StartedRequest,
        now: Duration,
        answer: &Answer,
        judged: Result<(), Failure>,
    ) {
        if self.answered == 0 {
            // The settings of the server have arrived before its first response.
            worker.note_streams_max(self.send.current_max_send_streams());
        }
        self.answered += 1;
        let (received_bytes, sent_bytes) = self.observations.take_bytes();
        let (status, content_bytes) = (answer.status, answer.content_bytes);
        match judged {
            Ok(()) => {
                let status = Some(status);
                let answered =
                    Answered { status, sent_bytes, received_bytes, content_bytes, is_event_stream: false };
                worker.complete(ticket, now, &answered);
            }
            Err(failure) => worker.complete_unexpected(ticket, now, status, &failure),
        }
    }

    /// Ends the connection if the load is over. Otherwise resets the streams of requests that timed out,
    /// while the other streams continue.
    fn check_time(&mut self, worker: &Worker, now: Duration) -> Option<Ended> {
        let timeout = worker.connection_options.timeout;
        if worker.phase.get() == Phase::Over {
            self.take_tickets().for_each(|ticket| worker.give_up(ticket, now));
            return Some(Ended::Over);
        }
        if now < self.deadline(worker)? {
            return None;
        }
        let failure = Failure::of(FailureKind::TimedOut);
        let is_overdue = |started: Duration| started + timeout <= now;
        for exchange in std::mem::take(&mut self.exchanges) {
            if is_overdue(exchange.started()) {
                worker.fail(exchange.into_started_request(), now, &failure);
            } else {
                self.exchanges.push(exchange);
            }
        }
        let (overdue, queued) = self.queued.iter().partition(|ticket| is_overdue(ticket.started));
        self.queued = queued;
        VecDeque::<StartedRequest>::into_iter(overdue).for_each(|ticket| worker.fail(ticket, now, &failure));
        let waiting = self.exchanges.iter().map(Exchange::started);
        self.oldest = waiting.chain(self.queued.iter().map(|ticket| ticket.started)).min().unwrap_or(now);
        None
    }

    /// Starts requests until the allowed number of streams is in use.
    fn refill(&mut self, cx: &Context<'_>, worker: &Worker, slot: usize, now: Duration) -> Option<Ended> {
        let streams_max = worker.connection_options.pipeline.min(self.send.current_max_send_streams());
        while self.exchanges.len() < streams_max {
            match self.poll_write_capacity() {
                Ok(true) => {}
                Ok(false) => return None,
                // The connection accepts no more requests, but the requests in progress may complete.
                Err(_) if !self.exchanges.is_empty() => return None,
                Err(_) => return Some(self.conclude(worker)),
            }
            if self.queued.is_empty() {
                match worker.take(slot, now, cx) {
                    NextStep::Start(ticket) => self.ask(worker, ticket),
                    NextStep::Wait => return None,
                    NextStep::Over => {
                        worker.note_exhausted(now);
                        return self.exchanges.is_empty().then_some(Ended::Over);
                    }
                }
            }
            let ticket = self.queued.pop_front()?;
            if let Some(exchange) = self.send(worker, ticket) {
                self.exchanges.push(exchange);
            } else {
                worker.fail(ticket, now, &Failure::of(FailureKind::Unsent));
                // Returns early, because other connections need time too, and because the load may have
                // ended.
                cx.waker().wake_by_ref();
                return None;
            }
        }
        None
    }

    /// Sends a request. Returns `None` if the `h2` library does not accept the request.
    fn send(&mut self, worker: &Worker, ticket: StartedRequest) -> Option<Exchange> {
        let Http2Request { head, content } = worker.requests.http2(ticket.number)?;
        let (response, mut stream) = self.send.send_request(head, content.is_empty()).ok()?;
        if !content.is_empty() {
            // The library buffers the data until flow control allows it to send the data. An error means
            // that the stream has ended; then the response fails too.
            let _ = stream.send_data(content, true);
        }
        Some(Exchange::new(ticket, *worker.requests.expected(ticket.number), response))
    }

    /// Ends the connection. If the server has answered at least one request, unprocessed requests are sent
    /// again on another connection. Otherwise, unprocessed requests fail, because the retries could go on
    /// forever.
    fn conclude(&mut self, worker: &Worker) -> Ended {
        let now = worker.clock.now_exact();
        let failure = self.end.take().unwrap_or(Failure::of(FailureKind::GoneAway));
        let exchanges = std::mem::take(&mut self.exchanges);
        exchanges
            .into_iter()
            .for_each(|exchange| worker.fail(exchange.into_started_request(), now, &failure));
        let unhandled: VecDeque<_> = self.take_tickets().collect();
        if self.answered > 0 && !unhandled.is_empty() {
            return Ended::Unhandled(unhandled);
        }
        for ticket in unhandled {
            worker.fail(ticket, now, &failure);
        }
        Ended::Closed
    }

    /// Removes and returns all requests without a response.
    fn take_tickets(&mut self) -> impl Iterator<Item = StartedRequest> {
        let exchanges = std::mem::take(&mut self.exchanges).into_iter().map(Exchange::into_started_request);
        let unhandled = std::mem::take(&mut self.unhandled).into_iter();
        exchanges.chain(unhandled).chain(std::mem::take(&mut self.queued))
    }
}

/// Flow control window of a stream: 16 MiB, so that flow control does not delay responses.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
/// Flow control window of a connection: 1 GiB.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// Maximum size of a header section: 64 KiB, as for HTTP/1.1.
const HEADER_SECTION_BYTES: u32 = 64 << 10;

const RESET_STREAMS: usize = 1 << 16;
