//! An answer whose content comes piece by piece.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use thruway_http1::{ResponseBody, write_chunk, write_chunk_end, write_chunk_start, write_last_chunk};
use thruway_message::{FieldLinesBuf, StatusCode};
use thruway_net::{Admitted, LogLimit, Pipe, Transport};

use super::ending::{AfterAnswer, Ending};
use super::exchange::{Log, Logged};
use super::output::{COPY_BYTES_MAX, Output, Tail};
use super::service::Outcome;
use super::{Connection, Step};
use crate::ContentError;
use crate::record::Told;
use crate::response::{AtDrain, BoxError, ContentStream, Piece};

/// The answer that is being written.
pub(super) struct Streaming {
    content: Pin<Box<dyn ContentStream>>,
    framing: Framing,
    trailers: FieldLinesBuf,
    status: StatusCode,
    /// How much content was put into the output.
    sent_bytes: u64,
    /// A drain has ended the content.
    is_cut_short: bool,
    after: AfterAnswer,
    record: StreamRecord,
}

/// What will be recorded of the answer.
pub(super) struct StreamRecord {
    pub(super) log: Option<Box<Log>>,
    pub(super) told: Option<Told>,
}

enum Framing {
    /// So many octets are still to come.
    Octets {
        remaining: u64,
    },
    /// Chunks; the line end of the last one may be owed, because nothing can be put behind a large piece at once.
    Chunked {
        owes_end: bool,
    },
    UntilClose,
}

/// What a stream yields.
enum Next {
    Piece(Piece),
    Pipe(Pipe),
}

impl Streaming {
    pub(super) fn new(
        content: Pin<Box<dyn ContentStream>>,
        body: ResponseBody,
        status: StatusCode,
        after: AfterAnswer,
        record: StreamRecord,
    ) -> Self {
        let framing = match body {
            ResponseBody::Octets(remaining) => Framing::Octets { remaining },
            ResponseBody::Chunked => Framing::Chunked { owes_end: false },
            ResponseBody::UntilClose | ResponseBody::Absent | ResponseBody::OnlyFields(_) => {
                Framing::UntilClose
            }
        };
        Self {
            content,
            framing,
            trailers: FieldLinesBuf::new(),
            status,
            sent_bytes: 0,
            is_cut_short: false,
            after,
            record,
        }
    }

    /// Whether nothing but the end of the connection says that the content is complete.
    pub(super) const fn ends_with_connection(&self) -> bool {
        matches!(self.framing, Framing::UntilClose)
    }

