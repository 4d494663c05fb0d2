//! Encoders for the content codings. An encoder is synchronous: it encodes the input of the caller at once
//! and appends its output to a buffer.

use std::fmt;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use flate2::{Compress, FlushCompress, Status};
use thruway_net::{Admitted, LogLimit};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CParameter, CStream, InBuffer, OutBuffer, ResetDirective};

use super::config::LeveledCoding;
use crate::content_coding::ContentCoding;

/// An encoder for one of the content codings, with its current state.
pub(super) enum Encoder {
    Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>),
    Gzip(Compress),
    Zstandard(CStream<'static>),
}

/// Operation of an encoder. It determines how much output the encoder produces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    /// Encodes the input. The encoder may hold output back, for better compression.
    Continue,
    /// Encodes the input, and produces the output for all input so far, so that the client can decode this
    /// input now.
    Flush,
    /// Encodes the input, produces the output for all input, and ends the stream.
    Finish,
}

/// An internal error of a compression library. The content of a body cannot cause it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EncodeError(pub(super) ContentCoding);

impl Encoder {
    /// Creates an encoder. `None` if there is not enough memory.
    pub(super) fn new(coder: LeveledCoding) -> Option<Self> {
        let level = coder.level;
        match coder.coding {
            ContentCoding::Brotli => Some(Self::Brotli(brotli_of(level))),
            ContentCoding::Gzip => {
                let level = flate2::Compression::new(u32::from(level));
                Some(Self::Gzip(Compress::new_gzip(level, GZIP_WINDOW_BITS)))
            }
            ContentCoding::Zstandard => zstandard_of(level).map(Self::Zstandard),
        }
    }

    /// Returns `true` if the encoder can be reused for another stream.
    pub(super) const fn can_restart(&self) -> bool {
        !matches!(self, Self::Brotli(_))
    }

    /// Resets the encoder for a new stream. Returns `None` if the encoder cannot be reused.
    pub(super) fn restarted(mut self) -> Option<Self> {
        match &mut self {
            Self::Brotli(_) => return None,
            Self::Gzip(compress) => compress.reset(),
            Self::Zstandard(context) => {
                context.reset(ResetDirective::SessionOnly).ok()?;
            }
        }
        Some(self)
    }

    /// Encodes `input` and appends the output to `output`. No input is allowed after [`Operation::Finish`].
    pub(super) fn encode(
        &mut self,
        input: &[u8],
        operation: Operation,
        output: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        match self {
            Self::Brotli(state) => encode_brotli(state, input, operation, output),
            Self::Gzip(compress) => encode_gzip(compress, input, operation, output),
            Self::Zstandard(context) => encode_zstandard(context, input, operation, output),
        }
    }
}

fn brotli_of(level: u8) -> Box<BrotliEncoderStateStruct<StandardAlloc>> {
    let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, u32::from(level));
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, WINDOW_BITS);
    Box::new(state)
}

