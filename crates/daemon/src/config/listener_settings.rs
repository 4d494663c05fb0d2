//! The validated settings of listeners.

use std::sync::Arc;

use thruway_certificates::local_ca::LocalCertificate;
use thruway_gateway::{ErrorPages, ListenerSettings, ResponseRules, TcpConfig};
use thruway_server::layers::ListenerCompression;
use thruway_server::{FieldValue, ListenAddr, Listener, ProxyProtocol, TlsAcceptor};

use super::values::Span;
use crate::acme::challenges;

/// Address and settings of a listener.
#[derive(Clone)]
pub(crate) struct ListenerConfig {
    pub(crate) address: ListenAddr,
    /// Name to which routes refer.
    pub(crate) name: Option<String>,
    /// Rules for the PROXY protocol header. `None` if connections begin without this header.
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    /// Versions of HTTP that the listener accepts.
    pub(crate) http2: Http2,
    /// Forwarding of TCP connections. `None` for HTTP.
    pub(crate) tcp: Option<TcpListenerConfig>,
    pub(crate) tls: Option<ListenerTlsConfig>,
    /// The redirect of all requests to an HTTPS port. `None` if the listener does not redirect requests.
    pub(crate) redirect_to_https: Option<HttpsRedirect>,
    /// Compression of responses on routes that do not set `compression`.
    pub(crate) compression: ListenerCompression,
    /// Changes to the headers of all responses. `None` if there are no changes.
    pub(crate) response_rules: Option<Arc<ResponseRules>>,
    /// Pages for error responses. `None` if there are no pages.
    pub(crate) error_pages: Option<Arc<ErrorPages>>,
    /// `true` if the listener responds to `http-01` challenges of ACME servers.
    pub(crate) answers_challenges: bool,
}

/// A redirect of all requests to `https`.
#[derive(Clone)]
pub(crate) struct HttpsRedirect {
    pub(crate) port: u16,
    pub(crate) span: Span,
}

/// TLS settings of a listener.
#[derive(Clone)]
pub(crate) struct ListenerTlsConfig {
    pub(crate) acceptor: Arc<TlsAcceptor>,
    pub(crate) strict_transport_security: Option<String>,
    /// `true` if Thruway fetches OCSP responses for the certificates.
    pub(crate) ocsp_stapling: bool,
    /// Certificates that the local CA issues.
    pub(crate) internal: Vec<LocalCertificate>,
    pub(crate) span: Span,
}

/// Versions of HTTP for client connections or upstream connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http2 {
    No,
    /// HTTP/1.1 and HTTP/2. TLS negotiates the version. Without TLS, a connection that begins with the
    /// HTTP/2 preface uses HTTP/2.
    Too,
    /// HTTP/2 only.
    Only,
}

/// Destination of forwarded TCP connections.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TcpListenerConfig {
    /// Name of the upstream.
    pub(crate) upstream: String,
    /// Server names from TLS handshakes (SNI), each with the name of its upstream.
    pub(crate) names: Vec<(String, String)>,
    pub(crate) tcp: TcpConfig,
}

impl ListenerConfig {
    /// Returns a listener for plain HTTP/1.1 at `address`.
    pub(crate) const fn at(address: ListenAddr) -> Self {
        Self {
            address,
            name: None,
            proxy_protocol: None,
            http2: Http2::No,
            tcp: None,
            tls: None,
            redirect_to_https: None,
            compression: ListenerCompression::AsElsewhere,
            response_rules: None,
            error_pages: None,
            answers_challenges: false,
        }
    }

    pub(super) const fn address(&self) -> &ListenAddr {
        &self.address
    }

    /// Returns `true` if the listener serves plain HTTP/1.1 without any settings and without a name.
    pub(super) fn is_plain(&self) -> bool {
        let Self {
            address: _,
            name,
            proxy_protocol,
            http2,
            tcp,
            tls,
            redirect_to_https,
            compression,
            response_rules,
            error_pages,
            answers_challenges,
        } = self;
        name.is_none()
            && proxy_protocol.is_none()
            && *http2 == Http2::No
            && tcp.is_none()
            && tls.is_none()
            && redirect_to_https.is_none()
            && *compression == ListenerCompression::AsElsewhere
            && response_rules.is_none()
            && error_pages.is_none()
            && !answers_challenges
    }

    /// Returns `true` if the routes handle the requests of this listener.
    pub(crate) const fn has_routes(&self) -> bool {
        self.tcp.is_none() && self.redirect_to_https.is_none()
    }

    /// Converts this listener to a listener of the server. `all` contains all listeners of the config.
    pub(crate) fn to_listener(&self, all: &[Self]) -> Listener {
        let listener = Listener::new(self.address.clone()).compression(self.compression.clone());
        let mut listener = match self.http2 {
            Http2::No => listener,
            Http2::Too => listener.http2(),
            Http2::Only => listener.http2_only(),
        };
        if let Some(proxy_protocol) = &self.proxy_protocol {
            listener = listener.proxy_protocol(proxy_protocol.clone());
        }
        if let Some(redirect) = &self.redirect_to_https {
            listener = listener.redirect_to_https(redirect.port);
        }
        if self.name.is_some() || self.response_rules.is_some() || self.error_pages.is_some() {
            listener = listener.handler_settings(Arc::new(ListenerSettings {
                name: self.name.clone(),
                response_rules: self.response_rules.clone(),
                error_pages: self.error_pages.clone(),
            }));
        }
        if self.answers_challenges {
            listener = listener.answer_first(challenges());
        }
        let Some(tls) = &self.tls else { return listener };
        listener = listener.tls(tls.acceptor.clone()).with_other_hosts(tls.others(all));
        let strict = tls.strict_transport_security.as_ref().map(|text| FieldValue::new(text.as_bytes()));
        match strict {
            Some(Ok(value)) => listener.strict_transport_security(&value),
            _ => listener,
        }
    }
}

impl ListenerTlsConfig {
    /// Returns the TLS acceptors of those listeners in `all` that have other rules for client certificates
    /// than this listener.
    fn others(&self, all: &[ListenerConfig]) -> Vec<Arc<TlsAcceptor>> {
        let demands = |acceptor: &TlsAcceptor| acceptor.config().client_authentication.clone();
        let own = demands(&self.acceptor);
        let acceptors = all.iter().filter_map(|listener| Some(&listener.tls.as_ref()?.acceptor));
        acceptors.filter(|acceptor| demands(acceptor) != own).cloned().collect()
    }
}
