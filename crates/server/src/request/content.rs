//! Request bodies, which handlers read piece by piece and at their own speed.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use thruway_http1 as http1;
use thruway_message::{FieldLines, FieldLinesBuf, StatusCode};
use thruway_net::Pipe;

/// A request body. The connection buffers only a small window of data that the handler has not read. The
/// client cannot send further data before the handler reads.
///
/// If the handler drops the body before its end, an HTTP/1.1 connection discards the remaining bytes, up to a
/// limit. If more bytes remain, the connection closes after the response.
#[derive(Debug)]
pub struct RequestContent(Source);

/// A piece of a body, either in memory or in a pipe.
#[derive(Debug)]
pub enum RequestPiece {
    /// One or more bytes.
    Data(Bytes),
    /// A pipe with bytes that the kernel has moved into it from the socket of the client.
    Piped(Pipe),
}

#[derive(Debug)]
enum Source {
    Whole(Bytes),
    Arriving(Reader),
}

/// The receiving end of an arriving body, for the handler. Dropping it marks the body as abandoned.
#[derive(Debug)]
struct Reader(Arc<Channel>);

/// The sending end of an arriving body, for the connection.
#[derive(Debug)]
pub(crate) struct ContentSender(Arc<Channel>);

#[derive(Debug)]
struct Channel(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of remaining bytes, if known.
    length: Option<u64>,
    pieces: VecDeque<Bytes>,
    /// Collects data that is too short for a separate piece. So a client that sends single bytes does not
    /// cause an allocation for each byte.
    small: BytesMut,
    queued_bytes: usize,
    /// A pipe with bytes that precede the bytes in `pieces`.
    piped: Option<Pipe>,
    last_read: ReadKind,
    /// Number of bytes that the handler may still read. `None` if there is no limit.
    allowed: Option<u64>,
    /// `true` if the handler must not get the trailer section.
    drops_trailers: bool,
    end: Option<Result<FieldLinesBuf, ContentError>>,
    /// The handler's task, if it waits for data.
    reader: Option<Waker>,
    /// The connection's task, if it waits for window space.
    sender: Option<Waker>,
    is_abandoned: bool,
}

/// The kind of data that the handler requested in its last read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum ReadKind {
    #[default]
    Nothing,
    Bytes,
    /// Pipes, or bytes if no pipe is possible.
    Pipes,
}

impl RequestContent {
    /// Creates a body that has completely arrived.
    pub fn whole(content: impl Into<Bytes>) -> Self {
        Self(Source::Whole(content.into()))
    }

    /// Creates a body that is still arriving. The connection passes the data to the returned sender. `length`
    /// is the length of the body, if known.
    pub(crate) fn arriving(length: Option<u64>) -> (ContentSender, Self) {
        let state = State { length, ..State::default() };
        let channel = Arc::new(Channel(Mutex::new(state)));
        (ContentSender(channel.clone()), Self(Source::Arriving(Reader(channel))))
    }

    /// Returns the body if it has completely arrived.
    pub(crate) const fn as_whole(&self) -> Option<&Bytes> {
        match &self.0 {
            Source::Whole(content) => Some(content),
            Source::Arriving(_) => None,
        }
    }

    /// Takes the body if all of it has arrived in one piece, without a trailer section.
    pub(crate) fn take_arrived(&self) -> Option<Bytes> {
        let Source::Arriving(reader) = &self.0 else { return None };
        let mut state = reader.0.lock();
        let is_all = matches!(&state.end, Some(Ok(trailers)) if trailers.bytes().is_empty());
        let pieces = state.pieces.len() + usize::from(!state.small.is_empty());
        if !is_all || pieces > 1 || state.piped.is_some() {
            return None;
        }
        match state.take_piece() {
            Some(RequestPiece::Data(content)) => {
                state.queued_bytes = 0;
                Some(content)
            }
            Some(RequestPiece::Piped(_)) => None,
            None => Some(Bytes::new()),
        }
    }

    /// Limits the body to `bytes`. Reading more bytes fails with [`ContentError::TooLarge`].
    pub(super) fn limit(&mut self, bytes: u64) {
        if let Source::Arriving(reader) = &self.0 {
            let mut state = reader.0.lock();
            state.allowed = Some(state.allowed.map_or(bytes, |allowed| allowed.min(bytes)));
        }
    }

    /// Drops the trailer section.
    pub(super) fn drop_trailers(&mut self) {
        if let Source::Arriving(reader) = &self.0 {
            reader.0.lock().drops_trailers = true;
        }
    }

