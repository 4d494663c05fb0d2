//! Runs the MCP endpoints of a config.

mod access;
pub(crate) mod audit_logs;
mod identity;
pub(crate) mod listing;
mod members;
mod owner;
mod relay;
mod relayed_body;
mod route_endpoint;
mod shared_changes;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thruway_gateway::{ForwardConfig, UpstreamConfig};
use thruway_mcp_sdk::{McpGateway, McpGatewayBuilder, McpGatewayOptions};
use thruway_server::{DrainHandle, Handler};
use tokio::time::{Instant, sleep};

use crate::background::Background;
use crate::config::Config;
use crate::config::mcp::settings::{McpEndpointConfig, McpSearch, McpServerConfig};
use crate::fleet::{Archives, Fleet};
use audit_logs::AuditLogs;
pub(crate) use members::RunningUpstreams;
pub use members::child_command;
use members::member;
use owner::FleetEndpoint;
use relay::relays;
use route_endpoint::{Endpoint, RouteEndpoint};
pub(crate) use shared_changes::EndpointChanges;

/// The MCP endpoints of a config. A reload keeps an endpoint with its sessions and child processes if its
/// config has not changed.
#[derive(Default)]
pub(crate) struct McpEndpoints {
    endpoints: BTreeMap<String, (EndpointConfig, Arc<Endpoint>)>,
    /// `None` until the first endpoint starts.
    background: Option<Arc<Background>>,
    audit_logs: AuditLogs,
    /// The fleet that this process belongs to, if any.
    fleet: Option<Arc<Fleet>>,
    /// The exchange of changes with other gateways.
    changes: EndpointChanges,
    /// The archives, if tasks and events are durable.
    archives: Option<Archives>,
}

/// All settings that an endpoint depends on.
#[derive(PartialEq, Eq)]
struct EndpointConfig {
    endpoint: McpEndpointConfig,
    servers: Vec<McpServerConfig>,
    upstreams: Vec<UpstreamConfig>,
    /// The settings for requests to the upstreams.
    forwards: Vec<Option<ForwardConfig>>,
}

impl McpEndpoints {
    /// Returns no endpoints. Later endpoints with [`of`](Self::of) belong to `fleet`, and exchange `changes`.
    pub(crate) fn in_fleet(fleet: Option<Arc<Fleet>>, changes: EndpointChanges) -> Self {
        Self { fleet, changes, ..Self::default() }
    }

    /// Makes the tasks and events of later endpoints durable.
    pub(crate) fn with_archives(self, archives: Option<Archives>) -> Self {
        Self { archives, ..self }
    }

    /// Returns the endpoints of `config`. Takes endpoints that have not changed from `before`.
    pub(crate) fn of(config: &Config, before: &Self) -> Self {
        let endpoint = |name: &String| {
            let settings = EndpointConfig::of(config, name);
            let kept = before.endpoints.get(name).filter(|(other, _)| *other == settings);
            let needs_tokens = config.mcp.server_with_caller_tokens(name).is_some();
            let create = || {
                let fleet = before.fleet.clone().map(|fleet| FleetEndpoint::new(fleet, name));
                Arc::new(Endpoint { gateway: OnceLock::new(), needs_tokens, fleet })
            };
            let endpoint = kept.map_or_else(create, |(_, kept)| kept.clone());
            (name.clone(), (settings, endpoint))
        };
        let endpoints = config.mcp.endpoints.keys().map(endpoint).collect();
        let (background, audit_logs) = (before.background.clone(), before.audit_logs.clone());
        let (fleet, changes) = (before.fleet.clone(), before.changes.clone());
        Self { endpoints, background, audit_logs, fleet, changes, archives: before.archives.clone() }
    }

    /// Returns a handler that serves the endpoint with this name. The config was checked, so the endpoint
    /// exists.
    pub(crate) fn handler(&self, name: &str, hosts: Vec<String>) -> Arc<dyn Handler> {
        let endpoint = self.endpoints[name].1.clone();
        Arc::new(RouteEndpoint::new(endpoint, hosts))
    }

