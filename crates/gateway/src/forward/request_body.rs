//! The body of a forwarded request, and the bytes that are kept for a retry.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use thruway_message::{FieldLine, FieldLinesBuf};
use thruway_net::PooledBuffer;
use thruway_server::{ContentError, RequestContent, RequestPiece};

use super::config::ForwardConfig;
use super::fields;

/// A request body that had not arrived completely when the gateway began to handle the request.
pub(super) struct RequestBody {
    content: RequestContent,
    /// The body bytes that were read so far. `None` if the body cannot be sent again.
    kept: Option<PooledBuffer>,
    /// Maximum number of bytes to keep for a retry.
    kept_bytes_max: usize,
    /// Number of kept bytes that the current attempt has read.
    given: usize,
    /// The request trailers. `None` until the body has ended.
    trailers: Option<FieldLinesBuf>,
    config: Arc<ForwardConfig>,
}

impl RequestBody {
    /// Returns a body that keeps up to `kept_bytes_max` bytes of `content` for a retry. If the body has a
    /// known length above this maximum, keeps no bytes, because a retry would be impossible anyway.
    pub(super) fn new(content: RequestContent, kept_bytes_max: usize, config: Arc<ForwardConfig>) -> Self {
        let is_too_long = content.length().is_some_and(|length| length > kept_bytes_max as u64);
        Self {
            content,
            kept: Some(PooledBuffer::default()),
            kept_bytes_max: if is_too_long { 0 } else { kept_bytes_max },
            given: 0,
            trailers: None,
            config,
        }
    }

    /// Returns `true` if the body is longer than `bytes_max`, as far as known.
    pub(super) fn is_longer_than(&self, bytes_max: usize) -> bool {
        self.content.length().is_some_and(|length| length > bytes_max as u64)
    }

    /// Reads the whole body, and keeps it for all attempts. Ready with `false` if the body is longer than the maximum
    /// number of bytes to keep.
    ///
    /// # Errors
    /// Returns an error if the client does not send the whole body.
    pub(super) fn poll_read_whole(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, ContentError>> {
        loop {
            match ready!(self.poll_next_piece(cx, false)) {
                Some(piece) => drop(piece?),
                None => return Poll::Ready(Ok(true)),
            }
            if self.kept.is_none() {
                return Poll::Ready(Ok(false));
            }
        }
    }

    /// Returns `true` if the whole body can be sent again.
    pub(super) const fn can_begin_again(&self) -> bool {
        self.kept.is_some()
    }

    /// Rewinds the body for a new attempt, which reads the kept bytes first.
    pub(super) const fn begin_again(&mut self) {
        self.given = 0;
    }

    /// Drops the kept bytes if the current attempt has read all of them. Afterwards, the body cannot be
    /// sent again.
    pub(super) fn forget(&mut self) {
        if self.kept.as_ref().is_some_and(|kept| self.given == kept.len()) {
            self.kept = None;
        }
    }

    /// Returns the next piece of the body, or `None` at the end of the body. If `takes_pipes` is `true` and
    /// no bytes must be kept for a retry, the piece may be in a pipe, which saves a copy.
    pub(super) fn poll_next_piece(
        &mut self,
        cx: &mut Context<'_>,
        takes_pipes: bool,
    ) -> Poll<Option<Result<RequestPiece, ContentError>>> {
        if let Some(again) =
            self.kept.as_ref().and_then(|kept| kept.get(self.given..)).filter(|left| !left.is_empty())
        {
            let again = &again[..again.len().min(PIECE_BYTES_MAX)];
            self.given += again.len();
            return Poll::Ready(Some(Ok(RequestPiece::Data(Bytes::copy_from_slice(again)))));
        }
        if self.trailers.is_some() {
            return Poll::Ready(None);
        }
        let is_kept = self.kept.is_some() && self.kept_bytes_max > 0;
        let piece = ready!(self.content.poll_next_piece(cx, takes_pipes && !is_kept));
        match &piece {
            Some(Ok(RequestPiece::Data(bytes))) => self.keep(bytes),
            Some(Ok(RequestPiece::Piped(_)) | Err(_)) => self.kept = None,
            None => self.trailers = Some(self.taken_trailers()),
        }
        Poll::Ready(piece)
    }

    /// Returns the request trailers to forward. The result is empty until the body has ended.
    pub(super) fn trailers(&self) -> &FieldLinesBuf {
        self.trailers.as_ref().unwrap_or(const { &FieldLinesBuf::new() })
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Some(kept) = &mut self.kept else { return };
        if kept.len() + bytes.len() > self.kept_bytes_max {
            self.kept = None;
            return;
        }
        if kept.is_empty() {
            *kept = PooledBuffer::take();
        }
        kept.extend_from_slice(bytes);
        self.given = kept.len();
    }

    /// Takes the request trailers to forward. Leaves out trailers with the name of a header that the config
    /// removes or sets. Otherwise, a client could send such a header as a trailer.
    fn taken_trailers(&mut self) -> FieldLinesBuf {
        let trailers = self.content.take_trailers();
        let is_kept = |line: &FieldLine<'_>| !self.config.rewrite.request.drops(line.name);
        fields::trailers(trailers.iter().flat_map(FieldLinesBuf::iter).filter(is_kept))
    }
}

/// Maximum size of a piece of kept bytes, which is copied.
const PIECE_BYTES_MAX: usize = 64 << 10;
