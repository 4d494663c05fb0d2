//! Config of forwarding.

use super::rewrite::Rewrite;
use super::timeouts::ForwardTimeouts;

/// What is done with requests on their way.
#[derive(Clone, Debug)]
pub struct ForwardConfig {
    /// Which fields tell the upstream about the client. Default [`ForwardedFields::XForwarded`].
    pub forwarded: ForwardedFields,
    /// Whether `X-Forwarded-Port` is said beside the other fields of that kind: the port that the client has
    /// asked. Default no.
    pub forwarded_port: bool,
    /// What `Host` says. Default what the client said.
    pub host: HostRewrite,
    /// Whether `Via` says that there is a gateway (RFC 9110 §7.6.3). Default yes.
    pub via: bool,
    /// What else is changed. Default nothing.
    pub rewrite: Rewrite,
    /// How long to wait for what, where that is not as the upstream says.
    pub timeouts: ForwardTimeouts,
}

/// Which fields tell the upstream about the client. What the client says itself in them is not passed on; to
/// what [trusted proxies](thruway_server::TrustedProxies) say in them is added.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ForwardedFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// All of these.
    Both,
    /// None.
    None,
}

/// What `Host` says to the upstream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum HostRewrite {
    /// What the client said.
    #[default]
    Preserve,
    /// What the config calls the server: its address, or its name and port.
    Server,
    /// This.
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
