//! Passes the limits of HTTP/2 connections to the library.

use crate::config::Http2Limits;

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
