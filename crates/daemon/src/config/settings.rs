//! The validated settings of a daemon. Other modules read the settings from a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thruway_certificates::acme::Wanted;
use thruway_gateway::{
    ConnectConfig, ErrorPages, ForwardConfig, PathMatch, PathReadings, PolicyConfig, Redirect, ResponseRules,
    RouteMatch, UpstreamConfig,
};
use thruway_mcp_sdk::ProtectedResource;
use thruway_server::layers::{Bandwidth, Compression};
use thruway_server::{
    AccessLogFormat, AccessLogLines, AccessLogTarget, FieldLinesBuf, Files, Handler, ListenAddr, Listener,
    StatusCode,
};

use super::admin::AdminAuthentication;
use super::arguments::parse_listeners;
use super::failure::{Failure, Source};
use super::fleet::SharedConfig;
use super::forward::ForwardAction;
use super::listener_settings::{Http2, ListenerConfig, ListenerTlsConfig};
use super::mcp::settings::{McpPlaces, McpSettings};
use super::telemetry::TelemetryConfig;
use super::values::Span;

/// The validated settings of a daemon, from a config file or built in code.
pub struct Config {
    pub(crate) listeners: Vec<ListenerConfig>,
    pub(crate) routes: Vec<Route>,
    pub(crate) upstreams: Upstreams,
    /// The settings of forwarded requests. The key is the name of the upstream.
    pub(crate) forwards: BTreeMap<String, ForwardConfig>,
    /// Names of the upstreams with `required_for_ready`. `/ready` responds 503 while one of these upstreams
    /// has no healthy server.
    pub(crate) required_for_ready: BTreeSet<String>,
    /// Treatment of ambiguous paths.
    pub(crate) readings: PathReadings,
    pub(crate) policies: Policies,
    pub(crate) mcp: McpSettings,
    /// The ACME settings and the certificates to order, if the config has an ACME server.
    pub(crate) acme: Option<Wanted>,
    pub(crate) admin: Option<AdminConfig>,
    pub(crate) access_log: Option<AccessLogConfig>,
    /// `true` if the program's own log has JSON lines.
    pub(crate) logs_json: bool,
    pub(crate) telemetry: Option<TelemetryConfig>,
    /// The store that several gateways share. `None` for a store in memory.
    pub(crate) shared: Option<SharedConfig>,
    /// Number of worker threads. `None` means one for each core.
    pub(crate) workers: Option<usize>,
    /// Maximum number of open connections. `None` means as many as the limit of file descriptors allows.
    pub(crate) connections_max: Option<usize>,
    /// `true` if a worker passes several sends to the kernel in one system call.
    pub(crate) batch_sends: bool,
    /// Limits and timeouts of client connections.
    pub(crate) server: thruway_server::Config,
    pub(super) source: Option<Source>,
    pub(super) places: Places,
}

/// A route: the requests that it matches, its policies, and its action.
pub struct Route {
    /// Name that the operator has given to the route.
    pub(crate) name: Option<String>,
    pub(crate) matching: RouteMatch,
    /// Names of the policies, in the order in which the route evaluates the policies.
    pub(crate) policies: Vec<String>,
    /// Compression of responses. `None` if responses are not compressed.
    pub(crate) compression: Option<Compression>,
    /// `true` if the route sets `compression`, which overrides the setting of listeners.
    pub(crate) is_compression_own: bool,
    /// Changes to the headers of all responses. `None` if there are no changes.
    pub(crate) response_rules: Option<Arc<ResponseRules>>,
    /// Pages for error responses. `None` if there are no pages.
    pub(crate) error_pages: Option<Arc<ErrorPages>>,
    /// Rate of response bodies. `None` if there is no limit.
    pub(crate) bandwidth: Option<Bandwidth>,
    /// `false` if the access log leaves out the requests.
    pub(crate) is_logged: bool,
    pub(crate) action: Action,
    pub(crate) span: Span,
}

pub(crate) enum Action {
    Answer(FixedAnswer),
    Connect(ConnectConfig),
    /// The HTTP endpoints of the demo.
    Demo,
    /// The MCP endpoint of the demo.
    DemoMcp,
    Files(FilesConfig),
    Forward(Box<ForwardAction>),
    /// A handler that the embedding program provides.
    Handler(Arc<dyn Handler>),
    /// The MCP endpoint with this name.
    Mcp(String),
    Redirect(Redirect),
    /// The metadata of a protected resource (RFC 9728).
    ResourceMetadata(ProtectedResource),
}

