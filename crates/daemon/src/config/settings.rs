//! The validated settings of a daemon. Reading them from a file is not here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thruway_certificates::acme::Wanted;
use thruway_gateway::{
    ConnectConfig, ForwardConfig, PathMatch, PathReadings, PolicyConfig, Redirect, RouteMatch, TcpConfig,
    UpstreamConfig,
};
use thruway_server::layers::{Compression, ListenerCompression};
use thruway_server::{
    AccessLogFormat, AccessLogLines, AccessLogTarget, FieldLinesBuf, FieldValue, Files, Handler,
    InvalidListenAddr, ListenAddr, Listener, ProxyProtocol, StatusCode, TlsAcceptor,
};

use super::failure::{Failure, Source};
use super::forward::ForwardAction;
use super::values::Span;
use crate::acme::challenges;

/// The validated settings of a daemon: read from a file, or made in code.
pub struct Config {
    pub(crate) listeners: Vec<ListenerConfig>,
    pub(crate) routes: Vec<Route>,
    pub(crate) upstreams: Upstreams,
    /// Forwarding settings by upstream.
    pub(crate) forwards: BTreeMap<String, ForwardConfig>,
    /// Names of the upstreams without a healthy server of which `/ready` answers 503.
    pub(crate) required_for_ready: BTreeSet<String>,
    /// Treatment of ambiguous paths.
    pub(crate) readings: PathReadings,
    pub(crate) policies: Policies,
    /// The certificates to order, if an ACME server is configured.
    pub(crate) acme: Option<Wanted>,
    pub(crate) admin: Option<AdminConfig>,
    pub(crate) access_log: Option<AccessLogConfig>,
    /// `None` for one for each core.
    pub(crate) workers: Option<usize>,
    /// `None` for as many as descriptors allow.
    pub(crate) connections_max: Option<usize>,
    /// `true` if the sends of a worker are batched.
    pub(crate) batch_sends: bool,
    /// Limits and timeouts.
    pub(crate) server: thruway_server::Config,
    pub(super) source: Option<Source>,
    pub(super) places: Places,
}

/// Address and settings of a listener.
#[derive(Clone)]
pub(crate) struct ListenerConfig {
    pub(crate) address: ListenAddr,
    /// The PROXY protocol of its connections.
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    /// HTTP/2 without negotiation.
    pub(crate) http2: Http2,
    /// Forwarding of TCP connections. `None` for HTTP.
    pub(crate) tcp: Option<TcpListenerConfig>,
    /// TLS, if any.
    pub(crate) tls: Option<ListenerTlsConfig>,
    /// The port with TLS to which the listener redirects all requests.
    pub(crate) redirect_to_https: Option<HttpsRedirect>,
    /// Compression of routes without a setting of their own.
    pub(crate) compression: ListenerCompression,
    /// `true` if it responds to challenges of ACME servers.
    pub(crate) answers_challenges: bool,
}

/// A redirect of all requests to `https`.
#[derive(Clone)]
pub(crate) struct HttpsRedirect {
    pub(crate) port: u16,
    pub(crate) span: Span,
}

/// TLS of a listener.
#[derive(Clone)]
pub(crate) struct ListenerTlsConfig {
    pub(crate) acceptor: Arc<TlsAcceptor>,
    pub(crate) strict_transport_security: Option<String>,
    /// `true` if OCSP responses are fetched.
    pub(crate) ocsp_stapling: bool,
    pub(crate) span: Span,
}

/// HTTP/2 without negotiation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http2 {
    No,
    /// HTTP/1.1, and HTTP/2 for connections that begin with its preface.
    Too,
    /// HTTP/2 only.
    Only,
}

/// Destination of forwarded TCP connections.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TcpListenerConfig {
    /// The name of the upstream.
    pub(crate) upstream: String,
    /// Names of servers that clients of TLS ask for, and the names of their upstreams.
    pub(crate) names: Vec<(String, String)>,
    pub(crate) tcp: TcpConfig,
}

/// A route: the requests that it matches, its policies, and its action.
pub struct Route {
    pub(crate) matching: RouteMatch,
    /// The names of its policies, in the order in which they decide.
    pub(crate) policies: Vec<String>,
    /// Compression of its responses. `None` for none.
    pub(crate) compression: Option<Compression>,
    /// `true` if the route overrides its listeners.
    pub(crate) is_compression_own: bool,
    pub(crate) action: Action,
    pub(crate) span: Span,
}

pub(crate) enum Action {
    Answer(FixedAnswer),
    Connect(ConnectConfig),
    Demo,
    Files(FilesConfig),
    Forward(Box<ForwardAction>),
    /// A handler of the program that embeds the daemon.
    Handler(Arc<dyn Handler>),
    /// The MCP endpoint of the demo.
    Mcp,
    Redirect(Redirect),
}

