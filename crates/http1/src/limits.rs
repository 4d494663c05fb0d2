//! Limits on the messages of a peer.

/// Limits on the messages of a peer. The parser enforces each limit while bytes arrive, and never stores
/// bytes beyond a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of bytes in a request target. A request with a longer target gets status 414. The
    /// default is 8 KiB. RFC 9112 §3 recommends at least 8,000 bytes for a request line.
    pub request_target_bytes: u32,
    /// Maximum number of bytes in a header section, from the end of the start line to the empty line. A
    /// request with a larger header section gets status 431. The default is 32 KiB, as in nginx. If a section
    /// arrives in many small pieces, the parser parses the whole section again after each line end. For each
    /// piece, the parser also parses the incomplete line again. The CPU time that a hostile client can cause
    /// therefore grows with this limit multiplied by `field_lines`.
    pub header_section_bytes: u32,
    /// Maximum number of field lines in a header or trailer section. A request with more field lines gets
    /// status 431. The default is 128.
    pub field_lines: u32,
    /// Maximum number of content bytes, after decoding the chunks. A request with more content gets status
    /// 413. The default is 1 GiB. This limit does not reserve memory, but it bounds the time for which one
    /// request can keep a connection busy.
    pub content_bytes: u64,
    /// Maximum number of bytes in the extensions of one chunk. Also the maximum overhead of all chunk-size
    /// lines of a message. This overhead is the total length of the chunk-size lines, minus an allowance. The
    /// allowance is 18 bytes for each chunk, plus 1 byte for every 8 bytes of data. A request above the limit
    /// gets status 400. The default is 4 KiB.
    pub chunk_extension_bytes: u32,
    /// Maximum number of bytes in a trailer section. A request with a larger trailer section gets status 431.
    /// The default is 8 KiB.
    pub trailer_section_bytes: u32,
    /// Maximum number of interim responses that a client accepts for one request. The default is 16.
    pub interim_responses: u32,
    /// Maximum number of requests on one connection. The response to the last request announces that the
    /// server closes the connection. The default is 0, which means no limit.
    pub requests_per_connection: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_target_bytes: 8 << 10,
            header_section_bytes: 32 << 10,
            field_lines: 128,
            content_bytes: 1 << 30,
            chunk_extension_bytes: 4 << 10,
            trailer_section_bytes: 8 << 10,
            interim_responses: 16,
            requests_per_connection: 0,
        }
    }
}