/// Upstreams by their names.
pub(crate) type Upstreams = BTreeMap<String, UpstreamConfig>;

/// Policies by their names.
pub(crate) type Policies = BTreeMap<String, PolicyConfig>;

/// A fixed response. Its memory is never freed, so workers can share the response without copies and
/// reference counts.
#[derive(Clone)]
pub(crate) struct FixedAnswer {
    pub(crate) status: StatusCode,
    pub(crate) field_lines: FieldLinesBuf,
    pub(crate) content: &'static str,
}

/// Settings of a route that serves a directory of files.
pub(crate) struct FilesConfig {
    pub(super) root: PathBuf,
    pub(crate) root_span: Span,
    pub(super) index: Option<String>,
    pub(super) precompressed: bool,
    pub(super) hidden_files: bool,
    pub(super) cache_control: Option<String>,
    pub(super) try_files: Vec<String>,
    pub(super) listing: bool,
    pub(super) types: BTreeMap<String, String>,
}

/// Settings of the admin listener.
#[derive(Clone)]
pub(crate) struct AdminConfig {
    pub(crate) address: ListenAddr,
    pub(crate) tls: Option<ListenerTlsConfig>,
    /// `None` if every client is an operator.
    pub(crate) authentication: Option<AdminAuthentication>,
}

pub(crate) struct AccessLogConfig {
    pub(crate) lines: AccessLogLines,
    pub(crate) target: AccessLogTarget,
    pub(crate) span: Span,
}

impl Config {
    /// Returns the config of the demo, which `thruway serve` runs without a config file.
    pub(crate) fn demo() -> Self {
        let everything = RouteMatch::at(PathMatch::Prefix("/".to_owned()));
        let demo = Route {
            name: None,
            matching: everything,
            policies: Vec::new(),
            compression: None,
            is_compression_own: false,
            response_rules: None,
            error_pages: None,
            bandwidth: None,
            is_logged: true,
            action: Action::Demo,
            span: 0..0,
        };
        let listener = ListenerConfig::at(ListenAddr::Tcp(([127, 0, 0, 1], 8080).into()));
        Self { listeners: vec![listener], routes: vec![demo], ..Self::default() }
    }

    /// Returns `true` if requests get a trace.
    pub(crate) fn is_traced(&self) -> bool {
        self.telemetry.as_ref().is_some_and(|telemetry| telemetry.sampling.is_some())
    }

    /// Returns `true` if metrics count the requests of each route.
    pub(crate) fn is_measured(&self) -> bool {
        let exports = |telemetry: &TelemetryConfig| telemetry.metrics_interval.is_some();
        self.admin.is_some() || self.telemetry.as_ref().is_some_and(exports)
    }

    /// Replaces the addresses of the listeners. If the config has a single listener, its settings, such as
    /// TLS, apply to each of `addresses`.
    ///
    /// # Errors
    /// Returns an error if an address is invalid, or if the config has several listeners and one of them has
    /// settings. In the second case, it is unclear which of `addresses` get the settings. An address without
    /// the settings could serve plain HTTP instead of HTTPS.
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

    /// Returns the keys that take effect only after a restart, if their values differ between `self` and
    /// `other`.
    pub(crate) fn fixed_changes(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        [
            ("workers", self.workers != other.workers),
            ("batch_sends", self.batch_sends != other.batch_sends),
            ("admin", self.needs_restart_for_admin(other)),
            ("shared", !self.has_same_store_as(other)),
        ]
        .into_iter()
        .filter_map(|(key, is_changed)| is_changed.then_some(key))
    }

    fn has_same_store_as(&self, other: &Self) -> bool {
        match (&self.shared, &other.shared) {
            (Some(own), Some(other)) => own.is_same_as(other),
            (own, other) => own
                .as_ref()
                .or(other.as_ref())
                .is_none_or(|shared| shared.store.is_none() && shared.peers.is_none()),
        }
    }

