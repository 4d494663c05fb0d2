//! Builds the request handlers for the routes of a config.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::thread::available_parallelism;

use thruway_gateway::{
    Connect, FirstLookup, Forward, ForwardAuth, ForwardAuthConfig, ForwardConfig, ForwardTimeouts,
    ForwardedFields, Guarded, HostMatch, ListenerRoutes, ListenerSettings, Measured, Mirror, Policy,
    PolicyConfig, RecordedRoute, RefusalCount, ResponseRules, RouteMatch, RouteMeter, SharedLimits, Split,
    TracedMeasured, TracedRoute, UnloggedRoute, Unreachable, Upstream, UpstreamConfig,
};
use thruway_mcp_sdk::McpServerOptions;
use thruway_server::layers::{ByListener, Layer, ListenerCompression};
use thruway_server::{Answer, FieldLinesBuf, Handler, IntoHandler, Request, Response};

use crate::config::forward::{ForwardAction, ForwardTo, MirrorAction};
use crate::config::mcp::resource::{host_of, resource_of_route};
use crate::config::{AccessLogConfig, Action, Config, Failure, FixedAnswer, ListenerConfig, Route};
use crate::fleet::{Archives, Fleet};
use crate::live_store::LiveStore;
use crate::mcp::{EndpointChanges, McpEndpoints, RunningUpstreams};
use crate::shared_health::SharedHealth;
use crate::shared_limits;

/// Components that handlers use: upstreams, policies, counters and others. A reload keeps a component with
/// its connections and sessions if its config has not changed.
#[derive(Default)]
pub(crate) struct Parts {
    upstreams: BTreeMap<String, (UpstreamConfig, Arc<Upstream>)>,
    policies: BTreeMap<String, (PolicyConfig, Arc<Policy>)>,
    /// Connection of shared limits to the store of the fleet. Without it, limits hold for this process.
    limits: Option<SharedLimits>,
    /// Number of refused requests, by route and policy.
    refusals: BTreeMap<(String, String), Arc<RefusalCount>>,
    demo: Option<Arc<dyn Handler>>,
    /// The MCP endpoints of the section `mcp`.
    mcp: McpEndpoints,
    /// MCP endpoints of the demo, by the hosts for which they accept requests.
    demo_mcp: BTreeMap<Vec<String>, Arc<dyn Handler>>,
    /// Number of requests that matched no route.
    unrouted: Arc<RefusalCount>,
    /// Request counters, by route. Empty if the config has no admin listener.
    meters: BTreeMap<String, Arc<RouteMeter>>,
    /// Mirrors, by route.
    mirrors: BTreeMap<String, Arc<Mirror>>,
    /// The store that several gateways share.
    store: LiveStore,
    /// Health news of the upstreams, for the other gateways that share the store.
    health: SharedHealth,
    /// New upstreams that are not started yet, each with the upstream that it replaces, if any.
    fresh: Vec<(Arc<Upstream>, Option<Arc<Upstream>>)>,
}

/// Builds the routes of `config` and their components. Reuses a component of `before` if its config has not
/// changed.
pub(crate) fn build(config: &Config, before: &Parts) -> Result<(ListenerRoutes, Parts), Failure> {
    let mut parts = Parts::of(config, before);
    let (mut routes, mut failures) = (Vec::new(), Vec::new());
    for route in &config.routes {
        let meter = config.is_measured().then(|| parts.meter(config, route, before));
        let is_recorded = config.access_log.as_ref().is_some_and(AccessLogConfig::has_forwarding_fields);
        match parts.handler(config, route, meter, is_recorded, before) {
            Ok(handler) => {
                let handler = match route.bandwidth {
                    Some(bandwidth) => bandwidth.wrap(handler),
                    None => handler,
                };
                let handler = with_error_pages(handler, config, route);
                let handler = with_response_rules(handler, config, route);
                let handler = logged(handler, config, route);
                routes.push((route.matching.clone(), traced(handler, config, route)));
            }
            Err(message) => {
                let span = match &route.action {
                    Action::Files(files) => &files.root_span,
                    _ => &route.span,
                };
                failures.push(config.failure_at(span, message));
            }
        }
    }
    if let Some(failure) = Failure::all(failures) {
        return Err(failure);
    }
    let routes =
        ListenerRoutes::new(&routes).map_err(|unreachable| unreachable_routes(config, &unreachable))?;
    let guards: Vec<_> = config.routes.iter().map(guards_of).collect();
    Ok((routes.guarding(config.readings, &guards).counted_by(&parts.unrouted), parts))
}

