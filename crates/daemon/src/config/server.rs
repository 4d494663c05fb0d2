//! Limits and timeouts of the server, and trusted proxies.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_server::{Http2Limits, InvalidNetwork, Limits, Networks, ProxyFields, Timeouts, TrustedProxies};

use crate::config::resolver::{HEAD_BYTES_MAX, PERIOD_MAX, Resolver};
use crate::config::values::{Period, Spanned};

/// Limits for requests.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawLimits {
    /// Maximum size of a request target in bytes, 16 to 1048576. Longer targets get 414. Default: 8192.
    pub(in crate::config) request_target_bytes: Option<Spanned<u32>>,
    /// Maximum size of the request headers in bytes, 64 to 1048576. Larger headers get 431. Default: 32768.
    pub(in crate::config) header_bytes: Option<Spanned<u32>>,
    /// Maximum number of header lines of a request, 1 to 10000. Requests with more lines get 431. The same
    /// limit applies to trailers. Default: 128.
    pub(in crate::config) headers: Option<Spanned<u32>>,
    /// Maximum size of a request body in bytes. Larger bodies get 413. Default: 1073741824.
    pub(in crate::config) body_bytes: Option<u64>,
    /// Maximum size of the chunk extensions in a request body, 0 to 1048576 bytes. Requests with larger
    /// extensions get 400. Default: 4096.
    pub(in crate::config) chunk_extension_bytes: Option<Spanned<u32>>,
    /// Maximum size of the trailers in bytes, 2 to 1048576. Larger trailers get 431. Default: 8192.
    pub(in crate::config) trailer_bytes: Option<Spanned<u32>>,
    /// Maximum number of requests on one connection. 0 means no limit. Default: 0.
    pub(in crate::config) requests_per_connection: Option<u64>,
    /// Maximum number of pipelined requests in progress on one connection, 1 to 10000. Default: 64.
    pub(in crate::config) pipelined_requests: Option<Spanned<usize>>,
    /// Maximum number of response bytes that Thruway keeps in memory for a client that has not read them yet,
    /// 1024 to 1073741824. A larger value needs more memory for slow clients. A smaller value needs more
    /// system calls. Default: 65536.
    pub(in crate::config) output_bytes: Option<Spanned<usize>>,
    /// Maximum number of bytes of a request body that wait in memory until the upstream server, or another
    /// receiver of the body, accepts them, 1024 to 1073741824. Default: 65536.
    pub(in crate::config) body_buffer_bytes: Option<Spanned<usize>>,
    /// Maximum number of body bytes that the server reads and discards if it responds before the end of a
    /// request body. The connection can then serve further requests. If more bytes remain, the server closes
    /// the connection. Default: 262144.
    pub(in crate::config) discard_bytes: Option<u64>,
    /// Maximum number of concurrent streams of an HTTP/2 connection, 1 to 10000. The server refuses further
    /// streams. Clients may send such refused requests again. Default: 100.
    pub(in crate::config) concurrent_streams: Option<Spanned<u32>>,
    /// Flow-control window of an HTTP/2 stream, 1024 to 1073741824 bytes. A client may send this many bytes
    /// of a request body that Thruway has not processed yet. Default: 65536.
    pub(in crate::config) stream_window_bytes: Option<Spanned<u32>>,
}

/// Timeouts of client connections. The maximum of each timeout is 24h. Only `half_closed`, `linger` and
/// `drain` may be `0s`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawTimeouts {
    /// Maximum time from the first byte of a request to the end of its headers. After this time, the client
    /// gets 408. Default: 10s.
    pub(in crate::config) header: Option<Spanned<Period>>,
    /// Maximum time in which no byte of a request body arrives. The same limit applies to the total delay of
    /// a body that is slower than `body_bytes_per_second_min`. Requests above this limit get 408. Raise the
    /// value if clients make longer pauses. Risk: a slow client occupies memory for this time. Default: 20s.
    pub(in crate::config) body: Option<Spanned<Period>>,
    /// Minimum rate of a request body, in bytes per second. While a body arrives more slowly, Thruway adds up
    /// how far the body is behind this rate. When the sum reaches the value of `body`, the request gets 408.
    /// A faster body reduces the sum. Default: 500.
    pub(in crate::config) body_bytes_per_second_min: Option<NonZeroU64>,
    /// Maximum time until the next request on an open connection (keep-alive). After this time, the server
    /// closes the connection. Default: 60s.
    pub(in crate::config) idle: Option<Spanned<Period>>,
    /// Maximum time without progress on a response to a client that has closed its sending direction (TCP
    /// FIN). After this time, the server cancels the request, because most such clients have left. Default:
    /// 1s.
    pub(in crate::config) half_closed: Option<Spanned<Period>>,
    /// Maximum time in which a client reads nothing of its response and sends no request body. After this
    /// time, the server resets the connection. Default: 30s.
    pub(in crate::config) write_stall: Option<Spanned<Period>>,
    /// Maximum time that the server waits after the last response, until the client has read this response
    /// and closed the connection. Default: 2s.
    pub(in crate::config) linger: Option<Spanned<Period>>,
    /// Maximum time for connections to end after SIGTERM or SIGINT. After this time, the server cuts off
    /// the remaining connections. Default: 30s.
    pub(in crate::config) drain: Option<Spanned<Period>>,
}