    /// Returns the next piece, which is never empty. `None` at the end.
    ///
    /// # Errors
    /// The client does not send the complete body, or the body violates the protocol or a limit.
    ///
    /// # Cancel safety
    /// Cancel safe: no data is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Bytes, ContentError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Reads the whole body, which may have at most `limit_bytes`.
    ///
    /// # Errors
    /// Fails like [`next`](Self::next), and with [`ContentError::TooLarge`] if the body exceeds
    /// `limit_bytes`.
    ///
    /// # Cancel safety
    /// Not cancel safe: if the future is dropped, the data that it has read is lost.
    pub async fn collect(&mut self, limit_bytes: usize) -> Result<Bytes, ContentError> {
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if first.len() + all.len() + piece.len() > limit_bytes {
                return Err(ContentError::TooLarge);
            }
            // Most bodies arrive in one piece and need no copy.
            if first.is_empty() && all.is_empty() {
                first = piece;
            } else {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&piece);
            }
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }

    /// Takes the trailer section. Call it after the end of the body. Returns `None` if the body has not
    /// ended, or has no trailer section.
    pub fn take_trailers(&mut self) -> Option<FieldLinesBuf> {
        let Source::Arriving(reader) = &self.0 else { return None };
        let mut state = reader.0.lock();
        let trailers = match &mut state.end {
            Some(Ok(trailers)) => std::mem::take(trailers),
            Some(Err(_)) | None => return None,
        };
        (!trailers.bytes().is_empty() && !state.drops_trailers).then_some(trailers)
    }

    /// Polls for the next piece, like [`next`](Self::next).
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ContentError>>> {
        match &mut self.0 {
            Source::Whole(content) if content.is_empty() => Poll::Ready(None),
            Source::Whole(content) => Poll::Ready(Some(Ok(std::mem::take(content)))),
            Source::Arriving(reader) => reader.0.poll_next(cx),
        }
    }

    /// Polls for the next piece. If `takes_pipes` is `true`, this call and later ones may return data in a
    /// pipe, if much data arrives. The caller must empty such a pipe soon, because the number of pipes is
    /// limited.
    pub fn poll_next_piece(
        &mut self,
        cx: &mut Context<'_>,
        takes_pipes: bool,
    ) -> Poll<Option<Result<RequestPiece, ContentError>>> {
        match &mut self.0 {
            Source::Arriving(reader) => reader.0.poll_piece(cx, takes_pipes),
            Source::Whole(_) => {
                self.poll_next(cx).map(|next| next.map(|piece| piece.map(RequestPiece::Data)))
            }
        }
    }

    /// Returns the number of remaining bytes, if known.
    pub fn length(&self) -> Option<u64> {
        match &self.0 {
            Source::Whole(content) => Some(content.len() as u64),
            Source::Arriving(reader) => reader.0.lock().length,
        }
    }

    /// Returns `true` if neither data nor a trailer section is left.
    pub fn is_end(&self) -> bool {
        match &self.0 {
            Source::Whole(content) => content.is_empty(),
            Source::Arriving(reader) => {
                let state = reader.0.lock();
                state.queued_bytes == 0
                    && matches!(&state.end, Some(Ok(trailers)) if trailers.bytes().is_empty())
            }
        }
    }
}

impl Channel {
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ContentError>>> {
        let piece = ready!(self.poll_piece(cx, false));
        Poll::Ready(piece.map(|piece| match piece? {
            RequestPiece::Data(bytes) => Ok(bytes),
            // Cannot happen, because this read did not request pipes.
            RequestPiece::Piped(_) => Err(ContentError::Incomplete),
        }))
    }

    fn poll_piece(
        &self,
        cx: &mut Context<'_>,
        takes_pipes: bool,
    ) -> Poll<Option<Result<RequestPiece, ContentError>>> {
        let mut state = self.lock();
        state.last_read = if takes_pipes { ReadKind::Pipes } else { ReadKind::Bytes };
        if let Some(piece) = state.take_piece() {
            let length = piece.len();
            state.queued_bytes -= length;
            if !state.allow(length as u64) {
                state.end = Some(Err(ContentError::TooLarge));
                return Poll::Ready(Some(Err(ContentError::TooLarge)));
            }
            state.length = state.length.map(|left| left.saturating_sub(length as u64));
            let sender = state.sender.take();
            drop(state);
            if let Some(sender) = sender {
                sender.wake();
            }
            return Poll::Ready(Some(Ok(piece)));
        }
        match &state.end {
            Some(Ok(_)) => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(*error))),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Locks the state. Ignores poisoning, because no code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestPiece {
    fn len(&self) -> usize {
        match self {
            Self::Data(bytes) => bytes.len(),
            Self::Piped(pipe) => pipe.len(),
        }
    }
}

impl State {
    fn append(&mut self, content: &[u8]) {
        if content.len() < SMALL_BYTES {
            self.small.extend_from_slice(content);
            return;
        }
        if !self.small.is_empty() {
            let small = self.small.split().freeze();
            self.pieces.push_back(small);
        }
        self.pieces.push_back(Bytes::copy_from_slice(content));
    }

    /// Reduces the number of bytes that the handler may read. Returns `false` if `bytes` exceeds this number.
    const fn allow(&mut self, bytes: u64) -> bool {
        let Some(allowed) = self.allowed else { return true };
        let Some(left) = allowed.checked_sub(bytes) else { return false };
        self.allowed = Some(left);
        true
    }