    /// Returns `true` if only a restart can replace the running admin listener by the admin listener of
    /// `other`.
    fn needs_restart_for_admin(&self, other: &Self) -> bool {
        match (&self.admin, &other.admin) {
            (Some(own), Some(other)) => own.needs_restart_for(other),
            (own, other) => own.is_some() != other.is_some(),
        }
    }

    /// Keeps the admin listener of `started`, because a reload does not replace the running listener. The
    /// listener gets the users of this config.
    pub(crate) fn keep_admin_listener_of(&mut self, started: &Self) {
        let authentication = self.admin.take().and_then(|admin| admin.authentication);
        self.admin = started.admin.clone().map(|admin| AdminConfig { authentication, ..admin });
    }

    /// Keeps the shared store and the peer listener of `started`, because a reload does not replace them.
    pub(crate) fn keep_shared_store_of(&mut self, started: &Self) {
        self.shared.clone_from(&started.shared);
    }

    /// Returns the TLS settings of all listeners with TLS, including the admin listener and the peer
    /// listener, each with the address of the listener.
    pub(crate) fn listener_tls(&self) -> impl Iterator<Item = (&ListenAddr, &ListenerTlsConfig)> {
        let listeners = self.listeners.iter().map(|listener| (&listener.address, &listener.tls));
        let admin = self.admin.iter().map(|admin| (&admin.address, &admin.tls));
        let peers = self.shared.as_ref().and_then(|shared| shared.peers.as_ref());
        let peers = peers.map(|peers| (&peers.listener.address, &peers.listener.tls));
        listeners.chain(admin).chain(peers).filter_map(|(address, tls)| Some((address, tls.as_ref()?)))
    }

    /// Returns the position of `span` as `FILE:LINE`.
    pub(crate) fn place(&self, span: &Span) -> String {
        self.source.as_ref().map_or_else(String::new, |source| source.place(span))
    }

    /// Returns an error about the text at `span` of the file. The error also marks the text at `other`, and
    /// shows `label` there.
    pub(crate) fn failure_between(&self, span: &Span, message: &str, other: &Span, label: &str) -> Failure {
        match &self.source {
            Some(source) => source.failure_between(span, message, other, label),
            None => Failure::new(message),
        }
    }

    /// Returns the paths of the config file and of its included files, each with its text. The texts have
    /// stars in place of secrets. Returns an empty list if the config was built in code.
    pub(crate) fn shown_files(&self) -> Vec<(&Path, &str)> {
        let Some(source) = &self.source else { return Vec::new() };
        source.files().map(|(path, span)| (path, source.shown().get(span).unwrap_or_default())).collect()
    }

    /// Returns a warning about the text at `span` of the file.
    pub(crate) fn warning_at(&self, span: &Span, message: impl fmt::Display) -> Failure {
        match &self.source {
            Some(source) => source.warning(span.clone(), message),
            None => Failure::warning(message),
        }
    }

    /// Returns a warning about the shared store.
    pub(crate) fn shared_warning(&self, shared: &SharedConfig, message: &str) -> Failure {
        self.warning_at(&shared.span, message)
    }

    /// Returns a warning about the server with index `server` of an upstream.
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

    /// Returns an error about the server with index `server` of an upstream.
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

    /// Returns an error about an MCP server.
    pub(super) fn failure_at_mcp_server(&self, name: &str, message: impl fmt::Display) -> Failure {
        let span = self.places.mcp.servers.get(name).cloned().unwrap_or_default();
        self.failure_at(&span, message)
    }

    /// Returns an error about an MCP endpoint.
    pub(crate) fn failure_at_mcp_endpoint(&self, name: &str, message: impl fmt::Display) -> Failure {
        let span = self.places.mcp.endpoints.get(name).cloned().unwrap_or_default();
        self.failure_at(&span, message)
    }

    /// Returns a warning about an MCP endpoint.
    pub(crate) fn warning_at_mcp_endpoint(&self, name: &str, message: impl fmt::Display) -> Failure {
        let span = self.places.mcp.endpoints.get(name).cloned().unwrap_or_default();
        self.warning_at(&span, message)
    }

