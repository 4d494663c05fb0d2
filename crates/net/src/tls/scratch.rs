//! The buffers that the TLS connections of a thread use while they are polled.

/// Buffers of one thread. A connection that waits owns none of them.
pub(crate) struct Scratch {
    /// Records that have arrived.
    pub(super) input: Box<[u8]>,
    /// Records to be sent.
    pub(super) output: Box<[u8]>,
    /// Content of one record that lies in several pieces.
    pub(super) joined: Box<[u8]>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        let zeros = |length| vec![0; length].into_boxed_slice();
        Self { input: zeros(INPUT_BYTES), output: zeros(OUTPUT_BYTES), joined: zeros(RECORD_CONTENT_BYTES) }
    }
}

/// What a record carries at most (RFC 8446 §5.1).
pub(super) const RECORD_CONTENT_BYTES: usize = 16 << 10;

/// A record that arrives, with its header (RFC 5246 §6.2.3, RFC 8446 §5.2).
pub(super) const RECORD_BYTES_MAX: usize = RECORD_CONTENT_BYTES + 2048 + 5;

/// What a record that we send has besides its content, in either version.
const RECORD_EXTRA_BYTES: usize = 64;

/// Records that are sent at a time. What the socket does not take of them is kept in a buffer of the pool,
/// into which no more fits.
pub(super) const RECORDS_AT_A_TIME: usize = 3;

/// The longest message of a handshake, 64 KiB, with the headers of its records.
const INPUT_BYTES: usize = (64 << 10) + (2 << 10);

/// The records, and a change of keys before them.
const OUTPUT_BYTES: usize = RECORDS_AT_A_TIME * (RECORD_CONTENT_BYTES + RECORD_EXTRA_BYTES) + 1024;
