//! A whole config file: its top-level keys, the checks of all sections, and the JSON Schema.
//!
//! `examples/serve.toml` shows every key with its default.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use thruway_gateway::{AmbiguousPath, PathReadings};

use crate::config::access_log::{RawAccessLog, RawLog, RawLogFormat, resolve_access_log};
use crate::config::acme::{RawAcme, check_challenge, resolve_acme};
use crate::config::admin::{RawAdmin, resolve_admin};
use crate::config::compression::{RawCompression, resolve_compression};
use crate::config::failure::{Source, UnknownKeys};
use crate::config::fleet::{RawShared, resolve_shared};
use crate::config::listeners::{RawListener, check_redirects, resolve_listeners};
use crate::config::mcp::resource::add_metadata_routes;
use crate::config::mcp::{RawMcp, places_of_mcp, resolve_mcp};
use crate::config::peers::check_peer_address;
use crate::config::policies::client_certificate::check_certificates;
use crate::config::policies::{RawPolicy, asking_for_certificates, resolve_policies};
use crate::config::resolver::Resolver;
use crate::config::route_conditions::NamedListener;
use crate::config::routes::{Known, RawRoute, resolve_routes};
use crate::config::server::{
    RawLimits, RawProxyFields, RawTimeouts, resolve_server, resolve_trusted_proxies,
};
use crate::config::settings::{Places, UpstreamPlaces};
use crate::config::telemetry::{RawTelemetry, resolve_telemetry};
use crate::config::upstreams::{RawUpstream, resolve_forwards, resolve_upstreams};
use crate::config::usage::{AboutRequests, check_usage};
use crate::config::values::Spanned;
use crate::config::{Config, Failure, ListenerConfig};

/// The keys of a config file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Raw {
    /// Further files of this config: paths or patterns such as `conf.d/*.toml`, relative to the directory of
    /// this file. In the name of a file, `*` stands for any characters. The files of a pattern are sorted by
    /// name. The listeners and routes of an included file come after those of the previous files. All other
    /// keys, and the names of upstreams, policies, MCP servers, MCP endpoints and issuers, may occur in only
    /// one of the files. An included file cannot include other files. All relative paths in included files
    /// start at the directory of this file. A reload reads all files again. Maximum: 1000 files. Risk: every
    /// user with write access to an included directory controls the gateway. Default: none.
    #[serde(default, rename = "include")]
    #[expect(dead_code, reason = "`include.rs` reads the key before all other keys")]
    pub(in crate::config) included: Vec<String>,
    /// Number of worker threads, 1 to 1024. Default: one per core.
    pub(in crate::config) workers: Option<Spanned<u64>>,
    /// Maximum number of open connections of all workers, 1 to 10000000. Further connections get 503.
    /// Default: the file descriptor limit of the process, minus a reserve for files.
    pub(in crate::config) connections_max: Option<Spanned<u64>>,
    /// With `true`, each worker collects the sends of several connections and passes them to the kernel in
    /// one system call (`io_uring`). The key has no effect on kernels without `io_uring`. Default: true.
    pub(in crate::config) batch_sends: Option<bool>,
    /// Addresses on which the server listens, at least one.
    #[serde(default)]
    pub(in crate::config) listeners: Vec<RawListener>,
    /// The ACME server that issues certificates for listeners. Default: none.
    pub(in crate::config) acme: Option<Spanned<RawAcme>>,
    /// Proxies in front of this server: networks (`10.0.0.0/8`), addresses, or `unix` for all connections
    /// over Unix sockets. The server ignores forwarding headers from all other addresses. Risk: every
    /// machine in these networks can pretend to be any client. Default: none.
    #[serde(default)]
    pub(in crate::config) trusted_proxies: Vec<Spanned<String>>,
    /// Headers from which Thruway reads the client address: `x-forwarded` (`X-Forwarded-For` and similar
    /// headers) or `forwarded` (RFC 7239). Name the headers that the trusted proxies write. Several header
    /// lines with the same name count as one list, in the order of their arrival. Risk: if the proxies do not
    /// write these headers, clients can send them and thus choose the client address. Default: `x-forwarded`.
    #[serde(default)]
    pub(in crate::config) trusted_proxies_write: RawProxyFields,
    /// Routes. At least one route is required, unless every listener has `tcp` or `redirect_to_https`.
    #[serde(default)]
    pub(in crate::config) routes: Vec<Spanned<RawRoute>>,
    /// Treatment of requests with `%2F` or `%5C` in the path: `guard`, `reject` or `keep`. Some upstream
    /// servers decode these characters to slashes, and may then treat the path as a path of another route.
    /// With `guard`, the request gets 400 if this other route has a policy that the selected route does not
    /// have, or if this other route has no upstream. Thruway forwards all other such requests. With `reject`,
    /// all such requests get 400. With `keep`, Thruway forwards them. With each value, requests for paths
    /// such as `/x/..%2Fadmin` get 400. Risk of `keep`: if an upstream server decodes these characters,
    /// clients can bypass policies. Default: `guard`.
    #[serde(default)]
    pub(in crate::config) encoded_slashes: RawAmbiguousPath,
    /// Treatment of requests with `;` in the path: `guard`, `reject` or `keep`. The values have the same
    /// meaning as in `encoded_slashes`. Some upstream servers ignore `;` and the text up to the next slash,
    /// and may then treat the path as a path of another route. Risk of `keep`: if an upstream server ignores
    /// this part of the path, clients can bypass policies. Default: `guard`.
    #[serde(default)]
    pub(in crate::config) path_parameters: RawAmbiguousPath,
    /// Upstreams by name: groups of servers to which routes forward requests.
    #[serde(default)]
    pub(in crate::config) upstreams: BTreeMap<String, Spanned<RawUpstream>>,
    /// Policies by name. A policy is a condition that a request must meet before a route handles the request.
    /// Each route lists the names of its policies.
    #[serde(default)]
    pub(in crate::config) policies: BTreeMap<String, Spanned<RawPolicy>>,
    /// MCP servers, and endpoints that offer the tools of several MCP servers.
    #[serde(default)]
    pub(in crate::config) mcp: RawMcp,
    /// The admin listener. Default: none.
    pub(in crate::config) admin: Option<RawAdmin>,
    /// Compression of responses: `true`, `false`, or a table. A listener or a route can have a different
    /// value. Risk: if a response contains a secret and also text that an attacker can choose, the compressed
    /// length of the response reveals the secret (BREACH). Default: false.
    pub(in crate::config) compression: Option<RawCompression>,
    /// The access log, with one line for each request. Default: none.
    pub(in crate::config) access_log: Option<RawAccessLog>,
    /// The program's own log on the standard error.
    #[serde(default)]
    pub(in crate::config) log: RawLog,
    /// Distributed tracing. Default: none.
    pub(in crate::config) telemetry: Option<RawTelemetry>,
    /// The store that several gateways share. Default: each gateway keeps its own state.
    pub(in crate::config) shared: Option<Spanned<RawShared>>,
    /// Limits for requests.
    #[serde(default)]
    pub(in crate::config) limits: RawLimits,
    /// Timeouts of client connections.
    #[serde(default)]
    pub(in crate::config) timeouts: RawTimeouts,
}

