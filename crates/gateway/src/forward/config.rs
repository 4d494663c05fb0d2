//! Settings of forwarding.

use super::rewrite::Rewrite;
use super::timeouts::ForwardTimeouts;

/// Changes of requests and responses.
#[derive(Clone, Debug)]
pub struct ForwardConfig {
    /// Headers that tell the upstream about the client. Default [`ForwardedFields::XForwarded`].
    pub forwarded: ForwardedFields,
    /// Adds `X-Forwarded-Port`, the port that the client used, to the other headers of this kind. Default
    /// `false`.
    pub forwarded_port: bool,
    /// `Host` of forwarded requests. Default: the host of the client.
    pub host: HostRewrite,
    /// Adds `Via` (RFC 9110 §7.6.3). Default `true`.
    pub via: bool,
    /// Other changes. Default: none.
    pub rewrite: Rewrite,
    /// Timeouts that override those of the upstream.
    pub timeouts: ForwardTimeouts,
}

/// Headers that tell the upstream about the client. Such headers from clients are removed; the gateway
/// extends those from [trusted proxies](thruway_server::TrustedProxies).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ForwardedFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// All of these.
    Both,
    /// No headers.
    None,
}

/// `Host` of requests to the upstream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum HostRewrite {
    /// The host of the client.
    #[default]
    Preserve,
    /// The name of the server in the config: its address, or its name and port.
    Server,
    /// This host.
    Fixed(String),
}

impl Default for ForwardConfig {
    fn default() -> Self {
        Self {
            forwarded: ForwardedFields::default(),
            forwarded_port: false,
            host: HostRewrite::default(),
            via: true,
            rewrite: Rewrite::default(),
            timeouts: ForwardTimeouts::default(),
        }
    }
}
