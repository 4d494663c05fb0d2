//! Reasons why a request could not be forwarded. Each reason determines whether the client, the gateway or
//! the upstream caused the failure. It also determines whether the gateway may retry, and the response to the
//! client.

use std::fmt;

use thruway_client::{ConnectError, Error, Retry, Side};
use thruway_net::tls::TlsFailure;
use thruway_server::{ContentError, Response, StatusCode};

/// Reason why the gateway got no response from an upstream server for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The destination of the tunnel has a private or other non-global address that the config does not
    /// allow.
    AddressRefused,
    /// The gateway could not connect to the server.
    Connect(ConnectError),
    /// The route does not accept the method CONNECT.
    ConnectRefused,
    /// The config does not allow the destination of the tunnel.
    DestinationRefused,
    /// The HTTP exchange with the server failed after the connection was open.
    Exchange(Error),
    /// The request has passed through this gateway before, or through too many gateways.
    Loop,
    /// The DNS lookup of the requested host failed.
    NameNotLookedUp,
    /// The DNS lookup of the requested host succeeded, but found no address.
    NameUnresolved,
    /// No server of the upstream is available for the request.
    NoServer,
    /// No server has capacity, and the queue of waiting requests is full.
    QueueFull,
    /// No server had capacity. The request waited in the queue until its timeout.
    QueueTimedOut,
    /// The gateway could not read the complete request body from the client.
    RequestContent(ContentError),
    /// The total timeout of the request expired, and the server did not cause the delay.
    TimedOut,
    /// The server accepted a WebSocket, but its response does not prove that the server has read the
    /// handshake request (RFC 6455 §4.1).
    UpgradeUnproven,
    /// The client asked for a protocol upgrade, but the server uses HTTP/2 and does not support upgrades
    /// over HTTP/2 (RFC 8441 §3).
    UpgradeUnsupported,
}

impl Failure {
    /// Returns the side that caused the failure: client, gateway or upstream.
    pub const fn side(self) -> Side {
        match self {
            Self::Connect(error) => error.side(),
            Self::AddressRefused
            | Self::ConnectRefused
            | Self::DestinationRefused
            | Self::RequestContent(_)
            | Self::UpgradeUnsupported => Side::Client,
            Self::Exchange(error) => error.side(),
            Self::NameUnresolved | Self::NoServer | Self::UpgradeUnproven => Side::Upstream,
            Self::Loop | Self::NameNotLookedUp | Self::QueueFull | Self::QueueTimedOut | Self::TimedOut => {
                Side::Local
            }
        }
    }

