//! Limits of HTTP/2 connections.

/// Limits of one HTTP/2 connection. [`Limits`](crate::Limits) has the limits of messages for all versions,
/// and [`Timeouts`](crate::Timeouts) the timeouts.
///
/// The HTTP/2 library has further limits without a setting. A header section that is larger than
/// `request_target_bytes + header_section_bytes + 32 × field_lines` gets 431, and four times that size ends
/// the connection. These also end the connection: more frames for a header section than it needs; 20 streams
/// over its lifetime that are reset before they were handled; more than a hundred empty data frames over its
/// lifetime that end no stream; and many small unread data frames, each of which costs the difference to 256
/// bytes of a budget of half the connection window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Limits {
    /// Maximum number of streams at a time. Further streams are refused (`REFUSED_STREAM`), and the client
    /// may send them again. Default 100, the minimum that RFC 9113 §6.5.2 recommends. Each stream may cost as
    /// much as an HTTP/1.1 connection.
    pub concurrent_streams: u32,
    /// Number of content bytes that a client may send on one stream before its handler reads. Default 64 KiB,
    /// at most 2 GiB; larger values are faster for uploads over long distances. The window of the connection
    /// is the sum of all stream windows, so a handler that does not read cannot block others.
    pub stream_window_bytes: u32,
    /// Maximum size of a frame from the client in bytes: 16 KiB (default) to 16 MiB. Larger frames make other
    /// streams wait.
    pub frame_bytes: u32,
    /// Maximum number of response bytes that wait on one stream. Default 64 KiB. Smaller values cost poll
    /// iterations, larger ones memory for clients that do not read.
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
            // The library forgets resets that it has sent; but while the client reads nothing, they pile up
            // unsent.
            .max_local_error_reset_streams(Some(RESETS_MAX));
        builder
    }
}

/// Resets by the library in the whole life of a connection, sent or not, each with what it keeps of its
/// stream until then; then the connection ends, which costs a client that behaves one more.
const RESETS_MAX: usize = 4096;

/// Size that RFC 9113 §6.5.2 adds to each field line.
const FIELD_LINE_BYTES: u32 = 32;

/// RFC 9113 §6.5.2 and §6.9.
const FRAME_BYTES_MIN: u32 = 16 << 10;
const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;
const DEFAULT_WINDOW_BYTES: u32 = (64 << 10) - 1;
