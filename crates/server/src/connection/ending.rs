//! How a connection ends.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_message::StatusCode;
use thruway_net::Transport;

use super::exchange::{Logged, TailRecord};
use super::handed_over::HandOver;
use super::service::Outcome;
use super::{Buffers, Connection};

/// What becomes of a connection when its last answer is written.
#[derive(Default)]
pub(super) enum Ending {
    /// Nothing: it goes on.
    #[default]
    No,
    /// It is closed at once, written or not.
    Abort,
    /// It is closed; if the client has sent more than was read, it is given time to read the answer first.
    Close,
    /// It is handed over.
    HandOver(Box<HandOver>),
    /// It is closed when the client has had time to read the answer: to close a socket with octets unread makes the
    /// kernel send a reset, which takes the answer from the client's hands (RFC 9112 §9.6).
    Linger,
    /// It is broken off: the answer ends where the connection does, and must not look complete.
    Reset,
    /// The client has the time it is given.
    Lingering { until: Duration, left_bytes: usize },
}

/// What comes after an answer.
pub(super) struct AfterAnswer {
    /// The connection goes on.
    pub(super) is_persistent: bool,
    /// The client may be sending more: it has not asked for the end. Of one that has, what it has sent all the same is looked for.
    pub(super) may_be_followed: bool,
    /// The connection becomes a tunnel.
    pub(super) tunnel: Option<Box<HandOver>>,
}

impl Ending {
    /// Whether the end has begun: nothing is parsed and nothing more is answered.
    pub(super) const fn is_due(&self) -> bool {
        !matches!(self, Self::No)
    }
}

impl<T: Transport> Connection<T> {
    /// Nothing more is answered. What is written goes out, then `ending` happens.
    pub(super) fn end_after_output(&mut self, ending: Ending) {
        if !self.ending.is_due() {
            self.ending = ending;
        }
    }

    /// The output is written: goes on with the ending. Ready when the connection can be dropped.
    pub(super) fn poll_ending(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        now: Duration,
    ) -> Poll<io::Result<Option<Box<HandOver>>>> {
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
                    // As long as the client has not taken it all, it counts as one.
                    ready!(self.transport.poll_close(cx))?;
                    return Poll::Ready(Ok(None));
                }
                Ending::HandOver(_) => {
                    let Ending::HandOver(tunnel) = std::mem::take(&mut self.ending) else { continue };
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

    /// Whether there is more from the client than was made sense of. What the socket has is known without asking the system, unless that has just
    /// said that there is something.
    fn is_client_sending(&mut self, cx: &mut Context<'_>, buffers: &mut Buffers) -> io::Result<bool> {
        if self.is_input_ended() {
            return Ok(false);
        }
        if self.incoming.is_some() || self.is_abandoned || !buffers.unparsed().is_empty() {
            return Ok(true);
        }
        match self.transport.poll_read(cx, &mut buffers.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(read) => Ok(read? > 0),
        }
    }

    /// The time of the drain is over, or the connection has ended already.
    pub(super) fn cut_off(&mut self) {
        if self.output.ends_with_connection && (self.streaming.is_some() || !self.output.is_empty()) {
            // To close it, even without a word, would say that the answer is complete.
            self.transport.discard_unsent();
        }
        self.record_unanswered();
    }

    /// Records the answer whose large content stood at the end of the output: all of it, or what is not there any more.
    #[inline]
    pub(super) fn record_tail(&mut self) {
        if let Some(record) = self.tail_record.take() {
            let TailRecord { log, mut outcome } = *record;
            outcome.is_complete = !self.output.has_tail();
            outcome.content_bytes = outcome.content_bytes.saturating_sub(self.output.tail_bytes());
            self.service.record(&self.info, &Logged::Kept(log), outcome);
        }
    }

    /// Records what will never be answered, because the client has gone or the time is up.
    pub(super) fn record_unanswered(&mut self) {
        self.record_tail();
        self.record_streaming(false);
        if let Ending::HandOver(over) = &mut self.ending
            && let Some(record) = over.record.take()
        {
            let TailRecord { log, outcome } = *record;
            let outcome = Outcome { is_complete: false, ..outcome };
            self.service.record(&self.info, &Logged::Kept(log), outcome);
        }
        for exchange in self.exchanges.drain(..) {
            if let Some(log) = exchange.log {
                let outcome = Outcome {
                    status: self.service.unanswered(),
                    content_bytes: 0,
                    received_bytes: None,
                    is_complete: false,
                    told: None,
                };
                self.service.record(&self.info, &Logged::Kept(log), outcome);
            }
        }
    }
}

/// What access logs say of a request whose client did not wait for the answer; never sent. The number is nginx's.
pub(crate) const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::new(499) {
    Ok(status) => status,
    Err(_) => panic!("499 has three digits"),
};

/// What a client may still send while it is given time to read.
const LINGER_BYTES_MAX: usize = 16 << 20;
