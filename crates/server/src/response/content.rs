//! Response bodies: complete, from a file, or streamed.

use std::any::Any;
use std::fmt;
use std::fs::File;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use thruway_message::FieldLinesBuf;
use thruway_net::{Pipe, PooledBuffer};

use super::tunnel::TunnelHandler;
use crate::request::RequestContent;

/// A response body.
///
/// ```
/// use thruway_server::{Content, Response};
///
/// let text = Content::copy_of(b"copied");
/// assert_eq!(text.length(), Some(6));
/// let response = Response::text(text); // also takes `&'static str`, `String`, `Vec<u8>` and `Bytes`
/// # let _ = response;
/// ```
#[derive(Default)]
pub struct Content(pub(crate) Source);

/// The source from which the server takes the bytes of a body.
#[derive(Default)]
pub(crate) enum Source {
    #[default]
    Empty,
    Static(&'static [u8]),
    Pooled(PooledBuffer),
    Bytes(Bytes),
    File(FileRange),
    Stream(Pin<Box<dyn ContentStream>>),
    /// No body, because the method of the request is HEAD. Contains the length that the body would have, if
    /// known.
    LeftOut(Option<u64>),
    /// No body. After the response head, the connection becomes a tunnel.
    Tunnel(TunnelHandler),
}

/// A part of an open file.
#[derive(Debug)]
pub(crate) struct FileRange {
    pub(crate) file: File,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// A guard that is kept until the part is sent.
    pub(crate) held: Option<Box<dyn Any + Send>>,
}

/// A body that is streamed in pieces. The connection polls for the next piece only when it has space to
/// buffer the piece.
///
/// [`Content::stream`] converts any [`futures_core::Stream`] of `Result<Bytes, _>` to a body.
pub trait ContentStream {
    /// Polls for the next piece. `None` at the end.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>>;

    /// Polls for the next bytes in a pipe. If the socket of the client supports pipes and the body has a
    /// [length](Self::length), the connection calls this method first. If the result is `None`, no pipe is
    /// available now, and the connection calls [`poll_next`](Self::poll_next).
    fn poll_pipe(self: Pin<&mut Self>, _: &mut Context<'_>) -> Option<Poll<Result<Pipe, BoxError>>> {
        None
    }

    /// Called instead of the other methods while the client does not read. The stream can make progress here,
    /// but returns no piece. A stream that forwards the request body must continue to forward it in this
    /// method. Otherwise, a client that reads only after it has sent its whole request would wait forever.
    /// Default: does nothing.
    ///
    /// # Errors
    /// The body cannot be completed.
    fn poll_meanwhile(self: Pin<&mut Self>, _: &mut Context<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Returns the total length of the body in bytes, if known. The stream must return exactly this number of
    /// bytes.
    fn length(&self) -> Option<u64> {
        None
    }

    /// Returns the behavior of the stream during a graceful shutdown of the server.
    fn at_drain(self: Pin<&mut Self>) -> AtDrain {
        AtDrain::Finishes
    }
}

/// Behavior of a stream during a graceful shutdown of the server.
#[derive(Clone, Debug)]
pub enum AtDrain {
    /// The server sends the stream to its end, and the shutdown waits for this end.
    Finishes,
    /// The server sends these bytes, if any, and then ends the stream. Use it for endless streams that
    /// clients can resume.
    Ends(Bytes),
}

/// A piece of a streamed body.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes of the body.
    Data(Bytes),
    /// The trailer section, which comes after all data. The server sends it only if the framing of the
    /// response supports trailers.
    Trailers(FieldLinesBuf),
}

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Content {
    /// Creates an empty body.
    pub const fn empty() -> Self {
        Self(Source::Empty)
    }

    /// Creates a body with a copy of `bytes`, in a pooled buffer.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self(Source::Pooled(PooledBuffer::copy_of(bytes)))
    }

    /// Creates a body with `length` bytes of `file` from `offset` on. If possible, the kernel sends the bytes
    /// directly from the file.
    pub const fn file(file: File, offset: u64, length: u64) -> Self {
        Self(Source::File(FileRange { file, offset, length, held: None }))
    }

    /// Creates a body with the items of `stream`.
    pub fn stream<S, E>(stream: S) -> Self
    where
        S: futures_core::Stream<Item = Result<Bytes, E>> + 'static,
        E: Into<BoxError>,
    {
        Self::from_content_stream(DataStream(Box::pin(stream)))
    }

    /// Creates a body with the items of `stream`.
    pub fn from_content_stream(stream: impl ContentStream + 'static) -> Self {
        Self(Source::Stream(Box::pin(stream)))
    }

