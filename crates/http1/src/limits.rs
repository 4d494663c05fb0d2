//! How large a peer's message may be.

/// Limits on what one message may hold. Every one is enforced while octets arrive: what is beyond a limit is
/// never stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Octets of a request target; more is answered 414. Default 8 KiB: RFC 9112 §3 recommends at least
    /// 8,000.
    pub request_target_bytes: u32,
    /// Octets of a header section, from the end of the start line to the empty line; more is answered 431.
    /// Default 32 KiB, as nginx. A section that arrives in many small pieces is parsed again for each line,
    /// and its last line for each piece: what a hostile client costs grows with this times `field_lines`.
    pub header_section_bytes: u32,
    /// Field lines in a header or trailer section; more is answered 431. Default 128.
    pub field_lines: u32,
    /// Octets of content, after de-chunking; more is answered 413. Default 1 GiB. Content is never held whole
    /// on behalf of this limit: it bounds how long a connection can be kept busy.
    pub content_bytes: u64,
    /// Octets of the extensions of one chunk, and of what all chunk lines of a message take beyond what their
    /// data justifies (18 octets a chunk and 1 for 8 octets of data); more is answered 400. Default 4 KiB.
    pub chunk_extension_bytes: u32,
    /// Octets of a trailer section; more is answered 431. Default 8 KiB.
    pub trailer_section_bytes: u32,
    /// Interim responses to one request, for clients. Default 16.
    pub interim_responses: u32,
    /// Requests on one connection; the answer to the last announces the close. 0 for no limit, the default.
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