    fn take_piece(&mut self) -> Option<RequestPiece> {
        if let Some(pipe) = self.take_piped() {
            return Some(pipe);
        }
        let small = &mut self.small;
        let piece =
            self.pieces.pop_front().or_else(|| (!small.is_empty()).then(|| std::mem::take(small).freeze()));
        piece.map(RequestPiece::Data)
    }

    /// Takes the pipe, if the handler accepts pipes. Otherwise, takes some bytes from the pipe.
    fn take_piped(&mut self) -> Option<RequestPiece> {
        let mut pipe = self.piped.take()?;
        if self.last_read == ReadKind::Pipes {
            return Some(RequestPiece::Piped(pipe));
        }
        match pipe.take_bytes() {
            Ok(bytes) if !bytes.is_empty() => {
                self.piped = (!pipe.is_empty()).then_some(pipe);
                Some(RequestPiece::Data(Bytes::from_owner(bytes)))
            }
            Ok(_) | Err(_) => {
                // The bytes in the pipe are lost, so the body can never be complete.
                self.queued_bytes = 0;
                self.end = Some(Err(ContentError::Incomplete));
                None
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_abandoned = true;
        state.pieces.clear();
        state.piped = None;
        state.small = BytesMut::new();
        state.queued_bytes = 0;
        let sender = state.sender.take();
        drop(state);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

impl ContentSender {
    /// Copies `content` for the handler, or drops it if the handler no longer reads the body.
    pub(crate) fn send(&self, content: &[u8]) {
        let mut state = self.0.lock();
        if state.is_abandoned {
            return;
        }
        state.queued_bytes += content.len();
        state.append(content);
        wake(state);
    }

    /// Returns `true` if the handler accepts pipes and has read all earlier data.
    pub(crate) fn wants_pipe(&self) -> bool {
        let state = self.0.lock();
        state.last_read == ReadKind::Pipes && state.queued_bytes == 0 && !state.is_abandoned
    }

    /// Passes the bytes in `pipe` to the handler, or drops them if the handler no longer reads the body.
    pub(crate) fn send_pipe(&self, pipe: Pipe) {
        let mut state = self.0.lock();
        if state.is_abandoned {
            return;
        }
        state.queued_bytes += pipe.len();
        state.piped = Some(pipe);
        wake(state);
    }

    /// Marks the body as completely received, with the trailer section `trailers`.
    pub(crate) fn finish(&self, trailers: FieldLines<'_>) {
        let mut kept = FieldLinesBuf::new();
        trailers.iter().for_each(|line| kept.append_line(line));
        self.finish_with(kept);
    }

    /// Marks the body as completely received. Takes over the trailer section `trailers` without a copy.
    pub(crate) fn finish_with(&self, trailers: FieldLinesBuf) {
        self.end(Ok(trailers));
    }

    /// Ends the body with `error`. The handler gets the data received so far, and then the error.
    pub(crate) fn fail(&self, error: ContentError) {
        self.end(Err(error));
    }

    /// Returns the number of bytes that the connection may pass to the handler. While this number is 0, the
    /// result is pending, and the connection is woken when the handler has read data.
    pub(crate) fn poll_write_capacity(&self, window_bytes: usize, cx: &mut Context<'_>) -> Poll<usize> {
        let mut state = self.0.lock();
        match window_bytes.saturating_sub(state.queued_bytes) {
            0 => {
                state.sender = Some(cx.waker().clone());
                Poll::Pending
            }
            capacity => Poll::Ready(capacity),
        }
    }

    /// Returns `true` if the handler has started to read the body.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.lock().last_read != ReadKind::Nothing
    }

    /// Returns `true` if the handler has dropped the body.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.lock().is_abandoned
    }

    fn end(&self, end: Result<FieldLinesBuf, ContentError>) {
        let mut state = self.0.lock();
        if state.end.is_none() {
            state.end = Some(end);
            wake(state);
        }
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

/// Minimum size of received data that becomes a separate piece. Smaller amounts of data are collected in one
/// piece.
const SMALL_BYTES: usize = 1 << 10;

impl futures_core::Stream for RequestContent {
    type Item = Result<Bytes, ContentError>;

    fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Self::poll_next(self.get_mut(), cx)
    }
}

/// Reason why a handler cannot read the whole body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ContentError {
    /// The connection ended before the end of the body.
    Incomplete,
    /// The body violates the protocol or a limit of the server.
    Malformed(http1::Error),
    /// The client sent the body too slowly.
    TimedOut,
    /// The body is larger than the limit of the handler.
    TooLarge,
}

impl ContentError {
    /// Returns the status of the response to a request with this error.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::Malformed(error) => error.status(),
            Self::TimedOut => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::CONTENT_TOO_LARGE,
        }
    }
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => f.write_str("the connection ended before the end of the body"),
            Self::Malformed(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the body arrives too slowly"),
            Self::TooLarge => f.write_str("the body is larger than allowed"),
        }
    }
}

impl std::error::Error for ContentError {}

/// Maximum size of a complete body for a handler without its own limit: 2 MiB, as in axum.
pub const CONTENT_BYTES_MAX: usize = 2 << 20;