/// Returns the guards of `route`, which requests with ambiguous paths must not bypass. Each policy of the
/// route is a guard. A route that does not forward requests is also a guard: the operator may use the route
/// to block a path of an upstream, so a request with another encoding of this path must not reach the
/// upstream.
fn guards_of(route: &Route) -> Vec<String> {
    let is_terminal = match route.action {
        Action::Forward(_) => false,
        Action::Answer(_)
        | Action::Connect(_)
        | Action::Demo
        | Action::DemoMcp
        | Action::Files(_)
        | Action::Handler(_)
        | Action::Mcp(_)
        | Action::Redirect(_)
        | Action::ResourceMetadata(_) => true,
    };
    route.policies.iter().cloned().chain(is_terminal.then(|| route.matching.to_string())).collect()
}

impl Parts {
    /// Returns the components before the first config.
    pub(crate) fn with_store(config: &Config, store: LiveStore) -> Self {
        let (limits, health) = (shared_limits::start(&store), SharedHealth::start(&store));
        let fleet = config
            .shared
            .as_ref()
            .and_then(|shared| shared.peers.as_ref())
            .map(|_| Fleet::new(store.replicas(), store.key()));
        let is_durable = config.shared.as_ref().is_some_and(|shared| shared.is_durable);
        // Nothing survives this process in a store in memory, so it needs no archives.
        let archives = (fleet.clone().zip(store.runtime().cloned()).filter(|_| is_durable))
            .map(|(fleet, runtime)| Archives::new(fleet, store.store().clone(), runtime));
        let mcp = McpEndpoints::in_fleet(fleet, EndpointChanges::start(&store)).with_archives(archives);
        Self { limits, mcp, store, health, ..Self::default() }
    }

    /// Returns the shared limits. Returns `None` if limits hold for this process.
    pub(crate) const fn limits(&self) -> Option<&SharedLimits> {
        self.limits.as_ref()
    }

    /// Returns the exchange of health news with other gateways.
    pub(crate) const fn health(&self) -> &SharedHealth {
        &self.health
    }

    /// Returns the store that several gateways share.
    pub(crate) const fn store(&self) -> &LiveStore {
        &self.store
    }

    /// Builds the upstreams and policies of `config`. Takes upstreams and policies that have not changed
    /// from `before`.
    fn of(config: &Config, before: &Self) -> Self {
        let mcp = McpEndpoints::of(config, &before.mcp);
        let mut parts = Self {
            unrouted: before.unrouted.clone(),
            mcp,
            store: before.store.clone(),
            limits: before.limits.clone(),
            health: before.health.clone(),
            ..Self::default()
        };
        for (name, config) in &config.upstreams {
            let kept = before.upstreams.get(name).filter(|(other, _)| config == other);
            let upstream = kept.map_or_else(|| parts.fresh(name, config, before), |(_, kept)| kept.clone());
            parts.upstreams.insert(name.clone(), (config.clone(), upstream));
        }
        for (name, config) in &config.policies {
            let policy = match before.policies.get(name) {
                Some((other, kept)) if config == other => kept.clone(),
                before => {
                    let before = before.map(|(_, before)| &**before);
                    Arc::new(fresh_policy(name, config, parts.limits.as_ref(), before))
                }
            };
            parts.policies.insert(name.clone(), (config.clone(), policy));
        }
        parts
    }

    /// Builds an upstream that is missing in `before`, or that has a different config there.
    fn fresh(&mut self, name: &str, config: &UpstreamConfig, before: &Self) -> Arc<Upstream> {
        let before = before.upstream(name);
        let upstream = match before {
            Some(before) => Upstream::after(config.clone(), before),
            None => Upstream::new(config.clone()),
        };
        let upstream = Arc::new(upstream.with_health_sharing(self.health.sharing().clone()));
        self.fresh.push((upstream.clone(), before.cloned()));
        upstream
    }

    /// Starts the new upstreams, waits for the first lookup of their server names, and starts the new MCP
    /// endpoints. Call this after all steps that can fail.
    pub(crate) fn start(&mut self, config: &Config) {
        self.start_upstreams();
        let shares_health = config.shared.as_ref().is_some_and(|shared| shared.health);
        self.health.set_upstreams(self.running_upstreams(), shares_health);
        self.mcp.start(config, &self.running_upstreams());
    }

