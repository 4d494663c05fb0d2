//! How much a connection of HTTP/2 takes on.

/// Limits on one connection of HTTP/2. How large a message may be is in [`Limits`](crate::Limits), for all
/// versions; what is waited for and how long, in [`Timeouts`](crate::Timeouts).
///
/// What the library does beside them, which has no setting here: a header section that is larger than
/// `request_target_bytes + header_section_bytes + 32 × field_lines` is answered 431, four times that ends the
/// connection, and so do more frames for one section than it needs; so do 20 streams that are reset before
/// they were looked at, or more than a hundred empty frames of data that end no stream, in the whole life of
/// the connection; so do many small frames of data that are not read: each takes as much as it is shorter
/// than 256 octets of a budget of half the connection's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Limits {
    /// Streams at a time; those beyond are refused (`REFUSED_STREAM`), and may be sent again. Default 100,
    /// the least that RFC 9113 §6.5.2 recommends. Each may cost as much as a connection of HTTP/1.1.
    pub concurrent_streams: u32,
    /// Octets of content that a client may send on one stream before its handler reads. Default 64 KiB, at
    /// most 2 GiB; larger is faster for uploads over long distances. The window of the connection is as large
    /// as all of its streams' together: no handler that does not read can keep content from another.
    pub stream_window_bytes: u32,
    /// Octets of one frame that a client may send: 16 KiB, the default, to 16 MiB. Larger lets one stream
    /// keep the others waiting.
    pub frame_bytes: u32,
    /// Octets of an answer that wait on one stream to be written. Default 64 KiB. Smaller costs more turns,
    /// larger more memory for clients that do not read.
    pub send_buffer_bytes: usize,
    /// Points for odd behaviour: a stream that the client resets, or makes us reset, takes 10, a frame
    /// without content or new settings 5, any other frame that moves no message 1. Answers give 5 back,
    /// content 1 or 2, and ten seconds all. At 0 the connection ends (`ENHANCE_YOUR_CALM`). Default 2000.
    pub oddities: u32,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            concurrent_streams: 100,
            stream_window_bytes: 64 << 10,
            frame_bytes: FRAME_BYTES_MIN,
            send_buffer_bytes: 64 << 10,
            oddities: 2000,
        }
    }
}

impl Http2Limits {
    /// A library that is made for them, and for messages within `limits`.
    pub(super) fn builder(&self, limits: &crate::Limits) -> h2::server::Builder {
        let section_bytes = limits.request_target_bytes.saturating_add(limits.header_section_bytes);
        let list_bytes = section_bytes.saturating_add(limits.field_lines.saturating_mul(FIELD_LINE_BYTES));
        let stream_window = self.stream_window_bytes.min(WINDOW_BYTES_MAX);
        let window = stream_window.saturating_mul(self.concurrent_streams.max(1)).min(WINDOW_BYTES_MAX);
        let mut builder = h2::server::Builder::new();
        builder
            .max_concurrent_streams(self.concurrent_streams)
            .initial_window_size(stream_window)
            .initial_connection_window_size(window.max(DEFAULT_WINDOW_BYTES))
            .max_frame_size(self.frame_bytes.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX))
            .max_header_list_size(list_bytes)
            .max_send_buffer_size(self.send_buffer_bytes)
            .enable_connect_protocol()
            // Those that are sent are counted here, and forgotten again; but while the client takes nothing
            // they pile up unsent.
            .max_local_error_reset_streams(Some(RESETS_MAX));
        builder
    }
}

/// Resets by the library in the whole life of a connection, sent or not, each with what it keeps of its
/// stream until then; then the connection ends, which costs a client that behaves one more.
const RESETS_MAX: usize = 4096;

/// As RFC 9113 §6.5.2 counts a field line beyond its name and value.
const FIELD_LINE_BYTES: u32 = 32;

/// RFC 9113 §6.5.2 and §6.9.
const FRAME_BYTES_MIN: u32 = 16 << 10;
const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;
const DEFAULT_WINDOW_BYTES: u32 = (64 << 10) - 1;
