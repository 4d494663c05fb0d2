//! Limits of HTTP/2 connections.

/// Limits of one HTTP/2 connection. [`Limits`](crate::Limits) contains the limits of a message in all HTTP
/// versions. [`Timeouts`](crate::Timeouts) contains the timeouts.
///
/// The HTTP/2 library has further limits that cannot be configured. A header section may have at most
/// `request_target_bytes + header_section_bytes + 32 × field_lines` bytes. A request with a larger header
/// section gets 431. The connection ends in these cases:
///
/// - A header section is four times as large as this limit, or is split into more frames than necessary.
/// - The client has reset more than 20 streams that the server has not accepted yet.
/// - The client has sent more than a hundred empty DATA frames in total that do not end a stream.
/// - Too many small DATA frames are unread. For each frame of less than 256 bytes, the library counts the
///   difference to 256 bytes. The sum may be at most half of the connection window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Limits {
    /// Maximum number of concurrent streams. Default 100, the minimum that RFC 9113 §6.5.2 recommends. The
    /// server refuses further streams with `REFUSED_STREAM`, and the client may retry them. A stream may need
    /// as much memory as an HTTP/1.1 connection.
    pub concurrent_streams: u32,
    /// Number of body bytes that a client may send on one stream before the handler reads them. Default 64
    /// KiB, at most 2 GiB. Larger values speed up uploads over long distances. The window of the connection
    /// is the sum of all stream windows, so a handler that does not read its request body cannot block other
    /// streams.
    pub stream_window_bytes: u32,
    /// Maximum size of a frame from the client in bytes: 16 KiB (default) to 16 MiB. Larger frames delay
    /// other streams.
    pub frame_bytes: u32,
    /// Maximum number of response bytes that the server buffers for one stream. Default 64 KiB. Smaller
    /// values cost CPU time for additional polls. Larger values cost memory for clients that do not read.
    pub send_buffer_bytes: usize,
    /// Maximum number of points in the flood guard of a connection. Default 2000. Each connection starts with
    /// this number of points. Frames that cause useless work remove points. When no points are left, the
    /// connection ends with the error `ENHANCE_YOUR_CALM`. A reset that the client sends or causes removes 10
    /// points. A SETTINGS frame, or a useless empty frame, removes 5 points. A CONTINUATION, PING, PRIORITY,
    /// `WINDOW_UPDATE` or unknown frame removes 1 point. An acknowledgement of SETTINGS also removes 1 point. A
    /// received DATA frame adds 1 point, a sent DATA frame adds 2 points, and a complete response adds 5
    /// points. After ten seconds, the connection has all points again.
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
    /// Returns a connection builder of the HTTP/2 library with these limits, and with `limits` as the limits
    /// of messages.
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
            // The library keeps a reset in memory until it has sent the reset. So unsent resets accumulate
            // while the client does not read.
            .max_local_error_reset_streams(Some(RESETS_MAX));
        builder
    }
}

/// Maximum number of resets that the library sends over the lifetime of a connection. Until a reset is sent,
/// the memory of its stream stays allocated. At the limit, the connection ends. A well-behaved client can
/// open a new connection.
const RESETS_MAX: usize = 4096;

/// Number of bytes that RFC 9113 §6.5.2 adds to the size of each field line.
const FIELD_LINE_BYTES: u32 = 32;

/// Values from RFC 9113 §6.5.2 and §6.9.
const FRAME_BYTES_MIN: u32 = 16 << 10;
const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;
const DEFAULT_WINDOW_BYTES: u32 = (64 << 10) - 1;