/// Treatment of paths that upstream servers may read differently than Thruway.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum RawAmbiguousPath {
    #[default]
    Guard,
    Keep,
    Reject,
}

/// Returns the hosts of all routes, as written.
fn hosts_of(routes: &[Spanned<RawRoute>]) -> Vec<String> {
    let hosts = routes.iter().filter_map(|route| route.get_ref().host.as_ref());
    hosts.flat_map(|hosts| hosts.get_ref().iter().map(str::to_owned)).collect()
}

/// Checks the keys in `raw` and returns the settings. `source` is the text from which they were parsed, and `unknown`
/// contains the errors about unknown keys.
///
/// # Errors
/// Returns all errors, not only the first.
pub(in crate::config) fn resolve(raw: Raw, unknown: UnknownKeys, source: Source) -> Result<Config, Failure> {
    let mut resolver = Resolver::new(&source, hosts_of(&raw.routes));
    let places = places_of(&raw);
    let workers = resolver.count(raw.workers, 1..=1024);
    let connections_max = resolver.count(raw.connections_max, 1..=10_000_000);
    let forwards = resolve_forwards(&mut resolver, &raw.upstreams);
    let about_requests = AboutRequests::of(&raw.upstreams);
    let required_for_ready = required_for_ready(&raw.upstreams);
    let upstreams = resolve_upstreams(&mut resolver, raw.upstreams);
    let acme_span = raw.acme.as_ref().map(|acme| acme.span());
    resolver.acme = raw.acme.and_then(|acme| resolve_acme(&mut resolver, acme));
    let shared = raw.shared.map(|shared| resolve_shared(&mut resolver, shared));
    resolver.shares_secrets = shared.as_ref().is_some_and(|shared| shared.store.is_some());
    let named_listeners = NamedListener::all(&raw.listeners);
    let listeners = resolve_listeners(&mut resolver, raw.listeners, &upstreams);
    let peers = shared.as_ref().and_then(|shared| shared.peers.as_ref());
    check_peer_address(&mut resolver, peers, &listeners);
    let admin = raw.admin.and_then(|admin| resolve_admin(&mut resolver, admin, &listeners));
    check_challenge(&mut resolver, acme_span.as_ref(), &listeners);
    let asking_for_certificates = asking_for_certificates(&raw.policies);
    let policies = resolve_policies(&mut resolver, raw.policies, &upstreams);
    // TCP listeners and listeners that redirect to https need no routes.
    let needs_routes = listeners.is_empty() || listeners.iter().any(ListenerConfig::has_routes);
    check_redirects(&mut resolver, &listeners, !raw.routes.is_empty());
    let compression = raw.compression.and_then(|compression| resolve_compression(&mut resolver, compression));
    let mcp = resolve_mcp(&mut resolver, raw.mcp, &upstreams);
    let known = Known {
        listeners: &named_listeners,
        upstreams: &upstreams,
        policies: &policies,
        mcp: &mcp,
        compression: compression.as_ref(),
    };
    let mut routes = resolve_routes(&mut resolver, raw.routes, known, needs_routes);
    let access_log = raw.access_log.map(|log| resolve_access_log(&mut resolver, log, &policies));
    let telemetry = raw.telemetry.and_then(|telemetry| resolve_telemetry(&mut resolver, telemetry));
    let trusted_proxies =
        resolve_trusted_proxies(&mut resolver, &raw.trusted_proxies, raw.trusted_proxies_write);
    let server = resolve_server(&mut resolver, raw.limits, raw.timeouts, trusted_proxies);
    if resolver.failures.is_empty() {
        check_usage(&mut resolver, about_requests, &listeners, &routes, &mcp);
        add_metadata_routes(&mut resolver, &mut routes, &mcp, &places.mcp, &policies);
        check_certificates(&mut resolver, asking_for_certificates, &listeners, &routes);
    }
    let acme = resolver.acme.take();
    let failures = unknown.and(resolver.failures, &source);
    match Failure::all(failures) {
        Some(failure) => Err(failure),
        None => Ok(Config {
            listeners,
            routes,
            upstreams,
            forwards,
            required_for_ready,
            readings: path_readings(raw.encoded_slashes, raw.path_parameters),
            policies: policies.into_iter().filter_map(|(name, policy)| Some((name, policy?))).collect(),
            mcp,
            acme,
            admin,
            access_log,
            logs_json: raw.log.format == RawLogFormat::Json,
            telemetry,
            shared,
            workers,
            connections_max,
            batch_sends: raw.batch_sends.unwrap_or(true),
            server,
            source: Some(source),
            places,
        }),
    }
}