/// Upstreams by their names.
pub(crate) type Upstreams = BTreeMap<String, UpstreamConfig>;

/// Policies by their names.
pub(crate) type Policies = BTreeMap<String, PolicyConfig>;

/// A fixed response. Its memory is used until the process ends and never freed, so that workers share it
/// without copies and reference counts.
#[derive(Clone)]
pub(crate) struct FixedAnswer {
    pub(crate) status: StatusCode,
    pub(crate) field_lines: FieldLinesBuf,
    pub(crate) content: &'static str,
}

/// A directory to be served.
pub(crate) struct FilesConfig {
    pub(super) root: PathBuf,
    pub(super) index: Option<String>,
    pub(super) precompressed: bool,
    pub(super) hidden_files: bool,
    pub(super) cache_control: Option<String>,
}

/// Settings of the admin listener.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AdminConfig {
    pub(crate) address: ListenAddr,
    /// `true` if other machines may reach it, under any name.
    pub(crate) allow_remote: bool,
}

pub(crate) struct AccessLogConfig {
    pub(crate) lines: AccessLogLines,
    pub(crate) target: AccessLogTarget,
    pub(crate) span: Span,
}

impl Config {
    /// Returns the config of the test server.
    pub(crate) fn demo() -> Self {
        let everything = RouteMatch::at(PathMatch::Prefix("/".to_owned()));
        let demo = Route {
            matching: everything,
            policies: Vec::new(),
            compression: None,
            is_compression_own: false,
            action: Action::Demo,
            span: 0..0,
        };
        let listener = ListenerConfig::at(ListenAddr::Tcp(([127, 0, 0, 1], 8080).into()));
        Self { listeners: vec![listener], routes: vec![demo], ..Self::default() }
    }

    /// Replaces the addresses of the listeners. The settings of a single listener, such as TLS, hold at each
    /// of `addresses`.
    ///
    /// # Errors
    /// An address is invalid, or there are several listeners and one of them has settings. It would
    /// be unclear which address gets the settings, and an address without them could serve plain HTTP instead
    /// of TLS.
    pub(crate) fn listen_at(&mut self, addresses: &[String]) -> Result<(), Failure> {
        let addresses = parse_listeners(addresses)?;
        let listener = match &self.listeners[..] {
            [listener] => listener.clone(),
            several if several.iter().all(ListenerConfig::is_plain) => {
                ListenerConfig::at(ListenAddr::Tcp(([127, 0, 0, 1], 0).into()))
            }
            several => {
                let message =
                    format!("`--listen` cannot replace the {} listeners of the config", several.len());
                return Err(Failure::new(message).with_hint(LISTEN_HINT));
            }
        };
        self.listeners =
            addresses.into_iter().map(|address| ListenerConfig { address, ..listener.clone() }).collect();
        Ok(())
    }

    /// The keys that a running server cannot change, and that are others in `other`.
    pub(crate) fn fixed_changes(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        [
            ("workers", self.workers != other.workers),
            ("batch_sends", self.batch_sends != other.batch_sends),
            ("admin", self.admin != other.admin),
        ]
        .into_iter()
        .filter_map(|(key, is_changed)| is_changed.then_some(key))
    }

    /// `FILE:LINE` of `span`.
    pub(crate) fn place(&self, span: &Span) -> String {
        self.source.as_ref().map_or_else(String::new, |source| source.place(span))
    }

    /// Returns a failure at `span` of the file that refers to `other`, with a `label`.
    pub(crate) fn failure_between(&self, span: &Span, message: &str, other: &Span, label: &str) -> Failure {
        match &self.source {
            Some(source) => source.failure_between(span, message, other, label),
            None => Failure::new(message),
        }
    }

    /// A warning at `span` of the file.
    pub(super) fn warning_at(&self, span: &Span, message: impl fmt::Display) -> Failure {
        match &self.source {
            Some(source) => source.warning(span.clone(), message),
            None => Failure::warning(message),
        }
    }

    /// A warning about one of the servers of an upstream, by its place.
    pub(crate) fn warning_at_server(
        &self,
        upstream: &str,
        server: usize,
        message: impl fmt::Display,
    ) -> Failure {
        let places = self.places.upstreams.get(upstream);
        let span = places.and_then(|places| places.servers.get(server)).cloned().unwrap_or_default();
        self.warning_at(&span, message)
    }

    /// An error about one of the servers of an upstream, by its place.
    pub(super) fn failure_at_server(
        &self,
        upstream: &str,
        server: usize,
        message: impl fmt::Display,
    ) -> Failure {
        let places = self.places.upstreams.get(upstream);
        let span = places.and_then(|places| places.servers.get(server)).cloned().unwrap_or_default();
        self.failure_at(&span, message)
    }