    /// What comes next, in a pipe if it can be and the client's socket can be spliced to.
    fn poll_pipe_or_next(
        &mut self,
        splices: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Next, BoxError>>> {
        if splices
            && matches!(self.framing, Framing::Octets { .. })
            && let Some(pipe) = self.poll_pipe(cx)
        {
            return pipe.map(|pipe| Some(pipe.map(Next::Pipe)));
        }
        poll_piece(&mut self.content, cx).map(|next| next.map(|piece| piece.map(Next::Piece)))
    }

    fn poll_pipe(&mut self, cx: &mut Context<'_>) -> Option<Poll<Result<Pipe, BoxError>>> {
        catch_unwind(AssertUnwindSafe(|| self.content.as_mut().poll_pipe(cx)))
            .unwrap_or_else(|_| Some(Poll::Ready(Err(PANICKED.into()))))
    }

    /// The next piece, or in a drain what that leaves of the stream.
    fn poll_next_or_drain(
        &mut self,
        is_draining: bool,
        splices: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Next, BoxError>>> {
        if self.is_cut_short {
            return Poll::Ready(None);
        }
        let at_drain = if is_draining { self.content.as_mut().at_drain() } else { AtDrain::Finishes };
        match at_drain {
            AtDrain::Finishes => self.poll_pipe_or_next(splices, cx),
            AtDrain::Ends(last) => {
                self.is_cut_short = true;
                Poll::Ready((!last.is_empty()).then_some(Ok(Next::Piece(Piece::Data(last)))))
            }
        }
    }

    /// Counts content, which must not be more than was announced.
    fn count(&mut self, length: u64) -> Result<(), BoxError> {
        self.sent_bytes += length;
        if let Framing::Octets { remaining } = &mut self.framing {
            *remaining = remaining.checked_sub(length).ok_or("there is more content than was announced")?;
        }
        Ok(())
    }

    /// Content in a pipe needs no frame: only such as has a length comes in pipes.
    fn write_pipe(&mut self, pipe: Pipe, output: &mut Output) -> Result<(), BoxError> {
        self.count(pipe.len() as u64)?;
        if !pipe.is_empty() {
            output.set_tail(Tail::Piped(pipe));
        }
        Ok(())
    }

    /// Frames a piece of content.
    fn write(&mut self, data: Bytes, output: &mut Output) -> Result<(), BoxError> {
        let length = data.len() as u64;
        self.count(length)?;
        match &mut self.framing {
            Framing::UntilClose | Framing::Octets { .. } => {}
            Framing::Chunked { owes_end } => {
                if std::mem::take(owes_end) {
                    write_chunk_end(output.octets());
                }
                if data.len() <= COPY_BYTES_MAX {
                    write_chunk(output.octets(), &data);
                    return Ok(());
                }
                write_chunk_start(output.octets(), length);
                *owes_end = true;
            }
        }
        if data.len() <= COPY_BYTES_MAX {
            output.octets().extend_from_slice(&data);
        } else {
            output.set_tail(Tail::Octets(data));
        }
        Ok(())
    }

    /// Frames the end of the content.
    fn write_end(&self, output: &mut Output) -> Result<(), BoxError> {
        match self.framing {
            Framing::Octets { remaining: 0 } | Framing::UntilClose => Ok(()),
            Framing::Octets { .. } => Err("there is less content than was announced".into()),
            Framing::Chunked { owes_end } => {
                if owes_end {
                    write_chunk_end(output.octets());
                }
                write_last_chunk(output.octets(), &self.trailers);
                Ok(())
            }
        }
    }
}

impl<T: Transport> Connection<T> {
    /// Writes the next piece of the answer's content.
    pub(super) fn poll_streaming(&mut self, cx: &mut Context<'_>) -> Step {
        let Some(streaming) = &mut self.streaming else { return Step::Waits };
        let splices = self.transport.splices();
        let outcome = match streaming.poll_next_or_drain(self.guard.is_draining(), splices, cx) {
            Poll::Pending => return Step::Waits,
            Poll::Ready(Some(Ok(Next::Pipe(pipe)))) => streaming.write_pipe(pipe, &mut self.output),
            Poll::Ready(Some(Ok(Next::Piece(Piece::Data(data))))) => streaming.write(data, &mut self.output),
            Poll::Ready(Some(Ok(Next::Piece(Piece::Trailers(trailers))))) => {
                streaming.trailers = trailers;
                Ok(())
            }
            Poll::Ready(Some(Err(error))) => Err(error),
            Poll::Ready(None) => streaming.write_end(&mut self.output).map(|()| self.finish_streaming()),
        };
        if let Err(error) = outcome {
            self.fail_streaming(&*error);
        }
        Step::Moved
    }

    /// Lets the content go on with what needs no room, as there is none.
    pub(super) fn stream_meanwhile(&mut self, cx: &mut Context<'_>) {
        let streaming = self.streaming.as_mut().filter(|streaming| !streaming.is_cut_short);
        if let Some(Err(error)) = streaming.map(|streaming| poll_meanwhile(&mut streaming.content, cx)) {
            self.fail_streaming(&*error);
        }
    }

    /// The head is out: all that can be done is not to let the answer look complete.
    fn fail_streaming(&mut self, error: &(dyn Error + Send + Sync + 'static)) {
        log_failure(error);
        let ends_with_connection = self.record_streaming(false).is_some_and(|of| of.ends_with_connection());
        self.end_after_output(if ends_with_connection { Ending::Reset } else { Ending::Close });
    }

    fn finish_streaming(&mut self) {
        if let Some(streaming) = self.record_streaming(true) {
            self.finish_answer(streaming.after);
        }
    }

    /// Ends the streaming of content, and records how.
    pub(super) fn record_streaming(&mut self, is_complete: bool) -> Option<Box<Streaming>> {
        let mut streaming = self.streaming.take()?;
        if let Some(log) = streaming.record.log.take() {
            let told = streaming.record.told.take();
            let content_bytes = streaming.sent_bytes.saturating_sub(self.output.tail_bytes());
            let status = streaming.status;
            let outcome = Outcome { status, content_bytes, received_bytes: None, is_complete, told };
            self.service.record(&self.info, &Logged::Kept(log), outcome);
        }
        Some(streaming)
    }
}

/// The next piece of `content`. A panic of the handler's stream is an error of it.
pub(crate) fn poll_piece(
    content: &mut Pin<Box<dyn ContentStream>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Piece, BoxError>>> {
    catch_unwind(AssertUnwindSafe(|| content.as_mut().poll_next(cx)))
        .unwrap_or_else(|_| Poll::Ready(Some(Err(PANICKED.into()))))
}

/// Lets `content` go on with what needs no room. A panic of the handler's stream is an error of it.
pub(crate) fn poll_meanwhile(
    content: &mut Pin<Box<dyn ContentStream>>,
    cx: &mut Context<'_>,
) -> Result<(), BoxError> {
    catch_unwind(AssertUnwindSafe(|| content.as_mut().poll_meanwhile(cx)))
        .unwrap_or_else(|_| Err(PANICKED.into()))
}

/// Logs why the body of a response is not complete.
pub(crate) fn log_failure(error: &(dyn Error + Send + Sync + 'static)) {
    static LIMIT: LogLimit = LogLimit::new();
    if is_client_fault(error) {
        tracing::debug!(%error, "the body of a response failed because that of the request did");
    } else if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, suppressed, "the body of a response failed");
    }
}

/// `true` if `error` was caused by the body of the request. Handlers that pass this body on wrap its errors,
/// as axum and the gateway do, so all sources are looked at.
pub(crate) fn is_client_fault(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if error.is::<ContentError>() {
            return true;
        }
        next = error.source();
    }
    false
}

const PANICKED: &str = "the stream has panicked";
