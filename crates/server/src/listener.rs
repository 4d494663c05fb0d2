//! Listeners: the addresses to listen on, and the protocols at the start of their connections.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "tls")]
use thruway_message::FieldValue;
#[cfg(feature = "tls")]
use thruway_net::tls::TlsAcceptor;
use thruway_net::{ClientAddr, ListenAddr, Networks};

#[cfg(feature = "tls")]
use crate::connection_info::{LiveOtherHosts, OtherHosts};
#[cfg(feature = "compression")]
use crate::layers::ListenerCompression;
use crate::request::Request;
use crate::response::Response;
use crate::streams::ServeStream;

/// An address to listen on, and the protocol of the connections to this address. Default: HTTP.
#[derive(Clone)]
pub struct Listener {
    pub(crate) address: ListenAddr,
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    pub(crate) tls: Option<ListenerTls>,
    pub(crate) streams: Option<Arc<dyn ServeStream>>,
    pub(crate) protocols: ListenerProtocols,
    pub(crate) redirect_to_https: Option<u16>,
    #[cfg(feature = "compression")]
    pub(crate) compression: ListenerCompression,
    pub(crate) first: Option<Arc<dyn AnswerFirst>>,
    pub(crate) handler_settings: Option<Arc<dyn Any + Send + Sync>>,
}

/// HTTP versions that a listener accepts if a connection has not negotiated the version in its TLS handshake.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum ListenerProtocols {
    #[default]
    Http1,
    /// HTTP/1.1 and HTTP/2. The first bytes of a connection determine its version.
    #[cfg(feature = "http2")]
    Both,
    #[cfg(feature = "http2")]
    Http2,
}

/// TLS settings of a listener.
#[cfg(feature = "tls")]
#[derive(Clone)]
pub(crate) struct ListenerTls {
    pub(crate) acceptor: Arc<TlsAcceptor>,
    pub(crate) strict_transport_security: Option<Arc<str>>,
    pub(crate) other_hosts: LiveOtherHosts,
}

/// Without the feature `tls`, no listener has TLS settings.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(crate) enum ListenerTls {}

/// A handler that can answer requests of a listener before redirects and routes apply. Use it for resources
/// that must be reachable on every listener.
pub trait AnswerFirst: Send + Sync + 'static {
    /// Returns a response, or `None` to pass the request on to the redirect and the handler of the server.
    fn answer(&self, request: &Request<'_>) -> Option<Response>;
}

/// Settings of the PROXY protocol. Each connection must begin with a PROXY header of version 1 or 2, which
/// contains the client address. The header must arrive within
/// [`header_section`](crate::Timeouts::header_section). Connections without this header are closed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ProxyProtocol {
    /// Networks from which PROXY headers are accepted. Connections from other networks are closed before any
    /// byte is read. Default: empty, so that headers are accepted from all networks. With this default, make
    /// sure that only proxies can reach the listener, because any other client can forge its address. Headers
    /// over a Unix socket are always accepted.
    pub from: Networks,
}

impl Listener {
    /// Creates an HTTP listener at `address`.
    pub const fn new(address: ListenAddr) -> Self {
        Self {
            address,
            proxy_protocol: None,
            tls: None,
            streams: None,
            protocols: ListenerProtocols::Http1,
            redirect_to_https: None,
            #[cfg(feature = "compression")]
            compression: ListenerCompression::AsElsewhere,
            first: None,
            handler_settings: None,
        }
    }

    /// Expects a PROXY protocol header at the start of each connection. The header contains the address of
    /// the [client](crate::ConnectionInfo::client).
    #[must_use]
    pub fn proxy_protocol(self, proxy_protocol: ProxyProtocol) -> Self {
        Self { proxy_protocol: Some(proxy_protocol), ..self }
    }