/// Returns the names of the upstreams with `required_for_ready`.
fn required_for_ready(raw: &BTreeMap<String, Spanned<RawUpstream>>) -> BTreeSet<String> {
    let required = raw.iter().filter(|(_, raw)| raw.get_ref().required_for_ready == Some(true));
    required.map(|(name, _)| name.clone()).collect()
}

const fn path_readings(encoded_slashes: RawAmbiguousPath, parameters: RawAmbiguousPath) -> PathReadings {
    PathReadings { encoded_slashes: ambiguous_path(encoded_slashes), parameters: ambiguous_path(parameters) }
}

const fn ambiguous_path(raw: RawAmbiguousPath) -> AmbiguousPath {
    match raw {
        RawAmbiguousPath::Guard => AmbiguousPath::Guard,
        RawAmbiguousPath::Keep => AmbiguousPath::Keep,
        RawAmbiguousPath::Reject => AmbiguousPath::Reject,
    }
}

/// Returns the positions of upstreams, policies, MCP servers and MCP endpoints in the file.
fn places_of(raw: &Raw) -> Places {
    let upstreams = raw.upstreams.iter().map(|(name, upstream)| {
        let servers = upstream.get_ref().servers.iter().map(|server| server.span()).collect();
        (name.clone(), UpstreamPlaces { span: upstream.span(), servers })
    });
    let policies = raw.policies.iter().map(|(name, policy)| (name.clone(), policy.span()));
    Places { upstreams: upstreams.collect(), policies: policies.collect(), mcp: places_of_mcp(&raw.mcp) }
}

/// Returns the JSON Schema of a config file, for editors.
pub fn schema() -> Schema {
    let settings = SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(leave_out_null))
        .with_transform(RecursiveTransform(allow_variables));
    let mut schema = settings.into_generator().into_root_schema_for::<Raw>();
    schema.insert("title".to_owned(), "A config of `thruway serve`".into());
    schema
}

/// Removes the type `null` from the schema, because TOML has no null.
fn leave_out_null(schema: &mut Schema) {
    let pair = |key| <&[_; 2]>::try_from(schema.get(key)?.as_array()?.as_slice()).ok();
    if let Some([name, null]) = pair("type")
        && null == "null"
    {
        let name = name.clone();
        schema.insert("type".to_owned(), name);
    } else if let Some([one, null]) = pair("anyOf")
        && null["type"] == "null"
    {
        let one = one.as_object().cloned().unwrap_or_default();
        schema.remove("anyOf");
        schema.ensure_object().extend(one);
    }
}

/// Allows a string in place of a number or boolean, because an environment variable may contain the value.
fn allow_variables(schema: &mut Schema) {
    let Some(kind) = schema.get("type").and_then(|kind| kind.as_str()).map(str::to_owned) else { return };
    if matches!(kind.as_str(), "boolean" | "integer" | "number") && schema.get("const").is_none() {
        schema.insert("type".to_owned(), vec![kind, "string".to_owned()].into());
        schema.insert("pattern".to_owned(), r"\$\{".into());
    }
}