fn encode_brotli(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    input: &[u8],
    operation: Operation,
    output: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let operation = match operation {
        Operation::Continue => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
        Operation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
        Operation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
    };
    let (mut left, mut used) = (input.len(), 0);
    loop {
        // The call passes no output buffer, so the library keeps the output. The call of `take_output` then
        // returns it.
        let is_done = state.compress_stream(
            operation,
            &mut left,
            input,
            &mut used,
            &mut 0,
            &mut [],
            &mut 0,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !is_done {
            return Err(EncodeError(ContentCoding::Brotli));
        }
        let mut length = 0;
        let lent_bytes = state.take_output(&mut length);
        output.extend_from_slice(&lent_bytes[..length]);
        if left == 0 && !state.has_more_output() {
            return Ok(());
        }
    }
}

fn encode_gzip(
    compress: &mut Compress,
    mut input: &[u8],
    operation: Operation,
    output: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let flush = match operation {
        Operation::Continue => FlushCompress::None,
        Operation::Flush => FlushCompress::Sync,
        Operation::Finish => FlushCompress::Finish,
    };
    loop {
        output.reserve(FREE_BYTES_MIN);
        let before = compress.total_in();
        let status = compress.compress_vec(input, output, flush);
        let status = status.map_err(|_| EncodeError(ContentCoding::Gzip))?;
        let used = usize::try_from(compress.total_in() - before).unwrap_or(input.len());
        input = &input[used..];
        let is_done = match operation {
            Operation::Finish => status == Status::StreamEnd,
            Operation::Continue | Operation::Flush => input.is_empty() && output.len() < output.capacity(),
        };
        if is_done {
            return Ok(());
        }
    }
}

fn zstandard_of(level: u8) -> Option<CStream<'static>> {
    let mut context = CStream::try_create()?;
    context.set_parameter(CParameter::CompressionLevel(i32::from(level))).ok()?;
    context.set_parameter(CParameter::WindowLog(WINDOW_BITS)).ok()?;
    if level >= ZSTANDARD_LARGE_TABLES {
        context.set_parameter(CParameter::HashLog(ZSTANDARD_TABLE_BITS)).ok()?;
        context.set_parameter(CParameter::ChainLog(ZSTANDARD_TABLE_BITS)).ok()?;
    }
    Some(context)
}

fn encode_zstandard(
    context: &mut CStream<'static>,
    input: &[u8],
    operation: Operation,
    output: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let directive = match operation {
        Operation::Continue => ZSTD_EndDirective::ZSTD_e_continue,
        Operation::Flush => ZSTD_EndDirective::ZSTD_e_flush,
        Operation::Finish => ZSTD_EndDirective::ZSTD_e_end,
    };
    let mut input = InBuffer::around(input);
    loop {
        output.reserve(FREE_BYTES_MIN);
        let length = output.len();
        let mut out_buffer = OutBuffer::around_pos(output, length);
        let left = context.compress_stream2(&mut out_buffer, &mut input, directive);
        let left = left.map_err(|_| EncodeError(ContentCoding::Zstandard))?;
        let is_done = match operation {
            Operation::Continue => input.pos == input.src.len(),
            Operation::Flush | Operation::Finish => left == 0,
        };
        if is_done {
            return Ok(());
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the compression library for {} failed", self.0.name())
    }
}

impl std::error::Error for EncodeError {}

#[cold]
pub(super) fn log_encoder_failure(error: &dyn std::error::Error) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, suppressed, "cannot compress the body of a response");
    }
}

/// Window size of brotli and zstd: 2^17 bytes, which is 128 KiB. An encoder can refer only to earlier data in
/// the window. A larger window hardly improves the compression of web pages and JSON. But the memory of each
/// stream grows in proportion to the window. Clients may refuse zstd windows over 8 MiB (RFC 9659).
const WINDOW_BITS: u32 = 17;

/// First level of zstd at which the default tables are larger than this window needs. At level 12, they would
/// need 42 MiB.
const ZSTANDARD_LARGE_TABLES: u8 = 3;

/// Size of the hash table and of the chain table at level [`ZSTANDARD_LARGE_TABLES`] and above. Each table
/// has 2^16 entries, which are 256 KiB.
const ZSTANDARD_TABLE_BITS: u32 = 16;

/// Window size of gzip: 2^15 bytes, which is 32 KiB, the maximum of the format.
const GZIP_WINDOW_BITS: u8 = 15;

/// Minimum free space in the output buffer for each call of an encoder.
const FREE_BYTES_MIN: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::Compression;

    /// Checks the documented memory of a stream with zstd. Other tests count allocations for the other
    /// codings.
    #[test]
    fn zstd_uses_documented_amount_of_memory() {
        for level in Compression::levels(ContentCoding::Zstandard) {
            let mut context = zstandard_of(level).unwrap();
            let (input, mut output) = (vec![b'a'; 100_000], Vec::new());
            for _ in 0..100 {
                encode_zstandard(&mut context, &input, Operation::Flush, &mut output).unwrap();
            }
            let bytes = context.sizeof();
            assert!((512 << 10..1536 << 10).contains(&bytes), "level {level}: {bytes}");
        }
    }
}
