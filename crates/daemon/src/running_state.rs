//! State of the running config. A reload replaces the whole state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_gateway::{HealthSharing, Mirror, RefusalCount, RouteMeter, SharedLimits, Upstream};
use thruway_mcp_sdk::McpGateway;

use crate::admin_access::AdminAccess;
use crate::config::{Config, ListenerConfig, Route};
use crate::config_document::ConfigDocument;
use crate::live_store::LiveStore;
use crate::routes::Parts;
use crate::streams::Streams;
use crate::telemetry::LiveTelemetry;

/// State of the running config. All clones see the same state.
#[derive(Clone)]
pub(crate) struct RunningState {
    config: Arc<Mutex<Arc<RunningConfig>>>,
    telemetry: LiveTelemetry,
}

pub(crate) struct RunningConfig {
    /// The protocols of the listeners, in the order of the config: `http`, `https` or `tcp`.
    pub(crate) protocols: Vec<&'static str>,
    /// Routes, in the order of the config.
    pub(crate) routes: Vec<RunningRoute>,
    /// Number of requests that matched no route.
    pub(crate) unrouted: Arc<RefusalCount>,
    pub(crate) streams: Streams,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// The MCP endpoints, each with its name.
    pub(crate) mcp: Vec<(String, McpGateway)>,
    /// Upstreams with `required_for_ready`: `/ready` responds 503 while one of these upstreams has no
    /// healthy server.
    pub(crate) required: Vec<Arc<Upstream>>,
    /// The store that several gateways share.
    pub(crate) store: LiveStore,
    /// The limits that several gateways share. `None` if limits hold for this process.
    pub(crate) limits: Option<SharedLimits>,
    /// The exchange of health news with other gateways.
    pub(crate) health: Arc<HealthSharing>,
    /// The config as a document for operators. Empty without an admin listener.
    pub(crate) document: ConfigDocument,
    /// The users of the admin listener. `None` if every client is an operator.
    pub(crate) admin_access: Option<Arc<AdminAccess>>,
}

pub(crate) struct RunningRoute {
    /// Name that the operator has given to the route.
    pub(crate) name: Option<String>,
    /// The label of the route in metrics: its name, or else `requests`.
    pub(crate) label: String,
    /// Description of the requests that the route matches.
    pub(crate) requests: String,
    /// Description of the action.
    pub(crate) action: String,
    pub(crate) meter: Option<Arc<RouteMeter>>,
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// Names of the policies in their order, each with the number of requests that the policy refused.
    pub(crate) refusals: Vec<(String, Arc<RefusalCount>)>,
}

impl RunningState {
    pub(crate) fn new(config: &Config, parts: &Parts, streams: &Streams, telemetry: LiveTelemetry) -> Self {
        Self { config: Arc::new(Mutex::new(RunningConfig::of(config, parts, streams, None))), telemetry }
    }

    pub(crate) fn replace(&self, config: &Config, parts: &Parts, streams: &Streams) {
        let mut current = self.lock();
        let access = current.admin_access.clone();
        *current = RunningConfig::of(config, parts, streams, access);
    }

    pub(crate) fn load(&self) -> Arc<RunningConfig> {
        self.lock().clone()
    }

    /// Returns the state of tracing.
    pub(crate) const fn telemetry(&self) -> &LiveTelemetry {
        &self.telemetry
    }

    fn lock(&self) -> MutexGuard<'_, Arc<RunningConfig>> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningConfig {
    /// Returns the state of `config`. `access` contains the previous users of the admin listener.
    fn of(config: &Config, parts: &Parts, streams: &Streams, access: Option<Arc<AdminAccess>>) -> Arc<Self> {
        let route = |route: &Route| RunningRoute {
            name: route.name.clone(),
            label: route.label(),
            requests: route.matching.to_string(),
            action: route.action.to_string(),
            meter: parts.meter_of(route).cloned(),
            mirror: parts.mirror_of(route).cloned(),
            refusals: parts.refusals_of(route),
        };
        Arc::new(Self {
            protocols: config.listeners.iter().map(protocol_of).collect(),
            routes: config.routes.iter().map(route).collect(),
            unrouted: parts.unrouted().clone(),
            streams: streams.clone(),
            upstreams: parts.upstreams().cloned().collect(),
            mcp: parts.mcp().gateways(),
            required: config
                .required_for_ready
                .iter()
                .filter_map(|name| parts.upstream(name).cloned())
                .collect(),
            store: parts.store().clone(),
            limits: parts.limits().cloned(),
            health: parts.health().sharing().clone(),
            document: config.admin.as_ref().map(|_| ConfigDocument::of(config)).unwrap_or_default(),
            admin_access: AdminAccess::of(config, access),
        })
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name() == name)
    }
}

const fn protocol_of(listener: &ListenerConfig) -> &'static str {
    match (&listener.tcp, &listener.tls) {
        (Some(_), _) => "tcp",
        (None, Some(_)) => "https",
        (None, None) => "http",
    }
}
