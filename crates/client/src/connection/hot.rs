//! The buffer that all connections of a thread read into.

use std::cell::Cell;

use thruway_http1::{HeadIndex, Limits};

/// What a connection needs while it is read from, and only then.
pub(super) struct HotBuffers {
    pub(super) input: Box<[u8]>,
    /// Where the field lines stand of the head or trailer section that was parsed last.
    pub(super) index: HeadIndex,
}

impl HotBuffers {
    /// Takes the thread's buffers, with room for what a connection needs that needs `input_bytes`. Two turns at the same
    /// time are rare; the second gets buffers of its own.
    #[inline]
    pub(super) fn take(input_bytes: usize) -> Box<Self> {
        let known = HOT.take().filter(|buffers| buffers.input.len() >= input_bytes);
        known.unwrap_or_else(|| Self::new(input_bytes))
    }

    /// Gives them back to the thread.
    #[inline]
    pub(super) fn give_back(self: Box<Self>) {
        HOT.set(Some(self));
    }

    #[cold]
    fn new(input_bytes: usize) -> Box<Self> {
        let input = vec![0; input_bytes.max(INPUT_BYTES)].into_boxed_slice();
        Box::new(Self { input, index: HeadIndex::with_capacity(FIELD_LINES) })
    }
}

thread_local! {
    static HOT: Cell<Option<Box<HotBuffers>>> = const { Cell::new(None) };
}

/// How long an input must be for everything that comes in one piece to fit, and something behind it.
pub(super) fn input_bytes(limits: &Limits) -> usize {
    let head_bytes_max = STATUS_LINE_BYTES_MAX + limits.header_section_bytes as usize;
    let trailer_bytes_max = limits.trailer_section_bytes as usize + limits.chunk_extension_bytes as usize;
    head_bytes_max.max(trailer_bytes_max) + ROOM_BYTES
}

/// What one read takes at most. For large content, fewer and larger reads save a fifth of a relay's time against 64 KiB.
const INPUT_BYTES: usize = 256 << 10;

/// Enough for the field lines of most heads; the index grows for others.
const FIELD_LINES: usize = 128;

/// As `thruway-http1` allows.
const STATUS_LINE_BYTES_MAX: usize = 1024;

const ROOM_BYTES: usize = 16 << 10;