    /// Accepts only TLS connections. If the listener uses the PROXY protocol, TLS begins after the PROXY
    /// header. The handshake must end within [`header_section`](crate::Timeouts::header_section). The server
    /// does not decrypt connections that it passes to [`streams`](Self::streams). The protocol `h2` (ALPN) needs
    /// the feature `http2`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(self, acceptor: Arc<TlsAcceptor>) -> Self {
        let other_hosts = LiveOtherHosts::default();
        Self { tls: Some(ListenerTls { acceptor, strict_transport_security: None, other_hosts }), ..self }
    }

    /// Adds the header `Strict-Transport-Security` (RFC 6797) to responses over TLS, unless a response
    /// already contains it. `value` is the value of the header, such as `max-age=31536000`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn strict_transport_security(mut self, value: &FieldValue<'_>) -> Self {
        if let Some(tls) = &mut self.tls {
            tls.strict_transport_security = Some(String::from_utf8_lossy(value.as_bytes()).into());
        }
        self
    }

    /// Responds 421 (RFC 9110 §15.5.20) to requests for hosts that belong to other listeners. `others` are
    /// the TLS acceptors of those listeners. A host belongs to another listener if that listener has a
    /// certificate for the host, and this listener has none. If both have a certificate, one with the exact
    /// name takes precedence over a wildcard. Pass the acceptors of all listeners that require other client
    /// certificates. Otherwise, clients of this listener could reach those hosts without such a certificate.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_other_hosts(self, others: Vec<Arc<TlsAcceptor>>) -> Self {
        if let Some(tls) = &self.tls {
            let own = tls.acceptor.clone();
            let other_hosts = (!others.is_empty()).then(|| Arc::new(OtherHosts { own, others }));
            tls.other_hosts.store(other_hosts);
        }
        self
    }

    /// Also accepts HTTP/2 on connections without TLS (RFC 9113 §3.3). The first bytes of a connection
    /// determine the HTTP version.
    #[cfg(feature = "http2")]
    #[must_use]
    pub fn http2(self) -> Self {
        Self { protocols: ListenerProtocols::Both, ..self }
    }

    /// Accepts only HTTP/2. Closes connections that do not begin with the HTTP/2 preface.
    #[cfg(feature = "http2")]
    #[must_use]
    pub fn http2_only(self) -> Self {
        Self { protocols: ListenerProtocols::Http2, ..self }
    }

    /// Redirects all requests (308) to the same URL with `https` and this port. Has no effect on a listener
    /// with TLS.
    #[must_use]
    pub fn redirect_to_https(self, port: u16) -> Self {
        Self { redirect_to_https: Some(port), ..self }
    }

    /// Sets the compression of responses on this listener. Only routes with the layer
    /// [`ByListener`](crate::layers::ByListener) use this setting.
    #[cfg(feature = "compression")]
    #[must_use]
    pub fn compression(self, compression: ListenerCompression) -> Self {
        Self { compression, ..self }
    }

    /// Sets a value that handlers read from [`ConnectionInfo`](crate::ConnectionInfo), such as settings that
    /// differ between listeners. Existing connections keep the value with which they were accepted.
    #[must_use]
    pub fn handler_settings(self, settings: Arc<dyn Any + Send + Sync>) -> Self {
        Self { handler_settings: Some(settings), ..self }
    }

    /// Lets `first` answer requests before the redirect to `https` and before the handler of the server.
    #[must_use]
    pub fn answer_first(self, first: Arc<dyn AnswerFirst>) -> Self {
        Self { first: Some(first), ..self }
    }

    /// Passes connections to `streams` instead of reading HTTP requests from them.
    #[must_use]
    pub fn streams(self, streams: Arc<dyn ServeStream>) -> Self {
        Self { streams: Some(streams), ..self }
    }

    /// Returns this listener as the replacement of the listener `before`. Existing connections of `before`
    /// then also use the setting [`with_other_hosts`](Self::with_other_hosts) of this listener.
    #[cfg_attr(not(feature = "tls"), expect(unused, reason = "only TLS settings are shared"))]
    pub(crate) fn in_place_of(mut self, before: &Self) -> Self {
        #[cfg(feature = "tls")]
        if let (Some(tls), Some(before)) = (&mut self.tls, &before.tls) {
            before.other_hosts.store(tls.other_hosts.load_full());
            tls.other_hosts = before.other_hosts.clone();
        }
        self
    }

    pub(crate) const fn has_streams(&self) -> bool {
        self.streams.is_some()
    }

    /// Returns `true` if the client sends the first bytes of each connection. The protocols behind `streams`
    /// are unknown, and in some of them, the server speaks first.
    pub(crate) const fn client_speaks_first(&self) -> bool {
        self.streams.is_none() || self.proxy_protocol.is_some()
    }

    /// Returns the listener with the actual address, in which the system has replaced port 0.
    pub(crate) fn at(self, address: &ListenAddr) -> Self {
        Self { address: address.clone(), ..self }
    }
}

impl ProxyProtocol {
    pub(crate) fn believes(&self, client: ClientAddr) -> bool {
        self.from.is_empty() || client == ClientAddr::Unix || self.from.contains(client)
    }
}

impl From<ListenAddr> for Listener {
    fn from(address: ListenAddr) -> Self {
        Self::new(address)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}
