//! Properties of a connection: its client, its TLS session, and the hosts of other listeners.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use thruway_message::{Method, RequestHead};
use thruway_net::tls::{PeerCertificate, TlsAcceptor, TlsInfo};
use thruway_net::{ClientAddr, Peer};

use crate::layers::ListenerCompression;
use crate::response::Response;

/// Properties of the connection of a request.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Address of the client. It comes from the PROXY protocol if that is used, but not from headers of a
    /// request.
    pub client: ClientAddr,
    /// The other end of the connection as reported by the system, even if the PROXY protocol names another
    /// client.
    pub peer: Peer,
    /// Number of the listener that has accepted the connection, from 0.
    pub listener: usize,
    /// The address to which the client has connected. `None` for Unix sockets.
    pub destination: Option<SocketAddr>,
    /// The TLS session. `None` for plain connections.
    pub tls: Option<Arc<ConnectionTls>>,
    /// Compression of responses for this listener, unless the route overrides it.
    pub compression: ListenerCompression,
}

/// Properties of a TLS connection.
#[derive(Clone, Debug)]
pub struct ConnectionTls {
    /// The TLS session and the identity of the client.
    pub info: TlsInfo,
    /// Value of `Strict-Transport-Security` for responses.
    pub(crate) strict_transport_security: Option<Arc<str>>,
    /// Hosts that other listeners serve.
    pub(crate) other_hosts: LiveOtherHosts,
}

impl ConnectionInfo {
    /// Adds `Strict-Transport-Security` (RFC 6797 §6.1), if it is configured and `response` does not have it.
    #[inline]
    pub(crate) fn add_strict_transport_security(&self, response: &mut Response) {
        let told = self.tls.as_ref().and_then(|tls| tls.strict_transport_security.as_ref());
        if let Some(value) = told
            && response.field("strict-transport-security").is_none()
        {
            // Checked when the listener was created.
            let _ = response.append_field("Strict-Transport-Security", &**value);
        }
    }

    /// `true` if the connection may carry requests for `scheme`, which a request names in its absolute form
    /// or in `:scheme` (RFC 9110 §4.2, §7.4). Only `http` and `https` name resources of this server. A
    /// connection without TLS carries `https` only if a proxy that the server trusts may have ended the TLS
    /// connection.
    pub(crate) fn serves_scheme(&self, scheme: &str, may_have_ended_tls: bool) -> bool {
        scheme.eq_ignore_ascii_case("http")
            || (scheme.eq_ignore_ascii_case("https") && (self.tls.is_some() || may_have_ended_tls))
    }

    /// `true` if another listener serves the host of a request, for clients with other certificates.
    #[inline]
    pub(crate) fn is_other_host(&self, head: &RequestHead<'_>) -> bool {
        let Some(tls) = &self.tls else { return false };
        tls.other_hosts.load().as_ref().is_some_and(|other_hosts| {
            // A CONNECT request names the destination of the tunnel, not this server.
            let authority = head.authority().filter(|_| head.method != Method::Connect);
            authority.is_some_and(|authority| other_hosts.has(authority.host()))
        })
    }

    /// Returns the scheme of the connection.
    pub const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the TLS session, if any.
    pub fn tls(&self) -> Option<&TlsInfo> {
        self.tls.as_ref().map(|tls| &tls.info)
    }

    /// Returns the verified client certificate, if any.
    pub fn client_certificate(&self) -> Option<&PeerCertificate> {
        self.tls()?.peer_certificate.as_ref()
    }
}

/// Hosts that other listeners serve. All connections of a listener share this value, including connections
/// from before a reload.
pub(crate) type LiveOtherHosts = Arc<ArcSwapOption<OtherHosts>>;

/// Hosts of other listeners that require other client certificates.
#[derive(Debug)]
pub(crate) struct OtherHosts {
    pub(crate) own: Arc<TlsAcceptor>,
    pub(crate) others: Vec<Arc<TlsAcceptor>>,
}

impl OtherHosts {
    /// Returns `true` if another listener serves `host`.
    pub(crate) fn has(&self, host: &str) -> bool {
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let own = self.own.match_of(&name);
        self.others.iter().any(|other| other.match_of(&name) > own)
    }
}