    /// Starts the new upstreams, and waits for the first lookup of their server names.
    pub(crate) fn start_upstreams(&mut self) {
        let start = |(upstream, before): (Arc<Upstream>, Option<Arc<Upstream>>)| {
            if let Some(before) = &before {
                upstream.replace(before);
            }
            upstream.start()
        };
        let lookups: Vec<_> = self.fresh.drain(..).map(start).collect();
        lookups.into_iter().for_each(FirstLookup::wait);
    }

    /// Returns the upstream with this name.
    pub(crate) fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.get(name).map(|(_, upstream)| upstream)
    }

    /// Returns all upstreams.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values().map(|(_, upstream)| upstream)
    }

    /// Returns all upstreams by their names.
    pub(crate) fn running_upstreams(&self) -> RunningUpstreams {
        self.upstreams.iter().map(|(name, (_, upstream))| (name.clone(), upstream.clone())).collect()
    }

    /// Returns the MCP endpoints.
    pub(crate) const fn mcp(&self) -> &McpEndpoints {
        &self.mcp
    }

    /// Copies the admin state of each server from the server with the same address in `before`. Without this
    /// copy, a reload would enable disabled servers.
    pub(crate) fn keep_admin_states_of(&self, before: &Self) {
        for (name, (_, upstream)) in &self.upstreams {
            if let Some((_, before)) = before.upstreams.get(name) {
                upstream.keep_admin_states_of(before);
            }
        }
    }

    /// Returns the request counters of `route`.
    pub(crate) fn meter_of(&self, route: &Route) -> Option<&Arc<RouteMeter>> {
        self.meters.get(&route.label())
    }

    /// Returns the number of requests that matched no route.
    pub(crate) const fn unrouted(&self) -> &Arc<RefusalCount> {
        &self.unrouted
    }

    /// Returns the mirror of `route`.
    pub(crate) fn mirror_of(&self, route: &Route) -> Option<&Arc<Mirror>> {
        self.mirrors.get(&route.label())
    }

    /// Returns the policies of `route` in their order. The number next to a policy is the number of requests
    /// to this route that the policy refused.
    pub(crate) fn refusals_of(&self, route: &Route) -> Vec<(String, Arc<RefusalCount>)> {
        let name = route.label();
        let count = |policy: &String| {
            let count = self.refusals.get(&(name.clone(), policy.clone()))?;
            Some((policy.clone(), count.clone()))
        };
        route.policies.iter().filter_map(count).collect()
    }

    fn meter(&mut self, config: &Config, route: &Route, before: &Self) -> Arc<RouteMeter> {
        let workers = config.workers.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let kept = before.meter_of(route).cloned();
        let meter = kept.unwrap_or_else(|| Arc::new(RouteMeter::new(workers)));
        self.meters.insert(route.label(), meter.clone());
        meter
    }

    /// Builds the handler of `route`. `meter` counts the requests of the route. If `is_recorded` is `true`,
    /// the handler adds data for the access log.
    ///
    /// # Errors
    /// Returns a message for the operator.
    fn handler(
        &mut self,
        config: &Config,
        route: &Route,
        meter: Option<Arc<RouteMeter>>,
        is_recorded: bool,
        before: &Self,
    ) -> Result<Arc<dyn Handler>, String> {
        if !route.policies.is_empty() {
            let handler = self.answering_handler(config, route, None, is_recorded, before)?;
            let handler = compressed(handler, config, route);
            return Ok(measured(self.guarded(config, route, handler, before), config, meter));
        }
        Ok(compressed(self.answering_handler(config, route, meter, is_recorded, before)?, config, route))
    }

    /// Wraps `handler` in the policies of `route`. The policies check each request in the order of the
    /// route. With an access log, responses carry the name of the user.
    fn guarded(
        &mut self,
        config: &Config,
        route: &Route,
        handler: Arc<dyn Handler>,
        before: &Self,
    ) -> Arc<dyn Handler> {
        let is_logged = config.access_log.is_some();
        let resource = resource_of_route(&config.mcp, &config.policies, route);
        let metadata_url = resource.map(|resource| resource.metadata_url());
        let name: Arc<str> = route.label().into();
        let counts_by_user = route.policies.iter().any(|policy| self.policies[policy].0.counts_by_user());
        route.policies.iter().rev().fold(handler, |handler, policy| {
            let place = (name.to_string(), policy.clone());
            let refusals = before.refusals.get(&place).cloned().unwrap_or_default();
            self.refusals.insert(place, refusals.clone());
            // The config was checked, so the policy exists.
            let (settings, policy) = self.policies[policy].clone();
            if let PolicyConfig::ForwardAuth(auth) = settings {
                let server = self.authorization_server(config, &auth);
                let auth = ForwardAuth::new(policy.name(), auth, server, handler);
                return auth.counted_by(refusals).into_handler();
            }
            let guarded = Guarded::new(policy, name.clone(), handler).counted_by(refusals);
            let is_identified = matches!(route.action, Action::Mcp(_)) || counts_by_user;
            let guarded = guarded.recorded(is_logged).identified(is_identified);
            let metadata_url = metadata_url.iter().filter(|_| matches!(settings, PolicyConfig::Jwt(_)));
            metadata_url.cloned().fold(guarded, Guarded::metadata_url).into_handler()
        })
    }

    /// Builds the handler for requests that pass the policies.
    fn answering_handler(
        &mut self,
        config: &Config,
        route: &Route,
        meter: Option<Arc<RouteMeter>>,
        is_recorded: bool,
        before: &Self,
    ) -> Result<Arc<dyn Handler>, String> {
        if let Action::Forward(action) = &route.action {
            let mirror = action.mirror.as_ref().map(|mirror| self.mirror(config, action, mirror));
            let mirror = mirror.map(|mirror| self.keep_mirror(route, mirror, before));
            let forward = |name: &String| {
                let forward = self.forward(config, name, action).recorded(is_recorded);
                let forward = forward.timed(config.is_measured());
                let forward = meter.iter().cloned().fold(forward, Forward::measured_by);
                mirror.iter().cloned().fold(forward, Forward::mirrored_by).into_handler()
            };
            return Ok(match &action.to {
                ForwardTo::Upstream(name) => forward(name),
                ForwardTo::Split { sides, by } => {
                    let sides = sides.iter().map(|(name, weight)| (forward(name), *weight));
                    Split::new(sides, by.as_ref().map(|by| by.key.clone())).into_handler()
                }
            });
        }
        Ok(measured(self.own_handler(config, route, is_recorded, before)?, config, meter))
    }

    /// Builds the handler that sends requests to the upstream with this name. The config was checked, so
    /// the upstream exists.
    fn forward(&self, config: &Config, name: &str, action: &ForwardAction) -> Forward {
        Forward::with_config(self.upstreams[name].1.clone(), forward_config(config, name, action))
    }

    /// Builds the handler that sends requests to the servers of a policy `forward_auth`. The config was
    /// checked, so the upstream exists.
    fn authorization_server(&self, config: &Config, auth: &ForwardAuthConfig) -> Arc<dyn Handler> {
        let of_upstream = config.forwards.get(&auth.upstream).cloned().unwrap_or_default();
        let timeouts = ForwardTimeouts { total: Some(auth.timeout), ..of_upstream.timeouts };
        let settings = ForwardConfig {
            forwarded: ForwardedFields::XForwarded,
            keeps_request_fields: true,
            timeouts,
            ..of_upstream
        };
        let forward = Forward::with_config(self.upstreams[&auth.upstream].1.clone(), settings);
        forward.timed(config.is_measured()).into_handler()
    }

    /// Builds the mirror of a route.
    fn mirror(&self, config: &Config, action: &ForwardAction, mirror: &MirrorAction) -> Mirror {
        let mut forward = forward_config(config, &mirror.upstream, action);
        for name in &mirror.removed {
            // `withhold` cannot fail, because the check of the config has validated the names.
            let _ = forward.rewrite.request.withhold(name);
        }
        Mirror::new(self.upstreams[&mirror.upstream].1.clone(), forward, mirror.config)
    }

    /// Stores the mirror of `route`. The counters of the mirror start with the values of the previous
    /// mirror in `before`.
    fn keep_mirror(&mut self, route: &Route, mirror: Mirror, before: &Self) -> Arc<Mirror> {
        let mirror = Arc::new(match before.mirror_of(route) {
            Some(before) => mirror.continuing_counts_of(before),
            None => mirror,
        });
        self.mirrors.insert(route.label(), mirror.clone());
        mirror
    }

    /// Builds the handler of a route that does not forward requests.
    fn own_handler(
        &mut self,
        config: &Config,
        route: &Route,
        is_recorded: bool,
        before: &Self,
    ) -> Result<Arc<dyn Handler>, String> {
        Ok(match &route.action {
            Action::Answer(answer) => answer.clone().into_handler(),
            Action::Connect(connect) => Connect::new(connect.clone()).recorded(is_recorded).into_handler(),
            Action::Demo => self.demo(before),
            Action::DemoMcp => self.demo_mcp(&hosts(&route.matching), before),
            Action::Files(files) => {
                let opened = files.open().map_err(|error| {
                    format!("cannot serve the directory `{}`: {error}", files.root().display())
                })?;
                Arc::new(opened.encoded_above(may_be_compressed(config, route)))
            }
            Action::Forward(_) => unreachable!("the caller builds handlers that forward"),
            Action::Handler(handler) => handler.clone(),
            Action::Mcp(name) => {
                let resource = resource_of_route(&config.mcp, &config.policies, route);
                let hosts = hosts(&route.matching).into_iter().chain(resource.as_ref().and_then(host_of));
                self.mcp.handler(name, hosts.collect())
            }
            Action::Redirect(redirect) => redirect.clone().into_handler(),
            Action::ResourceMetadata(resource) => {
                let metadata = resource.metadata();
                (move || Response::ok(JSON, metadata.clone())).into_handler()
            }
        })
    }

    fn demo(&mut self, before: &Self) -> Arc<dyn Handler> {
        let demo = self.demo.take().or_else(|| before.demo.clone());
        self.demo.insert(demo.unwrap_or_else(|| thruway_demo::router().into_handler())).clone()
    }

    fn demo_mcp(&mut self, hosts: &[String], before: &Self) -> Arc<dyn Handler> {
        let endpoint = || {
            before.demo_mcp.get(hosts).cloned().unwrap_or_else(|| {
                thruway_demo::mcp::endpoint(hosts, McpServerOptions::default()).into_handler()
            })
        };
        self.demo_mcp.entry(hosts.to_owned()).or_insert_with(endpoint).clone()
    }
}