    /// Creates the empty body of a response to HEAD. `length` is the length of the body that a GET request
    /// would get, if known.
    pub const fn left_out(length: Option<u64>) -> Self {
        Self(Source::LeftOut(length))
    }

    /// Returns the bytes of the body if the body is in memory and has at most `bytes_max` bytes.
    #[inline]
    pub(crate) fn small_bytes(&self, bytes_max: usize) -> Option<&[u8]> {
        let bytes = match &self.0 {
            Source::Empty => &[],
            Source::Static(bytes) => *bytes,
            Source::Pooled(bytes) => &**bytes,
            Source::Bytes(bytes) => &**bytes,
            Source::File(_) | Source::Stream(_) | Source::LeftOut(_) | Source::Tunnel(_) => return None,
        };
        (bytes.len() <= bytes_max).then_some(bytes)
    }

    /// Returns the bytes of the body if the body is in memory.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.small_bytes(usize::MAX)
    }

    /// Returns the stream of a streamed body.
    ///
    /// # Errors
    /// Returns the body unchanged if it is not streamed.
    pub fn into_stream(self) -> Result<Pin<Box<dyn ContentStream>>, Self> {
        match self.0 {
            Source::Stream(stream) => Ok(stream),
            other => Err(Self(other)),
        }
    }

    /// Returns the length in bytes, if known.
    pub fn length(&self) -> Option<u64> {
        match &self.0 {
            Source::Empty | Source::Tunnel(_) => Some(0),
            Source::Static(bytes) => Some(bytes.len() as u64),
            Source::Pooled(bytes) => Some(bytes.len() as u64),
            Source::Bytes(bytes) => Some(bytes.len() as u64),
            Source::File(range) => Some(range.length),
            Source::Stream(stream) => stream.length(),
            Source::LeftOut(length) => *length,
        }
    }
}

/// A body from a [`futures_core::Stream`] of bytes.
struct DataStream<S>(Pin<Box<S>>);

impl<S, E> ContentStream for DataStream<S>
where
    S: futures_core::Stream<Item = Result<Bytes, E>>,
    E: Into<BoxError>,
{
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        self.0.as_mut().poll_next(cx).map(|next| next.map(|piece| piece.map(Piece::Data).map_err(Into::into)))
    }
}

/// With this implementation, a handler can return the request body as the response body. Then the server
/// sends the body back as it arrives.
impl ContentStream for RequestContent {
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let next = RequestContent::poll_next(self.get_mut(), cx);
        next.map(|next| next.map(|piece| piece.map(Piece::Data).map_err(Into::into)))
    }

    fn length(&self) -> Option<u64> {
        RequestContent::length(self)
    }
}

impl From<RequestContent> for Content {
    fn from(content: RequestContent) -> Self {
        Self::from_content_stream(content)
    }
}

impl From<&'static str> for Content {
    #[inline]
    fn from(text: &'static str) -> Self {
        Self(Source::Static(text.as_bytes()))
    }
}

impl From<&'static [u8]> for Content {
    #[inline]
    fn from(bytes: &'static [u8]) -> Self {
        Self(Source::Static(bytes))
    }
}

impl From<String> for Content {
    #[inline]
    fn from(text: String) -> Self {
        Self(Source::Bytes(text.into()))
    }
}

impl From<Vec<u8>> for Content {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        Self(Source::Bytes(bytes.into()))
    }
}

impl From<Bytes> for Content {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        Self(Source::Bytes(bytes))
    }
}

impl From<PooledBuffer> for Content {
    #[inline]
    fn from(bytes: PooledBuffer) -> Self {
        Self(Source::Pooled(bytes))
    }
}

/// Formats text without an allocation: `Response::text(format_args!("Hello, {name}!"))`.
impl From<fmt::Arguments<'_>> for Content {
    fn from(text: fmt::Arguments<'_>) -> Self {
        let mut buffer = PooledBuffer::take();
        // This call fails only if a `Display` implementation returns an error. In this case, the text ends
        // there.
        let _ = std::io::Write::write_fmt(&mut *buffer, text);
        Self(Source::Pooled(buffer))
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Source::Empty => "Empty",
            Source::Static(_) | Source::Pooled(_) | Source::Bytes(_) => "Bytes",
            Source::File(_) => "File",
            Source::Stream(_) => "Stream",
            Source::LeftOut(_) => "LeftOut",
            Source::Tunnel(_) => "Tunnel",
        };
        f.debug_tuple(kind).field(&self.length()).finish()
    }
}
