//! A response, and the reading of its body.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use thruway_http1::BodyLength;
use thruway_message::{FieldLinesBuf, FieldValue, OwnedResponseHead, ResponseHead, StatusCode};

use super::drive::Driven;
use super::error::ClientError;
use super::idle::PoolReturn;
use crate::ResponseEvent;

/// A response. The head has arrived, and the caller reads the body with [`next`](Self::next) or
/// [`collect`](Self::collect). Dropping an incomplete response closes its connection.
pub struct Response {
    head: OwnedResponseHead,
    length: BodyLength,
    /// The exchange, or `None` after the end of the body.
    driven: Option<Driven>,
    trailers: FieldLinesBuf,
    home: PoolReturn,
}

impl Response {
    pub(super) fn new(head: OwnedResponseHead, length: BodyLength, driven: Driven, home: PoolReturn) -> Self {
        let trailers = FieldLinesBuf::new();
        let mut response = Self { head, length, driven: Some(driven), trailers, home };
        if length == BodyLength::NONE {
            response.release();
        }
        response
    }

    /// Returns the head of the response.
    pub fn head(&self) -> ResponseHead<'_> {
        self.head.as_head()
    }

    /// Returns the status code.
    pub fn status(&self) -> StatusCode {
        self.head().status
    }

    /// Returns the value of the first field line named `name`, ignoring case, or `None` if there is no
    /// such line.
    pub fn field(&self, name: &str) -> Option<FieldValue<'_>> {
        self.head().field(name)
    }

    /// Returns the next part of the body, with at least one byte. Returns `None` at the end of the body.
    ///
    /// # Errors
    /// Returns an error if the exchange failed. The body is then incomplete.
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub async fn next(&mut self) -> Option<Result<Bytes, ClientError>> {
        self.read_with(|content| Some(Bytes::copy_from_slice(content))).await.transpose()
    }

    /// Returns the whole body, if it has at most `limit_bytes` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`next`](Self::next), and [`ClientError::ContentTooLarge`] if the body is
    /// too large.
    ///
    /// # Cancel safety
    /// Dropping the future discards the body and closes the connection.
    pub async fn collect(mut self, limit_bytes: usize) -> Result<Bytes, ClientError> {
        let announced = self.length.bytes().unwrap_or(0);
        if announced > limit_bytes as u64 {
            return Err(ClientError::ContentTooLarge);
        }
        let mut all = BytesMut::with_capacity(announced.min(EXPECTED_BYTES_MAX) as usize);
        let too_much = self.read_with(|content| {
            let fits = all.len() + content.len() <= limit_bytes;
            if fits {
                all.extend_from_slice(content);
            }
            (!fits).then_some(ClientError::ContentTooLarge)
        });
        match too_much.await? {
            Some(error) => Err(error),
            None => Ok(all.freeze()),
        }
    }

    /// Returns the trailer section, which is empty until the caller has read the whole body.
    pub const fn trailers(&self) -> &FieldLinesBuf {
        &self.trailers
    }

    /// Passes the parts of the body to `take` until `take` returns a value, and returns this value.
    /// Returns `None` at the end of the body.
    pub(super) async fn read_with<R>(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Option<R>,
    ) -> Result<Option<R>, ClientError> {
        poll_fn(|cx| self.poll_with(cx, &mut take)).await
    }

    fn poll_with<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: &mut impl FnMut(&[u8]) -> Option<R>,
    ) -> Poll<Result<Option<R>, ClientError>> {
        let Some(driven) = &mut self.driven else { return Poll::Ready(Ok(None)) };
        let trailers = &mut self.trailers;
        let outcome = driven.poll_with(cx, |event| match event {
            ResponseEvent::Content(content) => take(content).map(Some),
            ResponseEvent::End(lines) => {
                lines.iter().for_each(|line| trailers.append_line(line));
                Some(None)
            }
            ResponseEvent::Interim(_) | ResponseEvent::Final(..) | ResponseEvent::Tunnel(_) => None,
        });
        match outcome {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(Some(taken))) => return Poll::Ready(Ok(Some(taken))),
            Poll::Ready(Ok(None)) => self.release(),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
        }
        Poll::Ready(Ok(None))
    }

    /// Ends the exchange. Returns the connection to the pool if another exchange can use the connection.
    fn release(&mut self) {
        if let Some(connection) = self.driven.take().and_then(|driven| driven.exchange.finish()) {
            self.home.take_back(connection);
        }
    }
}

/// Maximum initial capacity of a body buffer, in bytes. A server may announce more bytes than it sends.
const EXPECTED_BYTES_MAX: u64 = 64 << 10;

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("head", &self.head()).finish_non_exhaustive()
    }
}