/// Builds a policy that is new or changed. The policy takes over the fetched keys of the previous policy
/// `before`.
fn fresh_policy(
    name: &str,
    config: &PolicyConfig,
    limits: Option<&SharedLimits>,
    before: Option<&Policy>,
) -> Policy {
    let policy = match limits {
        None => Policy::new(name, config.clone()),
        Some(limits) => Policy::with_shared_limits(name, config.clone(), limits),
    };
    match before {
        Some(before) => policy.in_place_of(before),
        None => policy,
    }
}

/// Returns the settings for requests that a route forwards to the upstream with this name.
fn forward_config(config: &Config, name: &str, action: &ForwardAction) -> ForwardConfig {
    let of_upstream = config.forwards.get(name).cloned().unwrap_or_default();
    ForwardConfig {
        rewrite: action.rewrite.clone(),
        timeouts: action.timeouts,
        request_buffer_bytes_max: action.request_buffer_bytes_max,
        ..of_upstream
    }
}

/// Returns `true` if the compression of `route` depends on the listener.
fn depends_on_listener(config: &Config, route: &Route) -> bool {
    let sets_compression =
        |listener: &ListenerConfig| listener.compression != ListenerCompression::AsElsewhere;
    !route.is_compression_own && config.listeners.iter().any(sets_compression)
}

