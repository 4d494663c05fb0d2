//! Limits and timeouts of a server.

use std::time::Duration;

use thruway_http1::Limits;

use crate::trusted::TrustedProxies;

/// Limits and timeouts of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Limits of a request, such as the maximum size of its header section.
    pub limits: Limits,
    /// Maximum number of pipelined requests that one HTTP/1.1 connection handles at the same time. Default
    /// 64. Further requests wait until a response is complete. Only requests with safe methods, such as GET,
    /// run at the same time (RFC 9112 §9.3.2).
    pub pipelined_requests: usize,
    /// Maximum number of response bytes that an HTTP/1.1 connection buffers for its client. Default 64 KiB.
    /// While the buffer is full, the connection handles no further requests, and fetches no more data of a
    /// streamed response body. Smaller values cost more system calls. Larger values cost memory for clients
    /// that do not read.
    pub output_bytes: usize,
    /// Maximum number of bytes of a request body that the connection reads before the handler asks for them.
    /// Default 64 KiB.
    pub content_window_bytes: usize,
    /// Maximum number of bytes of an unread request body that the server discards in order to reuse the
    /// connection. Default 256 KiB. If more bytes are unread, the connection closes.
    pub discard_bytes: u64,
    /// Limits for HTTP/2 connections.
    pub http2: Http2Limits,
    /// Proxies from which the server accepts forwarding headers, such as `X-Forwarded-For`. Default: none, so
    /// that the server takes the client address from the connection.
    pub trusted_proxies: TrustedProxies,
    /// Timeouts of connections and of a graceful shutdown.
    pub timeouts: Timeouts,
}

/// Limits of one HTTP/2 connection. [`Limits`](crate::Limits) contains the limits of a message in all HTTP
/// versions. [`Timeouts`](crate::Timeouts) contains the timeouts. Without the feature `http2`, these limits
/// have no effect.
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

/// Timeouts of a connection, with a precision of a few hundred milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Maximum time from the first byte of a request to the end of its header section. The server responds
    /// 408 to a slower request. Default 10 s.
    pub header_section: Duration,
    /// Maximum time by which a request body may lag behind the rate
    /// [`content_rate_min`](Self::content_rate_min). If the body lags further behind, the request gets 408.
    /// The request also gets 408 if no part of the body arrives for this time, even if earlier parts arrived
    /// fast. The time pauses while the handler does not read the body. Default 20 s.
    pub content: Duration,
    /// Minimum rate of a request body, in bytes per second. A slower body lags behind this rate. If it lags
    /// behind by more than the time [`content`](Self::content), the request gets 408. A client can catch up
    /// by sending faster, but cannot gain time for a later pause. Default 500.
    pub content_rate_min: u64,
    /// Maximum time without a request on an open connection. After this time, the server closes the
    /// connection. Default 60 s.
    pub idle: Duration,
    /// Maximum time without progress on a response after the client has closed its sending side. Then the
    /// server cancels the request, because most clients that close their sending side have left. Default 1 s.
    /// Increase it for clients that close their sending side and still wait for the response, such as `nc
    /// -N`. With a smaller value, upstream servers do less work for clients that have left.
    pub half_closed: Duration,
    /// Maximum time for which a client may accept no response bytes. Then the server closes the connection
    /// and discards the unsent bytes. Received parts of a request body restart this time. Default 30 s.
    pub write_stall: Duration,
    /// Maximum time for which the server waits after the last response before it closes the connection. In
    /// this time, the client can read the response and close the connection. The server does not wait if the
    /// client has asked to close and sends nothing more. Default 2 s.
    pub linger: Duration,
    /// Maximum duration of a graceful shutdown. After this time, the server closes all connections that are
    /// still open. Default 30 s.
    pub drain: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            pipelined_requests: 64,
            output_bytes: 64 << 10,
            content_window_bytes: 64 << 10,
            discard_bytes: 256 << 10,
            http2: Http2Limits::default(),
            trusted_proxies: TrustedProxies::default(),
            timeouts: Timeouts::default(),
        }
    }
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            concurrent_streams: 100,
            stream_window_bytes: 64 << 10,
            frame_bytes: 16 << 10,
            send_buffer_bytes: 64 << 10,
            flood_guard: 2000,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header_section: Duration::from_secs(10),
            content: Duration::from_secs(20),
            content_rate_min: 500,
            idle: Duration::from_mins(1),
            half_closed: Duration::from_secs(1),
            write_stall: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(30),
        }
    }
}
