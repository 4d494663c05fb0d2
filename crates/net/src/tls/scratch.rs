//! Buffers that the TLS connections of a thread share. A connection uses the buffers only while it is
//! polled.

/// The TLS buffers of one thread. A connection that waits does not use these buffers.
pub(crate) struct Scratch {
    /// Received records.
    pub(super) input: Box<[u8]>,
    /// Records to send.
    pub(super) output: Box<[u8]>,
    /// The data of one record, copied from several slices.
    pub(super) joined: Box<[u8]>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        let zeros = |length| vec![0; length].into_boxed_slice();
        Self { input: zeros(INPUT_BYTES), output: zeros(OUTPUT_BYTES), joined: zeros(RECORD_CONTENT_BYTES) }
    }
}

/// Maximum number of data bytes in a record (RFC 8446 §5.1).
pub(super) const RECORD_CONTENT_BYTES: usize = 16 << 10;

/// Maximum size of a received record, including its header, in bytes (RFC 5246 §6.2.3, RFC 8446 §5.2).
pub(super) const RECORD_BYTES_MAX: usize = RECORD_CONTENT_BYTES + 2048 + 5;

/// Maximum overhead of a sent record, in bytes, in both TLS versions.
const RECORD_EXTRA_BYTES: usize = 64;

/// Number of records that are encrypted and sent at a time. A larger number is not possible, because all
/// records must fit into a pooled buffer if the socket does not accept them.
pub(super) const RECORDS_AT_A_TIME: usize = 3;

/// Size of the input buffer, in bytes. The buffer holds the largest handshake message (64 KiB), and the
/// headers of the records of this message.
const INPUT_BYTES: usize = (64 << 10) + (2 << 10);

/// Size of the output buffer, in bytes. The buffer holds all records that are sent at a time, and a key
/// change message before these records.
const OUTPUT_BYTES: usize = RECORDS_AT_A_TIME * (RECORD_CONTENT_BYTES + RECORD_EXTRA_BYTES) + 1024;
