//! Runs the MCP endpoints of a config.

mod background;
pub(crate) mod listing;
mod members;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use thruway_gateway::{HostRewrite, UpstreamConfig, VerifiedClient};
use thruway_mcp_sdk::{
    AuditLog, Identity, McpEndpoint, McpGateway, McpGatewayBuilder, McpGatewayOptions, NameStyle,
};
use thruway_server::{Answer, Handler, Request, Response, StatusCode};

use crate::config::mcp::settings::{McpEndpointConfig, McpNames, McpServerConfig};
use crate::config::{Config, Failure};
use background::Background;
pub(crate) use members::RunningUpstreams;
pub use members::child_command;
use members::member;

/// The MCP endpoints of a config. A reload keeps an endpoint with its sessions and child processes if its
/// config has not changed.
#[derive(Default)]
pub(crate) struct McpEndpoints {
    endpoints: BTreeMap<String, (EndpointConfig, Arc<Endpoint>)>,
    /// `None` until the first endpoint starts.
    background: Option<Arc<Background>>,
}

/// All settings that an endpoint depends on.
#[derive(PartialEq, Eq)]
struct EndpointConfig {
    endpoint: McpEndpointConfig,
    servers: Vec<McpServerConfig>,
    upstreams: Vec<UpstreamConfig>,
    /// The keys `host` of the upstreams.
    hosts: Vec<Option<HostRewrite>>,
}

/// An MCP endpoint, which does not run until [`McpEndpoints::start`].
#[derive(Default)]
struct Endpoint {
    gateway: OnceLock<McpGateway>,
    audit: Option<AuditLog>,
}

/// Serves an MCP endpoint at a route.
struct RouteEndpoint {
    endpoint: Arc<Endpoint>,
    /// Hosts for which the endpoint accepts requests, in addition to the names of this machine.
    hosts: Vec<String>,
    served: OnceLock<McpEndpoint>,
}

impl McpEndpoints {
    /// Returns the endpoints of `config`. Takes endpoints that have not changed from `before`. Opens the audit
    /// logs of the other endpoints.
    ///
    /// # Errors
    /// An audit log cannot be opened.
    pub(crate) fn of(config: &Config, before: &Self) -> Result<Self, Failure> {
        let endpoint = |name: &String| {
            let settings = EndpointConfig::of(config, name);
            let endpoint = match before.endpoints.get(name) {
                Some((other, kept)) if *other == settings => kept.clone(),
                _ => Arc::new(Endpoint { gateway: OnceLock::new(), audit: audit_log(config, name)? }),
            };
            Ok((name.clone(), (settings, endpoint)))
        };
        let endpoints = config.mcp.endpoints.keys().map(endpoint).collect::<Result<_, Failure>>()?;
        Ok(Self { endpoints, background: before.background.clone() })
    }

    /// Returns a handler that serves the endpoint with this name. The config was checked, so the endpoint
    /// exists.
    pub(crate) fn handler(&self, name: &str, hosts: Vec<String>) -> Arc<dyn Handler> {
        let endpoint = self.endpoints[name].1.clone();
        Arc::new(RouteEndpoint { endpoint, hosts, served: OnceLock::new() })
    }

    /// Starts the new endpoints: they connect to their servers in the background.
    pub(crate) fn start(&mut self, config: &Config, upstreams: &RunningUpstreams) {
        for (name, (_, endpoint)) in &self.endpoints {
            if endpoint.gateway.get().is_some() {
                continue;
            }
            let background =
                match self.background.take().map_or_else(|| Background::start().map(Arc::new), Ok) {
                    Ok(background) => self.background.insert(background),
                    Err(error) => {
                        tracing::error!("cannot start the MCP endpoints: {error}");
                        return;
                    }
                };
            let build = || {
                let builder = gateway_builder(config, name, upstreams, None);
                endpoint.audit.iter().cloned().fold(builder, McpGatewayBuilder::audit).build()
            };
            match background.enter(build) {
                Ok(gateway) => drop(endpoint.gateway.set(gateway)),
                Err(error) => tracing::error!("cannot start the MCP endpoint `{name}`: {error}"),
            }
        }
    }

    /// Returns each running endpoint with its name.
    pub(crate) fn gateways(&self) -> Vec<(String, McpGateway)> {
        let gateway = |(name, (_, endpoint)): (&String, &(_, Arc<Endpoint>))| {
            Some((name.clone(), endpoint.gateway.get()?.clone()))
        };
        self.endpoints.iter().filter_map(gateway).collect()
    }

    /// Ends the endpoints of `self` that `after` does not contain. Their calls have the time `within` to end.
    pub(crate) fn drain_removed(&self, after: &Self, within: Duration) {
        let is_kept =
            |endpoint: &Arc<Endpoint>| after.endpoints.values().any(|(_, kept)| Arc::ptr_eq(kept, endpoint));
        for (_, endpoint) in self.endpoints.values().filter(|(_, endpoint)| !is_kept(endpoint)) {
            if let (Some(gateway), Some(background)) = (endpoint.gateway.get().cloned(), &self.background) {
                background.spawn(async move { gateway.drain(within).await });
            }
        }
    }

