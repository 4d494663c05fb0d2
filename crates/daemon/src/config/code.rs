//! Builds a config in code, without a config file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thruway_gateway::{
    ForwardTimeouts, PathReadings, PolicyConfig, Redirect, Rewrite, RouteMatch, UpstreamConfig,
};
use thruway_server::{Handler, IntoHandler, ListenAddr, TlsAcceptor};

use super::forward::{ForwardAction, ForwardTo};
use super::mcp::settings::McpSettings;
use super::settings::Places;
use super::{
    Action, AdminConfig, Config, Failure, ListenerConfig, ListenerTlsConfig, Policies, Route, Upstreams,
    parse_listeners,
};

impl Default for Config {
    /// Returns a config without listeners and routes. Add at least one listener and one route.
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            routes: Vec::new(),
            upstreams: Upstreams::new(),
            forwards: BTreeMap::new(),
            required_for_ready: BTreeSet::new(),
            readings: PathReadings::default(),
            policies: Policies::new(),
            mcp: McpSettings::default(),
            acme: None,
            admin: None,
            access_log: None,
            logs_json: false,
            telemetry: None,
            shared: None,
            workers: None,
            connections_max: None,
            batch_sends: true,
            server: thruway_server::Config::default(),
            source: None,
            places: Places::default(),
        }
    }
}

impl Config {
    /// Adds a listener for HTTP at `address`: `IP:PORT` or `unix:PATH`. Port 0 lets the system choose a
    /// port.
    ///
    /// # Errors
    /// Returns an error if the address is invalid.
    pub fn listen(mut self, address: &str) -> Result<Self, Failure> {
        self.listeners.push(ListenerConfig::at(parse_address(address)?));
        Ok(self)
    }

    /// Sets the name of the last listener, to which [`RouteMatch::listeners`] refers: 1 to 64 letters,
    /// digits, `-`, `_` and `.`. Has no effect on a config without listeners.
    pub fn listener_name(mut self, name: impl Into<String>) -> Self {
        if let Some(listener) = self.listeners.last_mut() {
            listener.name = Some(name.into());
        }
        self
    }

    /// Adds a listener for HTTPS at `address`. `acceptor` contains the certificates.
    ///
    /// # Errors
    /// Returns an error if the address is invalid.
    pub fn listen_tls(mut self, address: &str, acceptor: Arc<TlsAcceptor>) -> Result<Self, Failure> {
        let mut listener = ListenerConfig::at(parse_address(address)?);
        listener.tls = Some(ListenerTlsConfig {
            acceptor,
            strict_transport_security: None,
            ocsp_stapling: false,
            internal: Vec::new(),
            span: 0..0,
        });
        self.listeners.push(listener);
        Ok(self)
    }

    /// Adds an upstream. Routes refer to the upstream by its name.
    pub fn upstream(mut self, upstream: UpstreamConfig) -> Self {
        self.upstreams.insert(upstream.name.clone(), upstream);
        self
    }

    /// Adds a policy. Routes refer to the policy by this name.
    pub fn policy(mut self, name: impl Into<String>, policy: PolicyConfig) -> Self {
        self.policies.insert(name.into(), policy);
        self
    }

    /// Adds a route. The daemon tries more specific routes first, independent of the order of the calls.
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Adds the admin listener at `address`. The address must be a loopback address or a Unix socket,
    /// because the admin listener has no authentication. The listener refuses a request if `Host` contains
    /// the name of another machine.
    ///
    /// # Errors
    /// Returns an error if the address is invalid.
    pub fn admin(mut self, address: &str) -> Result<Self, Failure> {
        self.admin = Some(AdminConfig::at(parse_address(address)?));
        Ok(self)
    }

    /// Sets the number of worker threads. Default: one for each core.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the limits and timeouts of the server.
    pub fn server(mut self, server: thruway_server::Config) -> Self {
        self.server = server;
        self
    }
}

impl Route {
    /// Returns a route that forwards requests to the upstream with this name.
    pub fn forward(matching: RouteMatch, upstream: impl Into<String>) -> Self {
        let action = ForwardAction {
            to: ForwardTo::Upstream(upstream.into()),
            rewrite: Rewrite::default(),
            mirror: None,
            timeouts: ForwardTimeouts::default(),
            request_buffer_bytes_max: None,
        };
        Self::new(matching, Action::Forward(Box::new(action)))
    }

    /// Returns a route that responds with a redirect.
    pub fn redirect(matching: RouteMatch, redirect: Redirect) -> Self {
        Self::new(matching, Action::Redirect(redirect))
    }

    /// Returns a route that passes requests to a handler: a function, a router, an MCP endpoint or a
    /// directory of files.
    pub fn handler<M>(matching: RouteMatch, handler: impl IntoHandler<M>) -> Self {
        let handler: Arc<dyn Handler> = handler.into_handler();
        Self::new(matching, Action::Handler(handler))
    }

    /// Sets the name of the route in access logs, metrics, traces and `/status`: 1 to 64 letters, digits,
    /// `-`, `_` and `.`. Each name may occur only once in a config. Default: a description of the requests.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds the policy with this name. Policies decide in the order in which they are added.
    pub fn policy(mut self, name: impl Into<String>) -> Self {
        self.policies.push(name.into());
        self
    }

    fn new(matching: RouteMatch, action: Action) -> Self {
        Self {
            name: None,
            matching,
            policies: Vec::new(),
            compression: None,
            is_compression_own: false,
            response_rules: None,
            error_pages: None,
            bandwidth: None,
            is_logged: true,
            action,
            span: 0..0,
        }
    }
}

fn parse_address(address: &str) -> Result<ListenAddr, Failure> {
    let mut parsed = parse_listeners(&[address.to_owned()])?;
    parsed.pop().ok_or_else(|| Failure::new("no address to listen on"))
}
