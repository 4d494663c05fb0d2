//! Settings for forwarding requests.

use super::rewrite::Rewrite;
use super::timeouts::ForwardTimeouts;

/// Settings of the handler [`Forward`](crate::Forward): changes to requests and responses, and timeouts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardConfig {
    /// Headers that inform the upstream server about the client. Default [`ForwardedFields::XForwarded`].
    pub forwarded: ForwardedFields,
    /// `true` adds the header `X-Forwarded-Port` with the port that the client used, if the gateway sends
    /// `X-Forwarded-*` headers. Default `false`.
    pub forwarded_port: bool,
    /// `true` forwards `X-Forwarded-Method` and `X-Forwarded-Uri`, which [`ForwardAuth`](crate::ForwardAuth)
    /// writes. Risk: on other routes, clients could write these headers. Default `false`.
    pub keeps_request_fields: bool,
    /// Value of the `Host` header in forwarded requests. Default: the host that the client requested.
    pub host: HostRewrite,
    /// `true` adds the header `Via` to forwarded requests (RFC 9110 §7.6.3). Default `true`.
    pub via: bool,
    /// Configured changes to the path and to headers. Default: no changes.
    pub rewrite: Rewrite,
    /// Timeouts of this route, which override the timeouts of the upstream.
    pub timeouts: ForwardTimeouts,
    /// If set, the gateway reads the whole request body before it selects a server, so that slow uploads occupy no
    /// server. Maximum length of a body in bytes. The gateway refuses longer bodies with 413. It keeps the body in
    /// memory until the response begins, and can send it again. Default `None`: the gateway forwards bodies as they
    /// arrive.
    pub request_buffer_bytes_max: Option<usize>,
}

/// Headers that inform the upstream server about the client. The gateway removes such headers from the
/// requests of clients. If a [trusted proxy](thruway_server::TrustedProxies) sent the request, the gateway
/// keeps the headers of the proxy and appends an entry.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ForwardedFields {
    /// The headers `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// The header `Forwarded` (RFC 7239).
    Forwarded,
    /// Both `X-Forwarded-*` and `Forwarded`.
    Both,
    /// No headers about the client.
    None,
}

/// Value of the `Host` header in requests to the upstream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum HostRewrite {
    /// The host that the client requested.
    #[default]
    Preserve,
    /// The address of the selected server as written in the config: an IP address or a host name, with the
    /// port.
    Server,
    /// A fixed host from the config.
    Fixed(String),
}

impl Default for ForwardConfig {
    fn default() -> Self {
        Self {
            forwarded: ForwardedFields::default(),
            forwarded_port: false,
            keeps_request_fields: false,
            host: HostRewrite::default(),
            via: true,
            rewrite: Rewrite::default(),
            timeouts: ForwardTimeouts::default(),
            request_buffer_bytes_max: None,
        }
    }
}
