//! Response bodies on their way to the client.

use std::error::Error;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, SendStream};
use thruway_message::{FieldLinesBuf, StatusCode};
use thruway_net::PooledBuffer;

use super::response_head::field_map;
use crate::connection::{log_failure, poll_meanwhile, poll_piece};
use crate::response::{AtDrain, BoxError, ContentStream, FileRange, Piece, ResponseMetadata, Source};

/// A response body that is being sent. Each piece is sent as far as the flow-control windows of the client
/// allow. The next piece is fetched only after the previous piece was sent.
pub(super) struct Sending {
    to: SendStream<Bytes>,
    from: From,
    /// Data that was fetched from the source but is not sent yet.
    piece: Bytes,
    /// Number of body bytes that are not fetched yet. `None` if the length is unknown or need not be checked.
    remaining: Option<u64>,
    trailers: Option<FieldLinesBuf>,
    /// `true` if the stream has ended the body early, because of a graceful shutdown.
    is_cut_short: bool,
    /// Start of the current write stall, in which the client accepts no bytes of this stream. `None` without
    /// a stall.
    pub(super) stalled_since: Option<Duration>,
    pub(super) status: StatusCode,
    pub(super) sent_bytes: u64,
    pub(super) metadata: Option<ResponseMetadata>,
}

/// Source of the body.
enum From {
    /// No source, because the whole body is already in `piece`.
    Complete,
    File(FileRange),
    Stream(Pin<Box<dyn ContentStream>>),
}

/// Result of sending a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    Complete,
    /// The body failed, or the client has left.
    BrokenOff,
}

impl Sending {
    /// Creates the state of sending the body `source`. `length` is the length in the response head, if any.
    pub(super) fn new(
        to: SendStream<Bytes>,
        source: Source,
        length: Option<u64>,
        status: StatusCode,
        metadata: Option<ResponseMetadata>,
    ) -> Self {
        let (from, piece) = match source {
            Source::Static(bytes) => (From::Complete, Bytes::from_static(bytes)),
            Source::Pooled(bytes) => (From::Complete, Bytes::from_owner(bytes)),
            Source::Bytes(bytes) => (From::Complete, bytes),
            Source::File(range) => (From::File(range), Bytes::new()),
            Source::Stream(stream) => (From::Stream(stream), Bytes::new()),
            Source::Empty | Source::LeftOut(_) | Source::Tunnel(_) => (From::Complete, Bytes::new()),
        };
        // A complete body always has the announced length, so no check is needed.
        let remaining = if matches!(from, From::Complete) { None } else { length };
        Self {
            to,
            from,
            piece,
            remaining,
            trailers: None,
            is_cut_short: false,
            stalled_since: None,
            status,
            sent_bytes: 0,
            metadata,
        }
    }

    /// Sends the whole body if it is available and the windows of the client allow it. Otherwise, sends
    /// nothing and returns `None`.
    pub(super) fn send_at_once(&mut self) -> Option<Sent> {
        let length = self.piece.len();
        if length == 0 || !matches!(self.from, From::Complete) {
            return None;
        }
        self.to.reserve_capacity(length);
        if self.to.capacity() < length {
            return None;
        }
        self.sent_bytes = length as u64;
        let sent = self.to.send_data(mem::take(&mut self.piece), true);
        Some(if sent.is_ok() { Sent::Complete } else { Sent::BrokenOff })
    }

