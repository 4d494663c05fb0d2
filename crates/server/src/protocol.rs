//! Detection of the HTTP version, once at the start of a connection.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use thruway_net::{ConnectionGuard, PooledBuffer, Transport};

use crate::config::Timeouts;
use crate::connection::OVER_LIMIT_TIMEOUT_MAX;
use crate::http2::PREFACE;

/// Protocol of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpProtocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Detects the protocol of a connection from its first bytes (RFC 9113 §3.3), and appends these bytes to
/// `early`. The detection is reliable, because no HTTP/1.1 request begins like the preface of HTTP/2. Returns
/// `None` if the connection fails or times out.
pub(crate) async fn read_protocol<T: Transport>(
    transport: &mut T,
    early: &mut PooledBuffer,
    guard: &ConnectionGuard,
    timeouts: Timeouts,
) -> Option<HttpProtocol> {
    let worker = guard.worker();
    let deadline = worker.deadlines().register();
    let mut since = worker.clock().now();
    poll_fn(|cx| {
        deadline.set_waker(cx.waker());
        loop {
            if let Some(protocol) = detect_protocol(early) {
                return Poll::Ready(Some(protocol));
            }
            // During a graceful shutdown, the server treats a connection without any bytes like an idle
            // HTTP/1.1 connection.
            if early.is_empty() && guard.is_draining() {
                return Poll::Ready(Some(HttpProtocol::Http1));
            }
            let timeout = match early.is_empty() {
                true if guard.is_over_limit() => OVER_LIMIT_TIMEOUT_MAX.min(timeouts.idle),
                true => timeouts.idle,
                false => timeouts.header_section,
            };
            let now = worker.clock().now();
            if since + timeout <= now {
                return Poll::Ready(None);
            }
            deadline.set(Some(since + timeout));
            let is_first = early.is_empty();
            match ready!(poll_append(transport, early, cx)) {
                Some(0) => return Poll::Ready(Some(HttpProtocol::Http1)),
                Some(_) if is_first => since = now,
                Some(_) => {}
                None => return Poll::Ready(None),
            }
        }
    })
    .await
}

/// Returns the protocol of a connection that begins with `bytes`. `None` if more bytes are needed.
fn detect_protocol(bytes: &[u8]) -> Option<HttpProtocol> {
    let common = bytes.len().min(PREFACE.len());
    match bytes[..common] == PREFACE[..common] {
        true if common == PREFACE.len() => Some(HttpProtocol::Http2),
        true => None,
        false => Some(HttpProtocol::Http1),
    }
}

/// Reads bytes from the client and appends them to `early`. Returns the number of bytes, or `None` if the
/// connection has failed. The number is 0 if the client has closed its sending side.
fn poll_append<T: Transport>(
    transport: &mut T,
    early: &mut PooledBuffer,
    cx: &mut Context<'_>,
) -> Poll<Option<usize>> {
    let mut bytes = [0; READ_BYTES];
    let read = ready!(transport.poll_read(cx, &mut bytes)).ok();
    if let Some(read) = read {
        if early.capacity() == 0 {
            *early = PooledBuffer::take();
        }
        early.extend_from_slice(&bytes[..read]);
    }
    Poll::Ready(read)
}

/// Maximum number of bytes in one read. Enough for a preface with the first frames, and for most request
/// heads.
const READ_BYTES: usize = 2 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http1_is_detected_at_first_byte_that_differs_from_http2_preface() {
        assert_eq!(detect_protocol(b""), None);
        assert_eq!(detect_protocol(b"PR"), None);
        assert_eq!(detect_protocol(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"), None);
        assert_eq!(detect_protocol(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0"), Some(HttpProtocol::Http2));
        for other in ["GET", "POST", "PRI * HTTP/1.1\r\n", "PROPFIND", "\0"] {
            assert_eq!(detect_protocol(other.as_bytes()), Some(HttpProtocol::Http1), "{other:?}");
        }
    }
}
