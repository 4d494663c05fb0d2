//! Performs the TLS handshake of a connection, and then drives the connection in a new task.

use std::sync::Arc;

use thruway_net::tls::{ALPN_ACME, HandshakeError, TlsFailure, accept_tls, end_tls, wait_for_close};
use thruway_net::{Admitted, ConnectionGuard, LogLimit, PooledBuffer, Stream, spawn};

use crate::connection::ConnectionDriver;
use crate::connection_info::{ConnectionInfo, ConnectionTls};
use crate::listener::{ListenerProtocols, ListenerTls};
#[cfg(feature = "http2")]
use crate::protocol::HttpProtocol;

/// Performs the TLS handshake, which also selects the HTTP version. Then a new task drives the connection.
pub(crate) async fn shake_hands(
    http: ConnectionDriver,
    stream: Stream,
    early: PooledBuffer,
    mut info: ConnectionInfo,
    guard: ConnectionGuard,
    tls: ListenerTls,
    #[cfg_attr(not(feature = "http2"), expect(unused, reason = "without HTTP/2, the version is known"))]
    protocols: ListenerProtocols,
) {
    let within = http.header_time_left(&guard);
    match accept_tls(stream, early, &tls.acceptor, &guard, within).await {
        Ok(mut stream) => {
            if stream.alpn() == Some(ALPN_ACME) {
                return end_tls(stream, &guard, within).await;
            }
            #[cfg(feature = "http2")]
            let is_http2 = protocols == ListenerProtocols::Http2 || stream.alpn() == Some(ALPN_HTTP2);
            let ListenerTls { strict_transport_security, other_hosts, .. } = tls;
            let info_of_tls = stream.take_info();
            info.tls =
                Some(Arc::new(ConnectionTls { info: info_of_tls, strict_transport_security, other_hosts }));
            #[cfg(feature = "http2")]
            if is_http2 {
                let early = PooledBuffer::default();
                let driving = async move {
                    http.drive_protocol(HttpProtocol::Http2, stream, early, info, guard).await;
                };
                return spawn(driving);
            }
            spawn(http.drive(stream, info, guard));
        }
        Err((stream, HandshakeError::PlainHttp(early))) => {
            http.count_tls_failure(TlsFailure::NotTls);
            spawn(http.refuse_plain_http(stream, early, info, guard));
        }
        Err((stream, error)) => {
            http.count_tls_failure(error.failure());
            log_tls_failure(&info, &error);
            if matches!(error, HandshakeError::Refused(_)) {
                wait_for_close(stream, &guard, http.linger()).await;
            }
        }
    }
}

/// Logs why a TLS handshake failed. Any client can make a handshake fail, so the number of lines is limited. Clients
/// that only open and close a connection, such as health checks of load balancers, cause no lines.
#[cold]
fn log_tls_failure(info: &ConnectionInfo, error: &HandshakeError) {
    static LIMIT: LogLimit = LogLimit::new();
    let (client, failure) = (&info.client, error.failure());
    if failure == TlsFailure::Ended {
        tracing::debug!(%client, %error, "TLS handshake failed");
    } else if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::info!(%client, cause = %failure, %error, suppressed, "TLS handshake with a client failed");
    }
}

/// The ALPN name of HTTP/2 (RFC 9113 §3.1).
#[cfg(feature = "http2")]
const ALPN_HTTP2: &[u8] = b"h2";
