//! A response with a body that is streamed in pieces.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use thruway_http1::{ResponseBody, write_chunk, write_chunk_end, write_chunk_start, write_last_chunk};
use thruway_message::{FieldLinesBuf, StatusCode};
use thruway_net::{Admitted, LogLimit, Pipe};

use super::ending::AfterAnswer;
use super::log::Log;
use super::output::{COPY_BYTES_MAX, Output, Tail};
use crate::request::ContentError;
use crate::response::{AtDrain, BoxError, ContentStream, Piece, ResponseMetadata};

/// The response that is being streamed.
pub(super) struct Streaming {
    pub(super) content: Pin<Box<dyn ContentStream>>,
    framing: Framing,
    pub(super) trailers: FieldLinesBuf,
    pub(super) status: StatusCode,
    /// Number of body bytes that were added to the output so far.
    pub(super) sent_bytes: u64,
    /// `true` if the stream has ended the body early, because of a graceful shutdown.
    pub(super) is_cut_short: bool,
    pub(super) after: AfterAnswer,
    pub(super) record: StreamRecord,
}

/// Data for the record of a streamed response.
pub(super) struct StreamRecord {
    pub(super) log: Option<Box<Log>>,
    pub(super) metadata: Option<ResponseMetadata>,
}

enum Framing {
    /// The body has a known length, and the stream must still supply `remaining` bytes.
    Bytes {
        remaining: u64,
    },
    /// The body is sent in chunks. If `owes_end` is `true`, the line end after the latest chunk is still
    /// missing. The chunk is a large piece at the end of the output, so the line end can be added only after
    /// the chunk is written.
    Chunked {
        owes_end: bool,
    },
    UntilClose,
}

/// Next item of a stream.
pub(super) enum Next {
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
            ResponseBody::Bytes(remaining) => Framing::Bytes { remaining },
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

    /// Returns `true` if the end of the connection marks the end of the body.
    pub(super) const fn ends_with_connection(&self) -> bool {
        matches!(self.framing, Framing::UntilClose)
    }

    /// Returns the next item of the stream. The item is a pipe if the stream offers one and the socket of the
    /// client supports pipes.
    fn poll_pipe_or_next(
        &mut self,
        splices: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Next, BoxError>>> {
        if splices
            && matches!(self.framing, Framing::Bytes { .. })
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

    /// Returns the next item of the stream. During a graceful shutdown, a stream may end early. Then this
    /// function returns the last bytes of the stream, and later `None`.
    pub(super) fn poll_next_or_drain(
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

    /// Counts body bytes. Fails if the body exceeds its announced length.
    fn count(&mut self, length: u64) -> Result<(), BoxError> {
        self.sent_bytes += length;
        if let Framing::Bytes { remaining } = &mut self.framing {
            *remaining = remaining.checked_sub(length).ok_or("the body exceeds its announced length")?;
        }
        Ok(())
    }

    /// Adds the bytes in `pipe` to the output. They need no framing, because only bodies with a known length
    /// use pipes.
    pub(super) fn write_pipe(&mut self, pipe: Pipe, output: &mut Output) -> Result<(), BoxError> {
        self.count(pipe.len() as u64)?;
        if !pipe.is_empty() {
            output.set_tail(Tail::Piped(pipe));
        }
        Ok(())
    }

    /// Adds a piece of the body to the output, with its framing.
    pub(super) fn write(&mut self, data: Bytes, output: &mut Output) -> Result<(), BoxError> {
        let length = data.len() as u64;
        self.count(length)?;
        match &mut self.framing {
            Framing::UntilClose | Framing::Bytes { .. } => {}
            Framing::Chunked { owes_end } => {
                if std::mem::take(owes_end) {
                    write_chunk_end(output.bytes());
                }
                if data.len() <= COPY_BYTES_MAX {
                    write_chunk(output.bytes(), &data);
                    return Ok(());
                }
                write_chunk_start(output.bytes(), length);
                *owes_end = true;
            }
        }
        if data.len() <= COPY_BYTES_MAX {
            output.bytes().extend_from_slice(&data);
        } else {
            output.set_tail(Tail::Bytes(data));
        }
        Ok(())
    }

    /// Adds the end of the body to the output, as the framing requires.
    pub(super) fn write_end(&self, output: &mut Output) -> Result<(), BoxError> {
        match self.framing {
            Framing::Bytes { remaining: 0 } | Framing::UntilClose => Ok(()),
            Framing::Bytes { .. } => Err("the body is shorter than its announced length".into()),
            Framing::Chunked { owes_end } => {
                if owes_end {
                    write_chunk_end(output.bytes());
                }
                write_last_chunk(output.bytes(), &self.trailers);
                Ok(())
            }
        }
    }
}

/// Polls for the next piece of `content`. A panic of the stream becomes an error.
pub(crate) fn poll_piece(
    content: &mut Pin<Box<dyn ContentStream>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Piece, BoxError>>> {
    catch_unwind(AssertUnwindSafe(|| content.as_mut().poll_next(cx)))
        .unwrap_or_else(|_| Poll::Ready(Some(Err(PANICKED.into()))))
}

/// Calls `poll_meanwhile` of `content`. A panic of the stream becomes an error.
pub(crate) fn poll_meanwhile(
    content: &mut Pin<Box<dyn ContentStream>>,
    cx: &mut Context<'_>,
) -> Result<(), BoxError> {
    catch_unwind(AssertUnwindSafe(|| content.as_mut().poll_meanwhile(cx)))
        .unwrap_or_else(|_| Err(PANICKED.into()))
}

/// Logs the reason for an incomplete response body.
pub(crate) fn log_failure(error: &(dyn Error + Send + Sync + 'static)) {
    static LIMIT: LogLimit = LogLimit::new();
    if is_client_fault(error) {
        tracing::debug!(%error, "response body failed because the request body failed");
    } else if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, suppressed, "response body failed");
    }
}

/// Returns `true` if a failure of the request body has caused `error`. Handlers that forward the request body
/// wrap its errors, as axum and the gateway do. So this function checks all sources of `error`.
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
