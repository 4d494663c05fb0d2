//! Reads bodies from any source, piece by piece.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use thruway_net::PooledBuffer;

use crate::response::{AtDrain, BoxError, ContentStream, FileRange, Piece, Source};

/// A body before a layer changes it.
pub(super) enum SourceBody {
    Bytes(Bytes),
    File(FileRange),
    Stream(Pin<Box<dyn ContentStream>>),
}

impl SourceBody {
    /// Returns the body of `source`. If `source` has no body, returns `source` unchanged as the error.
    pub(super) fn of(source: Source) -> Result<Self, Source> {
        match source {
            Source::Static(bytes) => Ok(Self::Bytes(Bytes::from_static(bytes))),
            Source::Pooled(bytes) => Ok(Self::Bytes(Bytes::from_owner(bytes))),
            Source::Bytes(bytes) => Ok(Self::Bytes(bytes)),
            Source::File(range) => Ok(Self::File(range)),
            Source::Stream(stream) => Ok(Self::Stream(stream)),
            source @ (Source::Empty | Source::LeftOut(_) | Source::Tunnel(_)) => Err(source),
        }
    }

    /// Returns the original source.
    pub(super) fn into_source(self) -> Source {
        match self {
            Self::Bytes(bytes) => Source::Bytes(bytes),
            Self::File(range) => Source::File(range),
            Self::Stream(stream) => Source::Stream(stream),
        }
    }

    /// Polls for the next piece, which may be large.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        match self {
            Self::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Bytes(bytes) => Poll::Ready(Some(Ok(Piece::Data(std::mem::take(bytes))))),
            Self::File(range) if range.length == 0 => Poll::Ready(None),
            Self::File(range) => Poll::Ready(Some(read(range).map(Piece::Data))),
            Self::Stream(stream) => stream.as_mut().poll_next(cx),
        }
    }

    /// Calls `poll_meanwhile` of the source.
    pub(super) fn poll_meanwhile(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        match self {
            Self::Bytes(_) | Self::File(_) => Ok(()),
            Self::Stream(stream) => stream.as_mut().poll_meanwhile(cx),
        }
    }

    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(range) => Some(range.length),
            Self::Stream(stream) => stream.length(),
        }
    }

    pub(super) fn at_drain(&mut self) -> AtDrain {
        match self {
            Self::Bytes(_) | Self::File(_) => AtDrain::Finishes,
            Self::Stream(stream) => stream.as_mut().at_drain(),
        }
    }
}

/// Reads the next bytes of a file. If another process has shortened the file, the read fails, and the
/// response stays incomplete.
fn read(FileRange { file, offset, length, .. }: &mut FileRange) -> Result<Bytes, BoxError> {
    let bytes =
        read_at(file, *offset, usize::try_from(*length).map_or(READ_BYTES, |left| left.min(READ_BYTES)))?;
    *offset += bytes.len() as u64;
    *length -= bytes.len() as u64;
    Ok(Bytes::from_owner(bytes))
}

fn read_at(file: &File, offset: u64, length: usize) -> std::io::Result<PooledBuffer> {
    let mut bytes = PooledBuffer::take();
    bytes.resize(length, 0);
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Maximum number of bytes in one read.
const READ_BYTES: usize = 64 << 10;
