//! The limits of a peer's message.

/// Limits of one message. They are enforced while bytes arrive, and bytes beyond a limit are never stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of bytes in a request target. Larger requests get 414. The default is 8 KiB; RFC 9112
    /// §3 recommends at least 8,000.
    pub request_target_bytes: u32,
    /// Maximum number of bytes in a header section, from the end of the start line to the empty line. Larger
    /// requests get 431. The default is 32 KiB, as in nginx. If a section arrives in many small pieces, it is
    /// parsed again for each line, and its last line again for each piece. The cost of a hostile client grows
    /// with this limit times `field_lines`.
    pub header_section_bytes: u32,
    /// Maximum number of field lines in a header or trailer section. Larger requests get 431. The default is
    /// 128.
    pub field_lines: u32,
    /// Maximum number of content bytes, after decoding the chunks. Larger requests get 413. The default is 1
    /// GiB. This limit does not reserve memory; it bounds the time for which one request can keep a
    /// connection busy.
    pub content_bytes: u64,
    /// Maximum number of bytes in the extensions of one chunk, and maximum overhead of all chunk lines of a
    /// message. The overhead is the length of the lines minus 18 bytes for each chunk and 1 byte for each 8
    /// bytes of data. Larger requests get 400. The default is 4 KiB.
    pub chunk_extension_bytes: u32,
    /// Maximum number of bytes in a trailer section. Larger requests get 431. The default is 8 KiB.
    pub trailer_section_bytes: u32,
    /// Maximum number of interim responses to one request, for clients. The default is 16.
    pub interim_responses: u32,
    /// Maximum number of requests on one connection. The response to the last one announces the close. The
    /// default is 0, which means no limit.
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
