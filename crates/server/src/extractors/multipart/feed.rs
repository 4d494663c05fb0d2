//! Passes the body to the library in pieces that limit its buffer.
//!
//! The library reads until no more data is available, and appends all of it to its buffer. Without a limit, a client
//! could fill the memory with text before the first boundary, or with the headers of a field. The library would also
//! search the whole buffer again for each received piece.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;

use super::error::MultipartError;
use crate::request::{ContentError, RequestContent};

/// The body of a form. Both the library and [`Multipart`](super::Multipart) own it, and use it in turn.
#[derive(Clone)]
pub(super) struct Feed(Arc<Mutex<State>>);

struct State {
    content: RequestContent,
    /// Bytes of the last piece that the library has not got yet.
    rest: Bytes,
    /// Number of bytes that the library may still get before it must return something.
    allowed: usize,
    /// `true` if the library asked for more bytes than allowed. Nothing wakes the task in this case.
    is_paused: bool,
    /// Number of bytes that the form may still have.
    left_bytes: u64,
}

impl Feed {
    pub(super) fn new(content: RequestContent, left_bytes: u64) -> Self {
        let state = State { content, rest: Bytes::new(), allowed: 0, is_paused: false, left_bytes };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Sets the maximum size of the form. Only has an effect before the first read.
    pub(super) fn limit(&self, bytes: u64) {
        self.lock().left_bytes = bytes;
    }

    /// Returns `true` if the declared length of the form exceeds its maximum size.
    pub(super) fn is_declared_too_large(&self) -> bool {
        let state = self.lock();
        state.content.length().is_some_and(|length| length > state.left_bytes)
    }

    /// Lets the library read up to `bytes` before it must return something.
    pub(super) fn allow(&self, bytes: usize) {
        let mut state = self.lock();
        (state.allowed, state.is_paused) = (bytes, false);
    }

    /// Returns `true` if the library asked for more bytes than allowed.
    pub(super) fn is_paused(&self) -> bool {
        self.lock().is_paused
    }

    /// Locks the state. Ignores poisoning, because no code under the lock leaves an invalid state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream for Feed {
    type Item = Result<Bytes, MultipartError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.lock().poll_next(cx)
    }
}

impl State {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, MultipartError>>> {
        if self.allowed == 0 {
            self.is_paused = true;
            return Poll::Pending;
        }
        if self.rest.is_empty() {
            self.rest = match ready!(self.content.poll_next(cx)) {
                Some(Ok(piece)) => piece,
                Some(Err(ContentError::TooLarge)) => return Poll::Ready(Some(Err(MultipartError::TooLarge))),
                Some(Err(error)) => return Poll::Ready(Some(Err(MultipartError::Content(error)))),
                None => return Poll::Ready(None),
            };
            match self.left_bytes.checked_sub(self.rest.len() as u64) {
                Some(left) => self.left_bytes = left,
                None => return Poll::Ready(Some(Err(MultipartError::TooLarge))),
            }
        }
        let piece = self.rest.split_to(self.allowed.min(self.rest.len()));
        self.allowed -= piece.len();
        Poll::Ready(Some(Ok(piece)))
    }
}
