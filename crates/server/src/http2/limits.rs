//! Limits of HTTP/2 connections.

/// Limits of one HTTP/2 connection. [`Limits`](crate::Limits) contains message limits for all HTTP versions,
/// and [`Timeouts`](crate::Timeouts) the timeouts.
///
/// The HTTP/2 library has additional fixed limits. The limit of a header section is
/// `request_target_bytes + header_section_bytes + 32 × field_lines`. Larger ones get 431. The connection ends
/// in these cases:
///
/// - a header section that is four times as large as the limit, or is split into more frames than necessary,
/// - 20 streams over its lifetime that are reset before they were handled,
/// - more than a hundred empty data frames over its lifetime that do not end a stream,
/// - too many small unread data frames. Each one below 256 bytes costs the difference to 256 bytes. The
///   budget is half of the connection window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Limits {
    /// Maximum number of concurrent streams. Default 100, the minimum that RFC 9113 §6.5.2 recommends.
    /// Further streams are refused (`REFUSED_STREAM`), and the client may retry them. Each stream may need as
    /// much memory as an HTTP/1.1 connection.
    pub concurrent_streams: u32,
    /// Number of body bytes that a client may send on one stream before its handler reads. Default 64 KiB, at
    /// most 2 GiB. Larger values speed up uploads over long distances. The window of the connection is the
    /// sum of all stream windows, so a handler that does not read cannot block others.
    pub stream_window_bytes: u32,
    /// Maximum size of a frame from the client in bytes: 16 KiB (default) to 16 MiB. Larger frames delay
    /// other streams.
    pub frame_bytes: u32,
    /// Maximum number of response bytes that wait on one stream. Default 64 KiB. Smaller values cost poll
    /// iterations. Larger values cost memory for clients that do not read.
    pub send_buffer_bytes: usize,
    /// Points of the flood guard. Default 2000. At 0, the connection ends (`ENHANCE_YOUR_CALM`). A reset that
    /// the client sends or causes costs 10 points. An empty frame or new settings cost 5. Any other frame
    /// that moves no message costs 1. A response returns 5 points, body data 1 or 2, and ten seconds return
    /// all.
    pub flood_guard: u32,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            concurrent_streams: 100,
            stream_window_bytes: 64 << 10,
            frame_bytes: FRAME_BYTES_MIN,
            send_buffer_bytes: 64 << 10,
            flood_guard: 2000,
        }
    }
}

impl Http2Limits {
    /// Returns a builder for the library with these limits, and with `limits` for messages.
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
            // The library forgets resets after sending them. But while the client does not read, unsent
            // resets accumulate.
            .max_local_error_reset_streams(Some(RESETS_MAX));
        builder
    }
}

/// Maximum number of resets by the library over the lifetime of a connection. Each unsent one keeps memory of
/// its stream. At the limit, the connection ends. A well-behaved client then only needs a new connection.
const RESETS_MAX: usize = 4096;

/// Size that RFC 9113 §6.5.2 adds to each field line.
const FIELD_LINE_BYTES: u32 = 32;

/// Values from RFC 9113 §6.5.2 and §6.9.
const FRAME_BYTES_MIN: u32 = 16 << 10;
const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;
const DEFAULT_WINDOW_BYTES: u32 = (64 << 10) - 1;
