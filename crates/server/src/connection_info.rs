//! What is known of a connection: its client, its TLS session, and the hosts that other listeners serve.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use thruway_message::{Method, RequestHead};
use thruway_net::tls::{PeerCertificate, TlsAcceptor, TlsInfo};
use thruway_net::{ClientAddr, Peer};

use crate::layers::ListenerCompression;
use crate::response::Response;

/// What is known of the connection on which a request came.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Who sent it: the other end of the connection, not what a field says.
    pub client: ClientAddr,
    /// The other end of the connection as the system reports it, whatever a header of the PROXY protocol
    /// says.
    pub peer: Peer,
    /// Which of the server's listeners accepted the connection, from 0.
    pub listener: usize,
    /// Where the client has connected to: the other half of `client`. `None` for Unix sockets.
    pub destination: Option<SocketAddr>,
    /// There if TLS is spoken.
    pub tls: Option<Arc<ConnectionTls>>,
    /// How responses are compressed here, where nothing else is said of that.
    pub compression: ListenerCompression,
}

/// What is known of a connection in TLS.
#[derive(Clone, Debug)]
pub struct ConnectionTls {
    /// What was agreed upon, and who the client has shown to be.
    pub info: TlsInfo,
    /// What answers say in `Strict-Transport-Security`.
    pub(crate) strict_transport_security: Option<Arc<str>>,
    /// What is not to be asked for on it.
    pub(crate) elsewhere: LiveElsewhere,
}

impl ConnectionInfo {
    /// Has clients of TLS told to come by it only (RFC 6797 §6.1), where that is wanted and `response` says
    /// nothing of it.
    #[inline]
    pub(crate) fn add_strict_transport_security(&self, response: &mut Response) {
        let told = self.tls.as_ref().and_then(|tls| tls.strict_transport_security.as_ref());
        if let Some(value) = told
            && response.field("strict-transport-security").is_none()
        {
            // Checked when the listener was made.
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
    pub(crate) fn is_host_elsewhere(&self, head: &RequestHead<'_>) -> bool {
        let Some(tls) = &self.tls else { return false };
        tls.elsewhere.load().as_ref().is_some_and(|elsewhere| {
            // Who wants a tunnel names its end, and not whom it asks.
            let authority = head.authority().filter(|_| head.method != Method::Connect);
            authority.is_some_and(|authority| elsewhere.has(authority.host()))
        })
    }

    /// The scheme that is spoken on it.
    pub const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// What is known of TLS, if that is spoken.
    pub fn tls(&self) -> Option<&TlsInfo> {
        self.tls.as_ref().map(|tls| &tls.info)
    }

    /// The certificate that the client has shown, if it has: it was verified.
    pub fn client_certificate(&self) -> Option<&PeerCertificate> {
        self.tls()?.peer_certificate.as_ref()
    }
}

/// The hosts that are served elsewhere now, as all connections of a listener see it: those, too, that were
/// accepted before a reload.
pub(crate) type LiveElsewhere = Arc<ArcSwapOption<Elsewhere>>;

/// Hosts that are served elsewhere, where clients must show other certificates.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    pub(crate) own: Arc<TlsAcceptor>,
    pub(crate) others: Vec<Arc<TlsAcceptor>>,
}

impl Elsewhere {
    /// Whether `host` is one of them.
    pub(crate) fn has(&self, host: &str) -> bool {
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let own = self.own.match_of(&name);
        self.others.iter().any(|other| other.match_of(&name) > own)
    }
}