    /// Returns the fleet that this process belongs to, if any.
    pub(crate) const fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.fleet.as_ref()
    }

    /// Returns the audit logs. Open them before [`start`](Self::start).
    pub(crate) const fn audit_logs(&self) -> &AuditLogs {
        &self.audit_logs
    }

    /// Starts the new endpoints: they connect to their servers in the background.
    pub(crate) fn start(&mut self, config: &Config, upstreams: &RunningUpstreams) {
        for (name, (_, endpoint)) in &self.endpoints {
            if endpoint.gateway.get().is_some() {
                continue;
            }
            let background =
                match self.background.take().map_or_else(|| Background::start("mcp").map(Arc::new), Ok) {
                    Ok(background) => self.background.insert(background),
                    Err(error) => {
                        tracing::error!("cannot start the MCP endpoints: {error}");
                        return;
                    }
                };
            let build = || {
                let replica = Replica { fleet: self.fleet.as_deref(), archives: self.archives.as_ref() };
                let builder = gateway_builder(config, name, upstreams, None, replica);
                let audit = config.mcp.endpoints[name].audit.as_ref();
                let audit = audit.and_then(|target| self.audit_logs.log(target));
                audit.into_iter().fold(builder, McpGatewayBuilder::audit).build()
            };
            match background.enter(build) {
                Ok(gateway) => {
                    self.changes.connect(name, gateway.server());
                    drop(endpoint.gateway.set((gateway, relays(config, name, upstreams))));
                }
                Err(error) => tracing::error!("cannot start the MCP endpoint `{name}`: {error}"),
            }
        }
        if let Some(fleet) = &self.fleet {
            let endpoints = self.endpoints.iter();
            let served =
                endpoints.filter_map(|(name, (_, endpoint))| Some((name.clone(), endpoint.for_peers()?)));
            fleet.serve(served.collect());
        }
    }

    /// Returns each running endpoint with its name.
    pub(crate) fn gateways(&self) -> Vec<(String, McpGateway)> {
        let gateway = |(name, (_, endpoint)): (&String, &(_, Arc<Endpoint>))| {
            Some((name.clone(), endpoint.gateway.get()?.0.clone()))
        };
        self.endpoints.iter().filter_map(gateway).collect()
    }

    /// Ends the endpoints of `self` that `after` does not contain. Their calls have the time `within` to end.
    pub(crate) fn drain_removed(&self, after: &Self, within: Duration) {
        let is_kept =
            |endpoint: &Arc<Endpoint>| after.endpoints.values().any(|(_, kept)| Arc::ptr_eq(kept, endpoint));
        for (_, endpoint) in self.endpoints.values().filter(|(_, endpoint)| !is_kept(endpoint)) {
            if let (Some((gateway, _)), Some(background)) = (endpoint.gateway.get(), &self.background) {
                let gateway = gateway.clone();
                background.spawn(async move { gateway.drain(within).await });
            }
        }
    }

    /// Begins to end all endpoints and their child processes. An endpoint ends after the connections of the
    /// clients, because a connection can still contain a request. The connections and the calls have the time
    /// `within` to end. Drops `hold` after all endpoints have ended.
    pub(crate) fn begin_drain(&self, within: Duration, clients: DrainHandle, hold: impl Send + 'static) {
        let Some(background) = &self.background else { return };
        let (gateways, fleet) = (self.gateways(), self.fleet.clone());
        background.spawn(async move {
            for (_, gateway) in &gateways {
                gateway.end_subscriptions();
            }
            let deadline = Instant::now() + within;
            let end_sessions =
                || gateways.iter().for_each(|(_, gateway)| gateway.end_sessions_without_calls());
            end_sessions();
            while clients.loads().iter().any(|load| load.connections > 0) && Instant::now() < deadline {
                sleep(CHECK_INTERVAL).await;
                end_sessions();
            }
            let end_sessions = async {
                loop {
                    end_sessions();
                    sleep(CHECK_INTERVAL).await;
                }
            };
            let end_calls = async {
                for (_, gateway) in &gateways {
                    gateway.calls_ended(deadline.saturating_duration_since(Instant::now())).await;
                }
                // The other replicas now answer for this one, because its servers end.
                if let Some(fleet) = fleet {
                    fleet.refuse();
                }
                drain(gateways.clone(), deadline.saturating_duration_since(Instant::now())).await;
            };
            tokio::select! {
                () = end_calls => {}
                () = end_sessions => {}
            }
            drop(hold);
        });
    }

    /// Ends all endpoints and their child processes, and waits at most `within` for their calls.
    pub(crate) fn end(&self, within: Duration) {
        let Some(background) = &self.background else { return };
        background.wait_for(drain(self.gateways(), within));
        self.audit_logs.finish();
    }
}

/// Interval of the checks for open connections of clients during the shutdown.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

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
        let forwards = servers.iter().filter_map(McpServerConfig::upstream);
        let forwards = forwards.map(|name| config.forwards.get(name).cloned()).collect();
        Self { endpoint, servers, upstreams, forwards }
    }
}

/// This process as a replica, as far as an endpoint depends on it. The default is a process without a fleet.
#[derive(Clone, Copy, Default)]
struct Replica<'a> {
    fleet: Option<&'a Fleet>,
    archives: Option<&'a Archives>,
}

/// Returns a builder for the endpoint with this name. `list_wait` replaces the key `list_wait` of the endpoint.
///
/// The library accepts the settings, because the check of the config has the same rules.
fn gateway_builder(
    config: &Config,
    name: &str,
    upstreams: &RunningUpstreams,
    list_wait: Option<Duration>,
    replica: Replica<'_>,
) -> McpGatewayBuilder {
    let endpoint = &config.mcp.endpoints[name];
    let mut default = McpGatewayOptions::default();
    if let Some(fleet) = replica.fleet {
        fleet.configure(name, &mut default.bridge.server);
    }
    default.bridge.server.event_archive = replica.archives.map(|archives| archives.events(name));
    let options = McpGatewayOptions {
        names: endpoint.names.style(),
        prefer: endpoint.prefer.clone(),
        list_wait: list_wait.or(endpoint.list_wait).unwrap_or(default.list_wait),
        list_ttl_max: endpoint.list_ttl_max.unwrap_or(default.list_ttl_max),
        search: endpoint.search.as_ref().map(McpSearch::options),
        confirm_destructive: endpoint.confirm_destructive,
        ..default
    };
    let builder = McpGateway::builder(name, env!("CARGO_PKG_VERSION")).options(options);
    let archive = replica.archives.map(|archives| archives.tasks(name));
    let builder = archive.into_iter().fold(builder, McpGatewayBuilder::archive);
    let builder = builder.rules(endpoint.rules.clone()).limits(endpoint.limits.clone());
    let servers = endpoint.servers.iter().filter_map(|name| Some((name, config.mcp.servers.get(name)?)));
    let members = servers.map(|(name, server)| member(config, name, server, upstreams));
    members.fold(builder, McpGatewayBuilder::member)
}