    /// Returns a failure at `span` of the file.
    pub(crate) fn failure_at(&self, span: &Span, message: impl fmt::Display) -> Failure {
        match &self.source {
            Some(source) => source.failure(span.clone(), message),
            None => Failure::new(message),
        }
    }
}

/// Returns `true` if there is already a listener at `address`. With port 0, the system chooses another port
/// each time.
pub(super) fn is_listed<'a>(
    listeners: impl IntoIterator<Item = &'a ListenAddr>,
    address: &ListenAddr,
) -> bool {
    let is_port_open = matches!(address, ListenAddr::Tcp(address) if address.port() == 0);
    !is_port_open && listeners.into_iter().any(|listener| listener == address)
}

impl ListenerConfig {
    /// HTTP at `address`.
    pub(super) const fn at(address: ListenAddr) -> Self {
        Self {
            address,
            proxy_protocol: None,
            http2: Http2::No,
            tcp: None,
            tls: None,
            redirect_to_https: None,
            compression: ListenerCompression::AsElsewhere,
            answers_challenges: false,
        }
    }

    pub(super) const fn address(&self) -> &ListenAddr {
        &self.address
    }

    /// Returns `true` if the listener serves plain HTTP/1.1 without any settings.
    fn is_plain(&self) -> bool {
        let Self {
            address: _,
            proxy_protocol,
            http2,
            tcp,
            tls,
            redirect_to_https,
            compression,
            answers_challenges,
        } = self;
        proxy_protocol.is_none()
            && *http2 == Http2::No
            && tcp.is_none()
            && tls.is_none()
            && redirect_to_https.is_none()
            && *compression == ListenerCompression::AsElsewhere
            && !answers_challenges
    }

    /// Returns `true` if routes answer requests to this listener.
    pub(super) const fn has_routes(&self) -> bool {
        self.tcp.is_none() && self.redirect_to_https.is_none()
    }

    /// Returns the server's form of this listener, which is one of `all`.
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
    /// Returns the TLS acceptors of the listeners in `all` that have different rules for client certificates.
    fn others(&self, all: &[ListenerConfig]) -> Vec<Arc<TlsAcceptor>> {
        let demands = |acceptor: &TlsAcceptor| acceptor.config().client_authentication.clone();
        let own = demands(&self.acceptor);
        let acceptors = all.iter().filter_map(|listener| Some(&listener.tls.as_ref()?.acceptor));
        acceptors.filter(|acceptor| demands(acceptor) != own).cloned().collect()
    }
}

impl FilesConfig {
    /// The handler that serves the directory.
    pub(crate) fn open(&self) -> std::io::Result<Files> {
        let mut files =
            Files::new(&self.root)?.precompressed(self.precompressed).hidden_files(self.hidden_files);
        if let Some(index) = &self.index {
            files = files.index(index);
        }
        if let Some(value) = &self.cache_control {
            files = files.cache_control(value);
        }
        Ok(files)
    }

    /// The directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

impl AccessLogConfig {
    /// Returns `true` if the log format has a forwarding field.
    pub(crate) fn has_forwarding_fields(&self) -> bool {
        self.lines.format == AccessLogFormat::Json
    }
}

pub(super) const LISTED_HINT: &str = "leave it out";
const LISTEN_HINT: &str = "at least one has settings such as `tls`, which would be lost: change its `address` in the config, or keep one listener, whose settings apply to each `--listen`";

/// Parses the addresses of listeners: `IP:PORT` or `unix:PATH`.
///
/// # Errors
/// An address is invalid or listed twice.
pub fn parse_listeners(addresses: &[String]) -> Result<Vec<ListenAddr>, Failure> {
    let mut listeners = Vec::<ListenAddr>::new();
    for text in addresses {
        let address: ListenAddr = text
            .parse()
            .map_err(|error: InvalidListenAddr| Failure::new(error).with_hint(InvalidListenAddr::HINT))?;
        if is_listed(&listeners, &address) {
            return Err(
                Failure::new(format!("another listener has the address `{address}`")).with_hint(LISTED_HINT)
            );
        }
        listeners.push(address);
    }
    Ok(listeners)
}

/// Positions of upstreams, their servers and policies in the file, by name.
#[derive(Default)]
pub(super) struct Places {
    pub(super) upstreams: BTreeMap<String, UpstreamPlaces>,
    pub(super) policies: BTreeMap<String, Span>,
}

/// Positions of an upstream and of its servers, in their order.
pub(super) struct UpstreamPlaces {
    pub(super) span: Span,
    pub(super) servers: Vec<Span>,
}
