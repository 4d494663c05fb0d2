//! Properties of a connection: its client, its TLS session, and the hosts that other listeners serve.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use thruway_message::{Method, RequestHead};
#[cfg(feature = "tls")]
use thruway_net::tls::TlsAcceptor;
use thruway_net::tls::{PeerCertificate, TlsInfo};
use thruway_net::{ClientAddr, Peer};

#[cfg(feature = "compression")]
use crate::layers::ListenerCompression;
use crate::response::Response;

/// Properties of a connection. Handlers of its requests can read them.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Address of the client. If the listener uses the PROXY protocol, the address comes from its header.
    /// Request headers do not change it.
    pub client: ClientAddr,
    /// The other end of the connection as the operating system reports it, even if the PROXY protocol names
    /// another client.
    pub peer: Peer,
    /// Number of the listener that has accepted the connection, counted from 0.
    pub listener: usize,
    /// The address to which the client has connected. `None` for Unix sockets.
    pub destination: Option<SocketAddr>,
    /// The TLS session. `None` for plain connections.
    pub tls: Option<Arc<ConnectionTls>>,
    /// Compression settings of the listener, for routes with the layer
    /// [`ByListener`](crate::layers::ByListener).
    #[cfg(feature = "compression")]
    pub compression: ListenerCompression,
    /// Settings of the listener for handlers, from [`Listener::handler_settings`](crate::Listener::handler_settings).
    pub handler_settings: Option<Arc<dyn Any + Send + Sync>>,
}

/// Properties of a TLS connection.
#[derive(Clone, Debug)]
pub struct ConnectionTls {
    /// The TLS session and the identity of the client.
    pub info: TlsInfo,
    /// Value of the header `Strict-Transport-Security` in responses, if configured.
    pub(crate) strict_transport_security: Option<Arc<str>>,
    /// Hosts that other listeners serve.
    pub(crate) other_hosts: LiveOtherHosts,
}

impl ConnectionTls {
    /// Returns `true` if the requested host belongs to another listener.
    fn is_other_host(&self, head: &RequestHead<'_>) -> bool {
        self.other_hosts.load().as_ref().is_some_and(|other_hosts| {
            // A CONNECT request names the destination of the tunnel, not this server.
            let authority = head.authority().filter(|_| head.method != Method::Connect);
            authority.is_some_and(|authority| other_hosts.has(authority.host()))
        })
    }

    /// Adds `Strict-Transport-Security` (RFC 6797 §6.1), if it is configured and `response` does not have it.
    pub(crate) fn add_strict_transport_security(&self, response: &mut Response) {
        if let Some(value) = &self.strict_transport_security
            && response.field("strict-transport-security").is_none()
        {
            // Cannot fail, because the value was checked when the listener was created.
            let _ = response.append_field("Strict-Transport-Security", &**value);
        }
    }
}

impl ConnectionInfo {
    /// Returns `true` if the server accepts requests for `scheme` on this connection (RFC 9110 §4.2, §7.4). A
    /// request names its scheme in an absolute-form target or in `:scheme`. The server accepts `http` on all
    /// connections, and `https` on TLS connections. If `may_have_ended_tls` is `true`, the server also
    /// accepts `https` on plain connections, because a proxy may decrypt TLS and forward plain HTTP.
    pub(crate) fn serves_scheme(&self, scheme: &str, may_have_ended_tls: bool) -> bool {
        scheme.eq_ignore_ascii_case("http")
            || (scheme.eq_ignore_ascii_case("https") && (self.tls.is_some() || may_have_ended_tls))
    }

    /// Returns `true` if the requested host belongs to another listener, according to [`LiveOtherHosts`].
    /// Such a listener requires other client certificates than this listener.
    #[inline]
    pub(crate) fn is_other_host(&self, head: &RequestHead<'_>) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_other_host(head))
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

/// Hosts that other listeners serve. All connections of a listener share this value. After a reload, the new
/// value also applies to existing connections.
pub(crate) type LiveOtherHosts = Arc<ArcSwapOption<OtherHosts>>;

/// The TLS acceptors that decide if a host belongs to this listener or to another one. `own` belongs to this
/// listener. `others` belong to the listeners that require other client certificates.
#[cfg(feature = "tls")]
#[derive(Debug)]
pub(crate) struct OtherHosts {
    pub(crate) own: Arc<TlsAcceptor>,
    pub(crate) others: Vec<Arc<TlsAcceptor>>,
}

/// Without the feature `tls`, all hosts belong to all listeners.
#[cfg(not(feature = "tls"))]
#[derive(Debug)]
pub(crate) enum OtherHosts {}

#[cfg(not(feature = "tls"))]
impl OtherHosts {
    const fn has(&self, _: &str) -> bool {
        match *self {}
    }
}

#[cfg(feature = "tls")]
impl OtherHosts {
    /// Returns `true` if the certificates of another listener match `host` better than the certificates of
    /// this listener.
    pub(crate) fn has(&self, host: &str) -> bool {
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let own = self.own.match_of(&name);
        self.others.iter().any(|other| other.match_of(&name) > own)
    }
}
