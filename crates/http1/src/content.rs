//! Decodes message bodies piece by piece, while bytes arrive (RFC 9112 §6 and §7).

use crate::body_length::BodyLength;
use crate::chunked::{ChunkedDecoder, Decoded, Piece};
use crate::error::Error;
use crate::head_index::HeadIndex;
use crate::limits::Limits;

/// Decodes one message body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContentDecoder {
    Bytes { remaining: u64 },
    Chunked(ChunkedDecoder),
    UntilClose { received: u64 },
}

impl ContentDecoder {
    /// Returns a decoder for a body with the length `length`.
    pub(crate) fn new(length: BodyLength, limits: &Limits) -> Result<Self, Error> {
        match length {
            BodyLength::Bytes(bytes) if bytes > limits.content_bytes => Err(Error::ContentTooLarge),
            BodyLength::Bytes(bytes) => Ok(Self::Bytes { remaining: bytes }),
            BodyLength::Chunked => Ok(Self::Chunked(ChunkedDecoder::new())),
            BodyLength::UntilClose => Ok(Self::UntilClose { received: 0 }),
        }
    }

    /// Returns the next piece of content. The function returns the longest piece that `input` contains.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        limits: &Limits,
        index: &mut HeadIndex,
    ) -> Result<Decoded, Error> {
        match self {
            Self::Chunked(decoder) => decoder.decode(input, limits, index),
            Self::Bytes { remaining: 0 } => {
                index.clear();
                Ok(Decoded { piece: Piece::End, used: 0 })
            }
            _ if input.is_empty() => Ok(Decoded { piece: Piece::Partial, used: 0 }),
            Self::Bytes { remaining } => {
                let length = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= length as u64;
                Ok(Decoded { piece: Piece::Data(0..length), used: length })
            }
            Self::UntilClose { received } => {
                // Accept all bytes up to the limit before the error, so that the result does not depend
                // on the size of `input`.
                let allowed = limits.content_bytes.saturating_sub(*received);
                let length = usize::try_from(allowed).unwrap_or(usize::MAX).min(input.len());
                if length == 0 {
                    return Err(Error::ContentTooLarge);
                }
                *received += length as u64;
                Ok(Decoded { piece: Piece::Data(0..length), used: length })
            }
        }
    }

    /// Skips `bytes` bytes of content. Has an effect only if the length of the content is known.
    pub(crate) fn skip(&mut self, bytes: u64) {
        if let Self::Bytes { remaining } = self {
            *remaining = remaining.saturating_sub(bytes);
        }
    }

    /// Returns the number of content bytes that are still to come, or `None` if the number is unknown.
    pub(crate) const fn remaining(&self) -> Option<u64> {
        match self {
            Self::Bytes { remaining } => Some(*remaining),
            Self::Chunked(_) | Self::UntilClose { .. } => None,
        }
    }
}