    /// Returns a warning about an MCP server.
    pub(crate) fn warning_at_mcp_server(&self, name: &str, message: impl fmt::Display) -> Failure {
        let span = self.places.mcp.servers.get(name).cloned().unwrap_or_default();
        self.warning_at(&span, message)
    }

    /// Returns a warning about a pattern of an MCP endpoint's access rule. `rule` is the number of the rule,
    /// counted from 0.
    pub(crate) fn warning_at_mcp_pattern(
        &self,
        endpoint: &str,
        rule: usize,
        pattern: &str,
        message: impl fmt::Display,
    ) -> Failure {
        let rule = self.places.mcp.rules.get(endpoint).and_then(|rules| rules.get(rule));
        let place = rule.and_then(|patterns| patterns.iter().find(|(text, _)| text == pattern));
        self.warning_at(&place.map_or(0..0, |(_, span)| span.clone()), message)
    }

    /// Returns an error about the text at `span` of the file.
    pub(crate) fn failure_at(&self, span: &Span, message: impl fmt::Display) -> Failure {
        match &self.source {
            Some(source) => source.failure(span.clone(), message),
            None => Failure::new(message),
        }
    }
}

impl Route {
    /// Returns the name of the route in metrics, traces and messages. For a route without a name, this is a
    /// description of the requests that the route matches. Each route of a config has a different label.
    pub(crate) fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.matching.to_string())
    }
}

impl AdminConfig {
    /// Returns the settings of a listener without TLS and without users.
    pub(super) const fn at(address: ListenAddr) -> Self {
        Self { address, tls: None, authentication: None }
    }

    /// Returns `true` if other machines can reach the address.
    pub(crate) const fn is_remote(&self) -> bool {
        self.address.is_remote()
    }

    /// Converts the settings to a listener of the admin server.
    pub(crate) fn to_listener(&self) -> Listener {
        let http2 = if self.tls.is_some() { Http2::Too } else { Http2::No };
        let listener = ListenerConfig::at(self.address.clone());
        ListenerConfig { http2, tls: self.tls.clone(), ..listener }.to_listener(&[])
    }

    /// Returns `true` if only a restart can replace this running listener by `other`.
    fn needs_restart_for(&self, other: &Self) -> bool {
        let tls = |admin: &Self| {
            let tls = admin.tls.as_ref()?;
            Some((tls.acceptor.clone(), tls.strict_transport_security.clone(), tls.ocsp_stapling))
        };
        let is_opened = self.authentication.is_some() && other.authentication.is_none();
        self.address != other.address || tls(self) != tls(other) || is_opened
    }
}

impl FilesConfig {
    /// Opens the directory, and returns the handler that serves its files.
    pub(crate) fn open(&self) -> std::io::Result<Files> {
        let mut files =
            Files::new(&self.root)?.precompressed(self.precompressed).hidden_files(self.hidden_files);
        if let Some(index) = &self.index {
            files = files.index(index);
        }
        if let Some(value) = &self.cache_control {
            files = files.cache_control(value);
        }
        for (extension, value) in &self.types {
            files = files.content_type(extension, value);
        }
        let files = files.listing(self.listing);
        if !self.try_files.is_empty() {
            let candidates = self.try_files.iter().map(String::as_str);
            return files.try_files(candidates).map_err(std::io::Error::other);
        }
        Ok(files)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

impl AccessLogConfig {
    /// Returns `true` if log lines can contain data about forwarding. Lines in the common and combined format
    /// contain no such data.
    pub(crate) const fn has_forwarding_fields(&self) -> bool {
        !matches!(self.lines.format, AccessLogFormat::Common | AccessLogFormat::Combined)
    }
}

const LISTEN_HINT: &str = "`--listen` would discard settings of a listener, such as `tls`: change `address` of this listener in the config, or keep only one listener in the config";

/// Positions of upstreams, servers, policies, MCP servers and MCP endpoints in the file.
#[derive(Default)]
pub(super) struct Places {
    pub(super) upstreams: BTreeMap<String, UpstreamPlaces>,
    pub(super) policies: BTreeMap<String, Span>,
    pub(super) mcp: McpPlaces,
}

/// Position of an upstream, and positions of its servers in the order of the config.
pub(super) struct UpstreamPlaces {
    pub(super) span: Span,
    pub(super) servers: Vec<Span>,
}
