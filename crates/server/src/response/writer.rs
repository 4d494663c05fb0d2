//! Response bodies that a future writes.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::content::{BoxError, Content, ContentStream, Piece};

/// Writes the pieces of a body: see [`Content::written_by`](super::Content::written_by).
#[derive(Debug)]
pub struct ContentWriter(Slot);

/// A slot for one piece, shared by the future and its connection.
type Slot = Rc<RefCell<Option<Bytes>>>;

impl ContentWriter {
    /// Writes `bytes`. Waits while the connection has no space for them.
    ///
    /// # Cancel safety
    /// Cancel safe: if the future is dropped before it completes, nothing is written.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) {
        let mut bytes = Some(bytes.into());
        poll_fn(|_| {
            let mut slot = self.0.borrow_mut();
            if slot.is_some() {
                // No waker is needed, because the connection polls again after it has taken the piece.
                return Poll::Pending;
            }
            *slot = bytes.take().filter(|bytes| !bytes.is_empty());
            Poll::Ready(())
        })
        .await;
    }
}

/// A future that writes a body, and the last piece that it has written.
pub(super) struct WriterFuture<F> {
    write: Option<Pin<Box<F>>>,
    slot: Slot,
}

impl<F: Future<Output = Result<(), BoxError>>> WriterFuture<F> {
    pub(super) fn new(write: impl FnOnce(ContentWriter) -> F) -> Self {
        let slot = Slot::default();
        Self { write: Some(Box::pin(write(ContentWriter(slot.clone())))), slot }
    }
}

impl<F: Future<Output = Result<(), BoxError>>> ContentStream for WriterFuture<F> {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        if let Some(write) = &mut self.write {
            match write.as_mut().poll(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Ok(())) => self.write = None,
                Poll::Pending => {}
            }
        }
        match self.slot.borrow_mut().take() {
            Some(bytes) => Poll::Ready(Some(Ok(Piece::Data(bytes)))),
            None if self.write.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Content {
    /// Creates a body that the future of `write` produces. The future runs in the task of the connection.
    /// While the client reads too slowly, the future waits in [`ContentWriter::write`]. If the client leaves,
    /// the future is dropped.
    pub fn written_by<F>(write: impl FnOnce(ContentWriter) -> F) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + 'static,
    {
        Self::from_content_stream(WriterFuture::new(write))
    }
}