    /// Returns the rule that says whether the gateway may send the request to another server.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Connect(error) => error.retry(),
            Self::Exchange(error) => error.retry(),
            Self::AddressRefused
            | Self::ConnectRefused
            | Self::DestinationRefused
            | Self::Loop
            | Self::NameNotLookedUp
            | Self::NameUnresolved
            | Self::NoServer
            | Self::QueueFull
            | Self::QueueTimedOut
            | Self::RequestContent(_)
            | Self::TimedOut
            | Self::UpgradeUnproven
            | Self::UpgradeUnsupported => Retry::Never,
        }
    }

    /// Returns the status of the response to the client (RFC 9110 §15.6.3 to §15.6.5). A request loop gets
    /// 508 (RFC 5842 §7.2), although RFC 9209 §2.3 recommends 502. After a 502, load balancers in front of
    /// this gateway would retry the request, and the retry would loop again.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::AddressRefused | Self::DestinationRefused => StatusCode::FORBIDDEN,
            Self::ConnectRefused => StatusCode::METHOD_NOT_ALLOWED,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::RequestContent(error) => error.status(),
            Self::NameNotLookedUp | Self::NoServer | Self::QueueFull | Self::QueueTimedOut => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Connect(error) if matches!(error.side(), Side::Local) => StatusCode::SERVICE_UNAVAILABLE,
            Self::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Self::Connect(error) if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::Exchange(error) if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::Exchange(error) if matches!(error.side(), Side::Client) => StatusCode::BAD_REQUEST,
            Self::Connect(_)
            | Self::Exchange(_)
            | Self::NameUnresolved
            | Self::UpgradeUnproven
            | Self::UpgradeUnsupported => StatusCode::BAD_GATEWAY,
        }
    }

    /// All error names that [`proxy_error`](Self::proxy_error) can return.
    pub const PROXY_ERRORS: [&str; 21] = [
        "connection_limit_reached",
        "connection_read_timeout",
        "connection_refused",
        "connection_terminated",
        "connection_timeout",
        "connection_write_timeout",
        "destination_ip_prohibited",
        "destination_ip_unroutable",
        "destination_unavailable",
        "dns_error",
        "http_protocol_error",
        "http_request_denied",
        "http_request_error",
        "http_response_incomplete",
        "http_response_timeout",
        "http_upgrade_failed",
        "proxy_internal_error",
        "proxy_loop_detected",
        "tls_alert_received",
        "tls_certificate_error",
        "tls_protocol_error",
    ];

    /// Returns the error name of this failure in the header `Proxy-Status` (RFC 9209 §2.3).
    pub const fn proxy_error(self) -> &'static str {
        match self {
            Self::Connect(error) => match error {
                ConnectError::ConnectionLimit => "connection_limit_reached",
                ConnectError::TimedOut => "connection_timeout",
                ConnectError::Refused | ConnectError::SocketNotFound => "connection_refused",
                ConnectError::Tls(failure) => tls_error(failure),
                ConnectError::Unreachable => "destination_ip_unroutable",
                _ if matches!(error.side(), Side::Local) => "proxy_internal_error",
                _ => "destination_unavailable",
            },
            Self::AddressRefused => "destination_ip_prohibited",
            Self::ConnectRefused | Self::DestinationRefused => "http_request_denied",
            Self::Exchange(error) => match error {
                Error::ClosedBeforeRequest | Error::ClosedBeforeResponse => "connection_terminated",
                Error::ContentIncomplete | Error::HeadIncomplete => "http_response_incomplete",
                Error::ContentTimedOut => "connection_read_timeout",
                Error::HeadTimedOut | Error::TimedOut => "http_response_timeout",
                Error::WriteTimedOut => "connection_write_timeout",
                Error::RequestContentTooLong | Error::RequestContentTooShort | Error::RequestNotSendable => {
                    "http_request_error"
                }
                _ => "http_protocol_error",
            },
            Self::Loop => "proxy_loop_detected",
            Self::NameNotLookedUp | Self::NameUnresolved => "dns_error",
            Self::NoServer => "destination_unavailable",
            Self::QueueFull | Self::QueueTimedOut => "connection_limit_reached",
            Self::RequestContent(_) => "http_request_error",
            Self::TimedOut => "http_response_timeout",
            Self::UpgradeUnproven | Self::UpgradeUnsupported => "http_upgrade_failed",
        }
    }

    /// Returns the error response to the client.
    pub fn to_response(self) -> Response {
        let status = self.status();
        let proxy_status = format!("thruway; error={}", self.proxy_error());
        let response =
            Response::text(format!("{} {}\n", status.as_u16(), status.reason())).with_status(status);
        let response = response.with_field("Proxy-Status", proxy_status);
        match self {
            Self::ConnectRefused => {
                response.with_field("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
            }
            _ if status == StatusCode::SERVICE_UNAVAILABLE => response.with_field("Retry-After", "1"),
            // The gateway closes the connection, because it cannot find the start of the next request after
            // an incomplete body.
            Self::RequestContent(_) => response.and_close(),
            _ => response,
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Exchange(error)
    }
}

impl From<ContentError> for Failure {
    fn from(error: ContentError) -> Self {
        Self::RequestContent(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressRefused => f.write_str("the config does not allow tunnels to this address"),
            Self::Connect(error) => write!(f, "connect failed: {error}"),
            Self::ConnectRefused => f.write_str("this route cannot handle CONNECT"),
            Self::DestinationRefused => {
                f.write_str("the config does not allow tunnels to this host and port")
            }
            Self::Exchange(error) => error.fmt(f),
            Self::Loop => f.write_str(
                "the request has come back to this gateway, or has passed through too many gateways",
            ),
            Self::NameNotLookedUp => f.write_str("the DNS lookup failed"),
            Self::NameUnresolved => f.write_str("the DNS lookup found no address for the host name"),
            Self::NoServer => f.write_str("no server is available"),
            Self::QueueFull => f.write_str("all servers are at their limits, and the queue is full"),
            Self::QueueTimedOut => f.write_str("all servers were at their limits until the queue timeout"),
            Self::RequestContent(error) => write!(f, "reading the request body failed: {error}"),
            Self::TimedOut => f.write_str("the time limit of the request expired"),
            Self::UpgradeUnproven => f.write_str(
                "the server's response to the WebSocket handshake has no valid `Sec-WebSocket-Accept`",
            ),
            Self::UpgradeUnsupported => f.write_str("the server does not support upgrades over HTTP/2"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Exchange(error) => Some(error),
            Self::RequestContent(error) => Some(error),
            _ => None,
        }
    }
}

/// Returns the name of a TLS failure in `Proxy-Status`.
const fn tls_error(failure: TlsFailure) -> &'static str {
    match failure {
        TlsFailure::CertificateExpired
        | TlsFailure::CertificateForOtherName
        | TlsFailure::CertificateInvalid
        | TlsFailure::CertificateNotYetValid
        | TlsFailure::CertificateUnknownIssuer => "tls_certificate_error",
        TlsFailure::Refused(_) => "tls_alert_received",
        TlsFailure::TimedOut => "connection_timeout",
        _ => "tls_protocol_error",
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    /// Regression test: if a client stopped sending its request body, the log blamed the upstream server, at
    /// level `error`.
    #[test]
    fn failed_request_body_has_content_error_as_source() {
        let failure = Failure::from(ContentError::TimedOut);
        assert!(failure.source().is_some_and(<dyn std::error::Error>::is::<ContentError>));
        let upstream = Failure::from(Error::ContentTimedOut);
        assert!(upstream.source().is_some_and(|source| !source.is::<ContentError>()));
    }

    #[test]
    fn every_proxy_error_is_in_the_list() {
        for failure in [
            Failure::AddressRefused,
            Failure::ConnectRefused,
            Failure::DestinationRefused,
            Failure::Loop,
            Failure::NameNotLookedUp,
            Failure::NameUnresolved,
            Failure::NoServer,
            Failure::QueueFull,
            Failure::QueueTimedOut,
            Failure::TimedOut,
            Failure::UpgradeUnproven,
            Failure::UpgradeUnsupported,
            Failure::Connect(ConnectError::ConnectionLimit),
            Failure::Connect(ConnectError::Refused),
            Failure::Connect(ConnectError::TimedOut),
            Failure::Connect(ConnectError::Unreachable),
            Failure::Connect(ConnectError::Tls(TlsFailure::TimedOut)),
            Failure::Connect(ConnectError::Tls(TlsFailure::NotTls)),
            Failure::Connect(ConnectError::Tls(TlsFailure::CertificateExpired)),
            Failure::Exchange(Error::ClosedBeforeResponse),
            Failure::Exchange(Error::ContentIncomplete),
            Failure::Exchange(Error::ContentTimedOut),
            Failure::Exchange(Error::HeadTimedOut),
            Failure::Exchange(Error::WriteTimedOut),
            Failure::Exchange(Error::RequestContentTooLong),
            Failure::Exchange(Error::RequestNotSendable),
        ] {
            assert!(Failure::PROXY_ERRORS.contains(&failure.proxy_error()), "{failure}");
        }
    }
}
