//! The buffers that the TLS connections of a thread use while they are polled.

/// The buffers of one thread. A waiting connection owns none of them.
pub(crate) struct Scratch {
    /// Records that have arrived.
    pub(super) input: Box<[u8]>,
    /// Records to send.
    pub(super) output: Box<[u8]>,
    /// The data of one record, joined from several pieces.
    pub(super) joined: Box<[u8]>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        let zeros = |length| vec![0; length].into_boxed_slice();
        Self { input: zeros(INPUT_BYTES), output: zeros(OUTPUT_BYTES), joined: zeros(RECORD_CONTENT_BYTES) }
    }
}

/// Maximum size of the data in a record (RFC 8446 §5.1).
pub(super) const RECORD_CONTENT_BYTES: usize = 16 << 10;

/// Maximum size of a received record with its header (RFC 5246 §6.2.3, RFC 8446 §5.2).
pub(super) const RECORD_BYTES_MAX: usize = RECORD_CONTENT_BYTES + 2048 + 5;

/// Maximum overhead of a sent record, in either version.
const RECORD_EXTRA_BYTES: usize = 64;

/// Number of records sent at a time. The part that the socket does not take must fit into a pooled buffer, so
/// more records are not possible.
pub(super) const RECORDS_AT_A_TIME: usize = 3;

/// The maximum size of a handshake message, 64 KiB, with the headers of its records.
const INPUT_BYTES: usize = (64 << 10) + (2 << 10);

/// The received records, and the key change that applies before them, if there is one.
const OUTPUT_BYTES: usize = RECORDS_AT_A_TIME * (RECORD_CONTENT_BYTES + RECORD_EXTRA_BYTES) + 1024;
