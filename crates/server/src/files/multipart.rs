//! Several parts of a file in one body: `multipart/byteranges` (RFC 9110 §14.6).

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use thruway_net::unguessable_id;

use super::ranges::ByteRange;
use super::representation::Representation;
use crate::response::{BoxError, ContentStream, Piece};

/// A response body with several parts of a file. Each part has a header section. The server reads the parts
/// from the file while it sends the body.
#[derive(Debug)]
pub(super) struct Multipart {
    file: File,
    segments: VecDeque<Segment>,
    length: u64,
}

#[derive(Debug)]
enum Segment {
    Delimiter(String),
    Part(ByteRange),
}

impl Multipart {
    /// Returns a body with the `ranges` of `representation`, and the value of `Content-Type` for this body.
    pub(super) fn new(representation: Representation, ranges: &[ByteRange]) -> (Self, String) {
        let boundary = new_boundary();
        let Representation { file, length, content_type, .. } = representation;
        let mut segments = VecDeque::with_capacity(2 * ranges.len() + 1);
        for range in ranges {
            let line_end = if segments.is_empty() { "" } else { "\r\n" };
            segments.push_back(Segment::Delimiter(format!(
                "{line_end}--{boundary}\r\nContent-Type: {content_type}\r\n\
                 Content-Range: bytes {range}/{length}\r\n\r\n"
            )));
            segments.push_back(Segment::Part(*range));
        }
        segments.push_back(Segment::Delimiter(format!("\r\n--{boundary}--\r\n")));
        let length = segments.iter().map(Segment::length).sum();
        (Self { file, segments, length }, format!("multipart/byteranges; boundary={boundary}"))
    }

    /// Reads the next piece of a part.
    fn read(&mut self, range: ByteRange) -> Result<Bytes, BoxError> {
        let length = range.length().min(PIECE_BYTES);
        if length < range.length() {
            self.segments.push_front(Segment::Part(ByteRange { first: range.first + length, ..range }));
        }
        let mut bytes = vec![0; usize::try_from(length)?];
        // If another process has shortened the file, the read fails, and the response stays incomplete.
        self.file.read_exact_at(&mut bytes, range.first)?;
        Ok(bytes.into())
    }
}

impl ContentStream for Multipart {
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let bytes = match self.segments.pop_front() {
            None => return Poll::Ready(None),
            Some(Segment::Delimiter(delimiter)) => Ok(delimiter.into()),
            Some(Segment::Part(range)) => self.read(range),
        };
        Poll::Ready(Some(bytes.map(Piece::Data)))
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }
}

impl Segment {
    const fn length(&self) -> u64 {
        match self {
            Self::Delimiter(delimiter) => delimiter.len() as u64,
            Self::Part(range) => range.length(),
        }
    }
}

/// Returns a random boundary, which the author of a file cannot predict (RFC 2046 §5.1.1).
fn new_boundary() -> String {
    unguessable_id().into()
}

/// Maximum number of bytes in one read.
const PIECE_BYTES: u64 = 64 << 10;