    /// Begins to end all endpoints and their child processes. The calls of the endpoints have the time `within`
    /// to end. Drops `hold` after all endpoints have ended.
    pub(crate) fn begin_drain(&self, within: Duration, hold: impl Send + 'static) {
        let Some(background) = &self.background else { return };
        let gateways = self.gateways();
        background.spawn(async move {
            drain(gateways, within).await;
            drop(hold);
        });
    }

    /// Ends all endpoints and their child processes, and waits at most `within` for their calls.
    pub(crate) fn end(&self, within: Duration) {
        let Some(background) = &self.background else { return };
        background.wait_for(drain(self.gateways(), within));
        for audit in self.endpoints.values().filter_map(|(_, endpoint)| endpoint.audit.as_ref()) {
            audit.finish();
        }
    }
}

async fn drain(gateways: Vec<(String, McpGateway)>, within: Duration) {
    let drains = gateways.into_iter().map(|(_, gateway)| async move { gateway.drain(within).await });
    drains.collect::<tokio::task::JoinSet<_>>().join_all().await;
}

impl EndpointConfig {
    fn of(config: &Config, name: &str) -> Self {
        let endpoint = config.mcp.endpoints[name].clone();
        let servers: Vec<_> =
            endpoint.servers.iter().filter_map(|name| config.mcp.servers.get(name)).cloned().collect();
        let upstreams = servers.iter().filter_map(|server| config.upstreams.get(server.upstream()?));
        let upstreams = upstreams.cloned().collect();
        let hosts = servers.iter().filter_map(McpServerConfig::upstream);
        let hosts = hosts.map(|name| config.forwards.get(name).map(|forward| forward.host.clone())).collect();
        Self { endpoint, servers, upstreams, hosts }
    }
}

/// Opens the audit log of the endpoint with this name.
fn audit_log(config: &Config, name: &str) -> Result<Option<AuditLog>, Failure> {
    let Some(target) = &config.mcp.endpoints[name].audit else { return Ok(None) };
    let log =
        target.open().and_then(|target| AuditLog::start(target.named(format!("audit log of `{name}`"))));
    log.map(Some).map_err(|error| {
        config.failure_at_mcp_endpoint(name, format_args!("cannot open the audit log: {error}"))
    })
}

/// Returns a builder for the endpoint with this name. `list_wait` replaces the key `list_wait` of the endpoint.
///
/// The library accepts the settings, because the check of the config has the same rules.
fn gateway_builder(
    config: &Config,
    name: &str,
    upstreams: &RunningUpstreams,
    list_wait: Option<Duration>,
) -> McpGatewayBuilder {
    let endpoint = &config.mcp.endpoints[name];
    let default = McpGatewayOptions::default();
    let options = McpGatewayOptions {
        names: match endpoint.names {
            McpNames::Plain => NameStyle::Plain,
            McpNames::Prefixed => NameStyle::Prefixed,
        },
        prefer: endpoint.prefer.clone(),
        list_wait: list_wait.or(endpoint.list_wait).unwrap_or(default.list_wait),
        list_ttl_max: endpoint.list_ttl_max.unwrap_or(default.list_ttl_max),
        ..default
    };
    let builder = McpGateway::builder(name, env!("CARGO_PKG_VERSION")).options(options);
    let builder = builder.rules(endpoint.rules.clone());
    let servers = endpoint.servers.iter().filter_map(|name| Some((name, config.mcp.servers.get(name)?)));
    let members = servers.map(|(name, server)| member(config, name, server, upstreams));
    members.fold(builder, McpGatewayBuilder::member)
}

/// Returns the identity of a client that a policy of the route has verified. Two clients are the same caller
/// only if their issuers and their names are equal. The issuer is the claim `iss` of the token, or else the
/// name of the policy.
fn identity_of(client: &VerifiedClient) -> Identity {
    let mut claims = client.claims.clone();
    let issuer = match claims.get("iss") {
        Some(Value::String(issuer)) => issuer.clone(),
        _ => format!("policy {}", client.policy),
    };
    let subject = client.user.clone().unwrap_or_default();
    if claims.is_empty() {
        claims.insert("sub".to_owned(), Value::String(subject.clone()));
    }
    Identity::new(issuer, subject, claims)
}

impl Handler for RouteEndpoint {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let Some(gateway) = self.endpoint.gateway.get() else {
            let text = "the MCP endpoint is not running\n";
            return Answer::Now(Response::text(text).with_status(StatusCode::SERVICE_UNAVAILABLE));
        };
        if let Some(client) = request.extensions().get::<Arc<VerifiedClient>>() {
            let identity = Arc::new(identity_of(client));
            request.extensions_mut().insert(identity);
        }
        let serve = || self.hosts.iter().fold(gateway.server().endpoint(), McpEndpoint::allow_host);
        self.served.get_or_init(serve).handle(request)
    }
}