/// Returns `true` if responses of `route` may be compressed on at least one listener.
fn may_be_compressed(config: &Config, route: &Route) -> bool {
    let is_on = |listener: &ListenerConfig| matches!(listener.compression, ListenerCompression::As(_));
    route.compression.is_some() || (!route.is_compression_own && config.listeners.iter().any(is_on))
}

/// Adds compression to `handler`. The setting of `route` overrides the setting of the listener, which
/// overrides the setting of the server.
fn compressed(handler: Arc<dyn Handler>, config: &Config, route: &Route) -> Arc<dyn Handler> {
    match &route.compression {
        elsewhere if depends_on_listener(config, route) => {
            ByListener::or_else(elsewhere.clone()).wrap(handler)
        }
        Some(compression) => compression.clone().wrap(handler),
        None => handler,
    }
}

/// Wraps `handler` so that the rules of the listener and of `route` change the headers of its responses.
/// Without rules, returns `handler`.
fn with_response_rules(handler: Arc<dyn Handler>, config: &Config, route: &Route) -> Arc<dyn Handler> {
    let of_listeners = config.listeners.iter().any(|listener| listener.response_rules.is_some());
    if of_listeners || route.response_rules.is_some() {
        ResponseRules::wrap(route.response_rules.clone(), handler)
    } else {
        handler
    }
}

