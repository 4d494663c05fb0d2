//! The content of one message, as its body is read (RFC 9112 §6 and §7).

use crate::body_length::BodyLength;
use crate::chunked::{ChunkedDecoder, Decoded, Piece};
use crate::error::Error;
use crate::head_index::HeadIndex;
use crate::limits::Limits;

/// Reads one message body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContentDecoder {
    Octets { remaining: u64 },
    Chunked(ChunkedDecoder),
    UntilClose { received: u64 },
}

impl ContentDecoder {
    /// For a body of `length`.
    pub(crate) fn new(length: BodyLength, limits: &Limits) -> Result<Self, Error> {
        match length {
            BodyLength::Octets(octets) if octets > limits.content_bytes => Err(Error::ContentTooLarge),
            BodyLength::Octets(octets) => Ok(Self::Octets { remaining: octets }),
            BodyLength::Chunked => Ok(Self::Chunked(ChunkedDecoder::new())),
            BodyLength::UntilClose => Ok(Self::UntilClose { received: 0 }),
        }
    }

    /// The next piece of content, as long as the input allows.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        limits: &Limits,
        index: &mut HeadIndex,
    ) -> Result<Decoded, Error> {
        match self {
            Self::Chunked(decoder) => decoder.decode(input, limits, index),
            Self::Octets { remaining: 0 } => {
                index.clear();
                Ok(Decoded { piece: Piece::End, used: 0 })
            }
            _ if input.is_empty() => Ok(Decoded { piece: Piece::Partial, used: 0 }),
            Self::Octets { remaining } => {
                let length = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= length as u64;
                Ok(Decoded { piece: Piece::Data(0..length), used: length })
            }
            Self::UntilClose { received } => {
                // Up to the limit it is content, however much has arrived at once.
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

    /// Passes over `octets` of content of a known length.
    pub(crate) fn skip(&mut self, octets: u64) {
        if let Self::Octets { remaining } = self {
            *remaining = remaining.saturating_sub(octets);
        }
    }

    /// How many octets are still to come, where that is known.
    pub(crate) const fn remaining(&self) -> Option<u64> {
        match self {
            Self::Octets { remaining } => Some(*remaining),
            Self::Chunked(_) | Self::UntilClose { .. } => None,
        }
    }
}