    /// Sends available data. Sets `has_moved` if any bytes were sent.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        is_draining: bool,
        now: Duration,
        has_moved: &mut bool,
    ) -> Poll<Sent> {
        if self.to.poll_reset(cx).is_ready() {
            return Poll::Ready(Sent::BrokenOff);
        }
        loop {
            if !self.piece.is_empty() {
                match self.poll_send(cx) {
                    Poll::Pending => {
                        self.stalled_since.get_or_insert(now);
                        if let From::Stream(stream) = &mut self.from
                            && !self.is_cut_short
                            && let Err(error) = poll_meanwhile(stream, cx)
                        {
                            *has_moved = true;
                            return Poll::Ready(self.fail(&*error));
                        }
                        return Poll::Pending;
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(Sent::BrokenOff),
                    Poll::Ready(Ok(())) => (*has_moved, self.stalled_since) = (true, None),
                }
                continue;
            }
            match ready!(self.poll_fetch(cx, is_draining)) {
                Some(Ok(())) => {}
                None => {
                    *has_moved = true;
                    return Poll::Ready(self.finish());
                }
                Some(Err(error)) => {
                    *has_moved = true;
                    return Poll::Ready(self.fail(&*error));
                }
            }
        }
    }

    /// Resets the stream, so that the response does not look complete.
    fn fail(&mut self, error: &(dyn Error + Send + Sync + 'static)) -> Sent {
        log_failure(error);
        self.to.send_reset(Reason::INTERNAL_ERROR);
        Sent::BrokenOff
    }

    /// Cancels the stream, because the client does not read the response.
    pub(super) fn give_up(&mut self) {
        self.to.send_reset(Reason::CANCEL);
    }

    /// Sends as much of the current piece as the window of the client allows.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        self.to.reserve_capacity(self.piece.len());
        let mut capacity = self.to.capacity();
        while capacity == 0 {
            match ready!(self.to.poll_capacity(cx)) {
                Some(granted) => capacity = granted?,
                None => return Poll::Ready(Err(Reason::CANCEL.into())),
            }
        }
        let part = self.piece.split_to(capacity.min(self.piece.len()));
        self.sent_bytes += part.len() as u64;
        let is_last = self.piece.is_empty() && matches!(self.from, From::Complete);
        Poll::Ready(self.to.send_data(part, is_last))
    }

    /// Fetches the next piece of the body. `None` at the end of the body.
    fn poll_fetch(&mut self, cx: &mut Context<'_>, is_draining: bool) -> Poll<Option<Result<(), BoxError>>> {
        let piece = match &mut self.from {
            From::Complete => None,
            From::File(range) => read_file(range).transpose(),
            From::Stream(_) if self.is_cut_short => None,
            From::Stream(stream) => match at_drain(stream, is_draining) {
                AtDrain::Finishes => match ready!(poll_piece(stream, cx)) {
                    Some(Ok(Piece::Data(data))) => Some(Ok(data)),
                    Some(Ok(Piece::Trailers(trailers))) => {
                        self.trailers = Some(trailers);
                        Some(Ok(Bytes::new()))
                    }
                    Some(Err(error)) => Some(Err(error)),
                    None => None,
                },
                AtDrain::Ends(last) => {
                    self.is_cut_short = true;
                    (!last.is_empty()).then_some(Ok(last))
                }
            },
        };
        Poll::Ready(match piece {
            Some(Ok(data)) => Some(self.take(data)),
            Some(Err(error)) => Some(Err(error)),
            None if self.remaining.is_some_and(|remaining| remaining > 0) => {
                Some(Err("the body is shorter than its announced length".into()))
            }
            None => None,
        })
    }

    /// Stores `data` as the next piece to send. Fails if the body becomes longer than its announced length.
    fn take(&mut self, data: Bytes) -> Result<(), BoxError> {
        if let Some(remaining) = &mut self.remaining {
            *remaining =
                remaining.checked_sub(data.len() as u64).ok_or("the body exceeds its announced length")?;
        }
        self.piece = data;
        Ok(())
    }

    /// Ends the stream, unless the frame with the last body bytes has already ended it.
    fn finish(&mut self) -> Sent {
        let ended = match (&self.from, self.trailers.take()) {
            (From::Complete, _) if self.sent_bytes > 0 => Ok(()),
            (_, None) => self.to.send_data(Bytes::new(), true),
            (_, Some(trailers)) => self.to.send_trailers(field_map(&trailers)),
        };
        if ended.is_ok() { Sent::Complete } else { Sent::BrokenOff }
    }
}

/// During a graceful shutdown, asks `stream` if it ends early. Otherwise, the stream continues to its end.
fn at_drain(stream: &mut Pin<Box<dyn ContentStream>>, is_draining: bool) -> AtDrain {
    if is_draining { stream.as_mut().at_drain() } else { AtDrain::Finishes }
}

/// Reads the next piece of a file. Fails if another process has shortened the file, because then the response
/// cannot be completed.
fn read_file(range: &mut FileRange) -> Result<Option<Bytes>, BoxError> {
    if range.length == 0 {
        return Ok(None);
    }
    let mut bytes = PooledBuffer::take();
    bytes.resize(usize::try_from(range.length).unwrap_or(usize::MAX).min(FILE_BYTES), 0);
    let read = range.file.read_at(&mut bytes, range.offset)?;
    if read == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    bytes.truncate(read);
    range.offset += read as u64;
    range.length -= read as u64;
    Ok(Some(Bytes::from_owner(bytes)))
}

/// Maximum number of bytes in one read of a file.
const FILE_BYTES: usize = 64 << 10;
