//! The peer listener, on which the replicas of a fleet forward requests to each other.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::UpstreamTls;
use thruway_net::tls::{
    CertificateError, ClientAuthentication, Roots, TlsAcceptor, TlsAcceptorConfig, TlsConnector,
    TlsConnectorConfig, TlsVersion,
};
use thruway_server::{InvalidListenAddr, ListenAddr};

use crate::config::resolver::{Resolver, refuse_certificate, resolve_all_relative_to_config};
use crate::config::tls::{RawCertificate, resolve_certificate, resolve_server_name};
use crate::config::values::{Span, Spanned};
use crate::config::{ListenerConfig, ListenerTlsConfig, is_listed};

/// Settings of the peer listener, and of the connections to other replicas.
#[derive(Clone)]
pub(crate) struct PeerConfig {
    pub(crate) listener: ListenerConfig,
    /// The address that other replicas use, as `HOST:PORT`. `None` if they use the address of the listener.
    pub(crate) address: Option<String>,
    /// TLS of the connections to other replicas. `None` only on a loopback address.
    pub(crate) tls: Option<UpstreamTls>,
    /// Position of the address in the file.
    span: Span,
}

impl PeerConfig {
    /// Returns `true` if a running replica can keep its peer listener.
    pub(in crate::config) fn is_same_as(&self, other: &Self) -> bool {
        let acceptor = |config: &Self| config.listener.tls.as_ref().map(|tls| tls.acceptor.clone());
        self.listener.address == other.listener.address
            && self.address == other.address
            && self.tls == other.tls
            && acceptor(self) == acceptor(other)
    }
}

/// Mutual TLS between the replicas of a fleet. Each replica uses its certificate as a server and as a client.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawPeerTls {
    /// Certificate of this replica. It must be valid for servers and for clients.
    pub(in crate::config) certificate: RawCertificate,
    /// PEM files with the root certificates that have signed the certificates of all replicas. Risk: every program
    /// with such a certificate can connect to the listener. It still needs the `key` of the fleet to send a request.
    pub(in crate::config) roots: Spanned<Vec<PathBuf>>,
    /// Name that the certificate of each replica must contain. Default: the IP address in `peer_address`.
    pub(in crate::config) server_name: Option<Spanned<String>>,
}

/// The keys about peers in the table `shared`.
pub(in crate::config) struct RawPeers {
    pub(in crate::config) listen: Option<Spanned<String>>,
    pub(in crate::config) address: Option<Spanned<String>>,
    pub(in crate::config) tls: Option<Spanned<RawPeerTls>>,
}

pub(in crate::config) fn resolve_peers(resolver: &mut Resolver<'_>, raw: RawPeers) -> Option<PeerConfig> {
    let RawPeers { listen, address, tls } = raw;
    let Some(listen) = listen else {
        let span = address.map(|address| address.span()).or_else(|| tls.map(|tls| tls.span()));
        if let Some(span) = span {
            resolver.refuse_at(&span, "this key requires `peer_listen`");
        }
        return None;
    };
    let mut listener = match listen.get_ref().parse::<ListenAddr>() {
        Ok(parsed @ ListenAddr::Tcp(_)) => ListenerConfig::at(parsed),
        Ok(ListenAddr::Unix(_)) => {
            resolver.refuse_with(&listen, "other replicas cannot reach a Unix socket", LISTEN_HINT);
            return None;
        }
        Err(error) => {
            resolver.refuse_with(&listen, error, InvalidListenAddr::HINT);
            return None;
        }
    };
    if tls.is_none() && listener.address.is_remote() {
        let message = format!("other machines can reach `{}`, but there is no `peer_tls`", listener.address);
        resolver.refuse_with(&listen, message, TLS_HINT);
    }
    let is_unspecified =
        matches!(&listener.address, ListenAddr::Tcp(address) if address.ip().is_unspecified());
    if is_unspecified && address.is_none() {
        let message = format!("other replicas cannot connect to `{}`", listener.address);
        resolver.refuse_with(&listen, message, LISTEN_HINT);
    }
    if let Some(address) = address.as_ref().filter(|address| !is_address(address.get_ref())) {
        resolver.refuse_with(address, "this is not `HOST:PORT`", LISTEN_HINT);
    }
    let tls = tls.and_then(|tls| resolve_peer_tls(resolver, tls));
    let (acceptor, tls) = tls.unzip();
    listener.tls = acceptor;
    Some(PeerConfig { listener, address: address.map(Spanned::into_inner), tls, span: listen.span() })
}

/// Refuses a peer listener with the address of another listener.
pub(in crate::config) fn check_peer_address(
    resolver: &mut Resolver<'_>,
    peers: Option<&PeerConfig>,
    listeners: &[ListenerConfig],
) {
    let Some(PeerConfig { listener, span, .. }) = peers else { return };
    if is_listed(listeners.iter().map(ListenerConfig::address), &listener.address) {
        let message = format!("another listener has the address `{}`", listener.address);
        let failure = resolver.source.failure(span.clone(), message);
        resolver.failures.push(failure.with_hint("choose another address for the peer listener"));
    }
}

fn resolve_peer_tls(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawPeerTls>,
) -> Option<(ListenerTlsConfig, UpstreamTls)> {
    let span = raw.span();
    let RawPeerTls { certificate, roots, server_name } = raw.into_inner();
    resolver.refuse_empty(&roots, "`roots` needs at least one file", ROOTS_HINT);
    let roots = resolve_all_relative_to_config(resolver, &roots);
    if roots.is_empty() {
        return None;
    }
    let certificate = resolve_certificate(resolver, certificate);
    let server_name = server_name.and_then(|text| resolve_server_name(resolver, &text));
    let acceptor = TlsAcceptor::load(TlsAcceptorConfig {
        min_version: TlsVersion::Tls13,
        client_authentication: ClientAuthentication::Required(roots.clone()),
        ..TlsAcceptorConfig::new(vec![certificate.clone()])
    });
    let connector = TlsConnector::load(TlsConnectorConfig {
        roots: Roots::Files(roots),
        client_certificate: Some(certificate),
        min_version: TlsVersion::Tls13,
        ..TlsConnectorConfig::default()
    });
    let mut or_refuse = |error: CertificateError| refuse_certificate(resolver, &span, &error);
    let acceptor = Arc::new(acceptor.map_err(&mut or_refuse).ok()?);
    let connector = Arc::new(connector.map_err(&mut or_refuse).ok()?);
    let listener = ListenerTlsConfig {
        acceptor,
        strict_transport_security: None,
        ocsp_stapling: false,
        internal: Vec::new(),
        span,
    };
    Some((listener, UpstreamTls { connector, server_name }))
}

/// Returns `true` if `text` is `HOST:PORT`, without a lookup of the host.
fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
}

const LISTEN_HINT: &str = "write an address that the other replicas reach, as in `peer_listen = \"10.0.0.5:9300\"`, or `peer_listen = \"0.0.0.0:9300\"` and `peer_address = \"10.0.0.5:9300\"`";
const TLS_HINT: &str = "add `peer_tls = { certificate = { chain = \"…\", key = \"…\" }, roots = [\"…\"] }`";
const ROOTS_HINT: &str =
    "list the certificate of the authority that has signed the certificates of all replicas";