/// Wraps `handler` so that the pages of `route`, or else of the listener, replace its error responses. Without
/// pages, returns `handler`.
fn with_error_pages(handler: Arc<dyn Handler>, config: &Config, route: &Route) -> Arc<dyn Handler> {
    match &route.error_pages {
        Some(pages) => pages.clone().wrap(handler),
        None if config.listeners.iter().any(|listener| listener.error_pages.is_some()) => {
            ListenerSettings::wrap_error_pages(handler)
        }
        None => handler,
    }
}

/// Wraps `handler` so that `meter` counts its requests. Without a meter, returns `handler`.
fn measured(handler: Arc<dyn Handler>, config: &Config, meter: Option<Arc<RouteMeter>>) -> Arc<dyn Handler> {
    match meter {
        Some(meter) if config.is_traced() => TracedMeasured::new(handler, meter).into_handler(),
        Some(meter) => Measured::new(handler, meter).into_handler(),
        None => handler,
    }
}

/// Wraps `handler` so that the access log contains the name of the route, or leaves out its requests. If the config
/// demands neither, returns `handler`.
fn logged(handler: Arc<dyn Handler>, config: &Config, route: &Route) -> Arc<dyn Handler> {
    match (&config.access_log, &route.name) {
        (Some(_), _) if !route.is_logged => UnloggedRoute::new(handler).into_handler(),
        (Some(log), Some(name)) if log.has_forwarding_fields() => {
            RecordedRoute::new(name, handler).into_handler()
        }
        _ => handler,
    }
}

/// Wraps `handler` so that traces contain the route. Without tracing, returns `handler`.
fn traced(handler: Arc<dyn Handler>, config: &Config, route: &Route) -> Arc<dyn Handler> {
    if config.is_traced() { TracedRoute::new(&route.label(), handler).into_handler() } else { handler }
}

/// Returns the hosts for which the MCP endpoint of a route accepts requests. The endpoint trusts a host if
/// the route names exactly this host.
fn hosts(matching: &RouteMatch) -> Vec<String> {
    let exact = |host: &HostMatch| match host {
        HostMatch::Exact(host) => Some(host.clone()),
        HostMatch::Any | HostMatch::Below(_) => None,
    };
    matching.hosts.iter().filter_map(exact).collect()
}

/// Builds the error for routes that no request can reach.
fn unreachable_routes(config: &Config, unreachable: &[Unreachable]) -> Failure {
    let failures = unreachable.iter().map(|Unreachable { route, host, listener, taken_by }| {
        let (route, taken_by) = (&config.routes[*route], &config.routes[*taken_by]);
        let is_one_of_several = route.matching.hosts.len() > 1;
        let hint = if route.matching.conditions != taken_by.matching.conditions {
            "move this route before the other route, which has fewer conditions"
        } else if is_one_of_several {
            "remove the host from one of the two routes, or add a condition: `methods`, `headers` or `query`"
        } else {
            "remove this route, or add a condition: `host`, `methods`, `headers` or `query`"
        };
        let mut requests = "no request".to_owned();
        // Writing to a string cannot fail.
        if is_one_of_several {
            let _ = write!(requests, " for the host `{host}`");
        }
        if let Some(listener) = listener.as_ref().filter(|_| route.matching.listeners.len() != 1) {
            let _ = write!(requests, " on the listener `{listener}`");
        }
        let message = format!("{requests} reaches this route");
        let label = if requests == "no request" {
            "this route matches all requests of the other route"
        } else {
            "this route matches all of these requests"
        };
        config.failure_between(&route.span, &message, &taken_by.span, label).with_hint(hint)
    });
    Failure::joined(failures.collect())
}

const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

impl Handler for FixedAnswer {
    fn handle<'a>(&'a self, _: &mut Request<'a>) -> Answer {
        Answer::Now(Response::ok(self.field_lines.clone(), self.content).with_status(self.status))
    }
}