/// Headers in which trusted proxies send the client address.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::config) enum RawProxyFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

pub(in crate::config) fn resolve_networks(resolver: &mut Resolver<'_>, raw: &[Spanned<String>]) -> Networks {
    let network = |text: &Spanned<String>| match text.get_ref().parse() {
        Ok(network) => Some(network),
        Err(error) => {
            let error: InvalidNetwork = error;
            resolver.refuse_with(text, error, InvalidNetwork::HINT);
            None
        }
    };
    raw.iter().filter_map(network).collect()
}

/// Resolves the proxies from which the server accepts forwarding headers.
pub(in crate::config) fn resolve_trusted_proxies(
    resolver: &mut Resolver<'_>,
    networks: &[Spanned<String>],
    fields: RawProxyFields,
) -> TrustedProxies {
    let fields = match fields {
        RawProxyFields::XForwarded => ProxyFields::XForwarded,
        RawProxyFields::Forwarded => ProxyFields::Forwarded,
    };
    TrustedProxies::new(resolve_networks(resolver, networks), fields)
}

pub(in crate::config) fn resolve_server(
    resolver: &mut Resolver<'_>,
    raw: RawLimits,
    timeouts: RawTimeouts,
    trusted_proxies: TrustedProxies,
) -> thruway_server::Config {
    let thruway_server::Config {
        limits,
        pipelined_requests,
        output_bytes,
        content_window_bytes,
        discard_bytes,
        http2,
        timeouts: default_timeouts,
        ..
    } = thruway_server::Config::default();
    let most = HEAD_BYTES_MAX;
    thruway_server::Config {
        limits: Limits {
            request_target_bytes: resolver.or(
                raw.request_target_bytes,
                limits.request_target_bytes,
                16..=most,
            ),
            header_section_bytes: resolver.or(raw.header_bytes, limits.header_section_bytes, 64..=most),
            field_lines: resolver.or(raw.headers, limits.field_lines, 1..=10_000),
            content_bytes: raw.body_bytes.unwrap_or(limits.content_bytes),
            chunk_extension_bytes: resolver.or(
                raw.chunk_extension_bytes,
                limits.chunk_extension_bytes,
                0..=most,
            ),
            trailer_section_bytes: resolver.or(raw.trailer_bytes, limits.trailer_section_bytes, 2..=most),
            requests_per_connection: raw.requests_per_connection.unwrap_or(limits.requests_per_connection),
            ..limits
        },
        pipelined_requests: resolver.or(raw.pipelined_requests, pipelined_requests, 1..=10_000),
        output_bytes: resolver.or(raw.output_bytes, output_bytes, BUFFER_BYTES),
        content_window_bytes: resolver.or(raw.body_buffer_bytes, content_window_bytes, BUFFER_BYTES),
        discard_bytes: raw.discard_bytes.unwrap_or(discard_bytes),
        http2: Http2Limits {
            concurrent_streams: resolver.or(raw.concurrent_streams, http2.concurrent_streams, 1..=10_000),
            stream_window_bytes: resolver.or(
                raw.stream_window_bytes,
                http2.stream_window_bytes,
                1024..=(1 << 30),
            ),
            ..http2
        },
        trusted_proxies,
        timeouts: resolve_timeouts(resolver, timeouts, default_timeouts),
    }
}

fn resolve_timeouts(resolver: &mut Resolver<'_>, raw: RawTimeouts, default: Timeouts) -> Timeouts {
    let mut or = |period, default, least| resolver.or(period, Period(default), Period(least)..=PERIOD_MAX).0;
    let (some, none) = (Duration::from_millis(1), Duration::ZERO);
    Timeouts {
        header_section: or(raw.header, default.header_section, some),
        content: or(raw.body, default.content, some),
        content_rate_min: raw.body_bytes_per_second_min.map_or(default.content_rate_min, NonZeroU64::get),
        idle: or(raw.idle, default.idle, some),
        half_closed: or(raw.half_closed, default.half_closed, none),
        write_stall: or(raw.write_stall, default.write_stall, some),
        linger: or(raw.linger, default.linger, none),
        drain: or(raw.drain, default.drain, none),
    }
}

const BUFFER_BYTES: RangeInclusive<usize> = 1 << 10..=1 << 30;
