//! The section `routes`: conditions for requests, and actions.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;
use thruway_gateway::{
    Conditions, ForwardTimeouts, InvalidRedirect, PathMatch, PolicyConfig, Redirect, RouteMatch, RoutePaths,
};
use thruway_server::layers::Compression;
use thruway_server::{Method, StatusCode};

use crate::config::answer::{RawAnswer, resolve_answer};
use crate::config::compression::{RawCompression, resolve_compression};
use crate::config::connect_method::{RawConnect, resolve_connect};
use crate::config::error_pages::{RawErrorPages, resolve_error_pages};
use crate::config::files::{RawFiles, resolve_files};
use crate::config::forward::{ForwardAction, ForwardTo};
use crate::config::mcp::route_keys::{RawDemo, RawMcpAction, resolve_mcp_action};
use crate::config::mcp::settings::McpSettings;
use crate::config::names::UniqueNames;
use crate::config::policies::{ResolvedPolicies, resolve_route_policies};
use crate::config::resolver::{Resolver, refuse_without_upstream, resolve_some_period};
use crate::config::response_rules::{
    RawBandwidth, RawResponseRule, resolve_bandwidth, resolve_response_rules,
};
use crate::config::rewrite::{RawRewrite, groups_hint, resolve_rewrite};
use crate::config::route_conditions::{
    NamedListener, RawExpected, RawHosts, RawNegated, resolve_expected, resolve_headers, resolve_hosts,
    resolve_methods, resolve_path, resolve_pattern, resolve_route_listeners, resolve_special,
};
use crate::config::shares::{RawMirror, RawSplit, resolve_mirror, resolve_split};
use crate::config::upstreams::known_upstream;
use crate::config::values::{Period, Span, Spanned};
use crate::config::{Action, Failure, Route, Upstreams};

/// A route: the requests that it matches, and exactly one action for them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("allOf" = path_and_action()))]
pub(in crate::config) struct RawRoute {
    /// Name of the route in access logs, metrics, traces, `/status` and `thruway check`: 1 to 64 letters,
    /// digits, `-`, `_` and `.`. Each name may occur only once. After a reload, a route with the same name
    /// keeps its counters, also with other conditions. Default: a description of the requests, such as
    /// `example.com/api and below`.
    pub(in crate::config) name: Option<Spanned<String>>,
    /// Host of the request: `example.com`, or `*.example.com` for all subdomains. An array lists several
    /// hosts: `["example.com", "*.example.com"]`. The port does not matter. Default: any host.
    pub(in crate::config) host: Option<Spanned<RawHosts>>,
    /// Matches this path and all paths below it. A route has at most one of `path`, `path_exact` and
    /// `path_pattern`. A route without them needs `path_regex` or `extensions`. Default: `/` if the route has
    /// `path_regex` or `extensions`.
    pub(in crate::config) path: Option<Spanned<String>>,
    /// Matches this path only.
    pub(in crate::config) path_exact: Option<Spanned<String>>,
    /// Matches paths with this pattern, such as `/users/{id}` or `/static/{*rest}`.
    pub(in crate::config) path_pattern: Option<Spanned<String>>,
    /// Regular expression that the path must match, such as `'^/users/(?<id>[0-9]+)$'`. It matches if any
    /// part of the path matches: `^` and `$` stand for the start and the end. Thruway normalizes the path
    /// first, so `%61` becomes `a`, and `%20` stays. The syntax is that of the Rust crate `regex`, without
    /// Unicode classes: `\d`, `\w` and `(?i)` apply to ASCII. `rewrite`, `redirect` and the values of headers
    /// can contain the groups as `{id}` or `{1}`. A `$` needs no second `$` here. Maximum size of the
    /// compiled expression: 1 MiB. Default: none.
    pub(in crate::config) path_regex: Option<Spanned<String>>,
    /// File extensions of the path: `["php", "html"]` matches paths whose last segment ends with `.php` or
    /// `.html`. The case matters. Default: all paths.
    pub(in crate::config) extensions: Option<Spanned<Vec<Spanned<String>>>>,
    /// Methods of the request. `GET` includes `HEAD`. Default: all.
    pub(in crate::config) methods: Option<Spanned<Vec<Spanned<String>>>>,
    /// Headers that the request must have: `{ NAME = "value" }`, `{ NAME = true }` for any value, or
    /// `{ NAME = { regex = "…" } }` for a regular expression. Default: none.
    #[serde(default)]
    pub(in crate::config) headers: BTreeMap<Spanned<String>, Spanned<RawExpected>>,
    /// Query parameters that the request must have, written as in `headers`. Default: none.
    #[serde(default)]
    pub(in crate::config) query: BTreeMap<Spanned<String>, Spanned<RawExpected>>,
    /// Conditions that the request must not meet. If the request meets one of them, the route does not match.
    /// Default: none.
    pub(in crate::config) not: Option<Spanned<RawNegated>>,
    /// Names of the listeners whose requests match the route. Requests on other listeners do not match it.
    /// Default: all listeners.
    pub(in crate::config) listeners: Option<Spanned<Vec<Spanned<String>>>>,
    /// Names of the policies that a request must pass, in this order. Risk of the default: all clients reach
    /// the route. Default: none.
    #[serde(default)]
    pub(in crate::config) policies: Vec<Spanned<String>>,
    /// Compression of responses: `true`, `false`, or a table. Default: the key `compression` of the listener,
    /// or else the top-level key `compression`.
    pub(in crate::config) compression: Option<RawCompression>,
    /// Pages for the error responses of this route: errors of policies, of files and of forwarding, and fixed
    /// responses. Default: the key `error_pages` of the listener.
    pub(in crate::config) error_pages: Option<Spanned<RawErrorPages>>,
    /// Rate at which Thruway sends the body of each response of this route: files, fixed responses and forwarded
    /// responses, but not tunnels. Default: no limit.
    pub(in crate::config) bandwidth: Option<RawBandwidth>,
    /// Changes to the headers of all responses of this route: files, fixed responses, redirects, forwarded
    /// responses, and the error responses of policies and of Thruway. Thruway applies the rules in this
    /// order, after the rules of the listener. Default: none.
    #[serde(default)]
    pub(in crate::config) response_rules: Vec<Spanned<RawResponseRule>>,
    /// `false` leaves the requests of this route out of the access log. A request is still logged if the
    /// client disconnects before the response. Default: true.
    pub(in crate::config) access_log: Option<bool>,
    /// Action: sends a fixed response.
    pub(in crate::config) respond: Option<RawAnswer>,
    /// Action: opens tunnels for CONNECT requests.
    pub(in crate::config) connect: Option<Spanned<RawConnect>>,
    /// Action: `true` serves the HTTP endpoints of the demo, and `"mcp"` serves its MCP endpoint.
    pub(in crate::config) demo: Option<RawDemo>,
    /// Action: serves a directory of files.
    pub(in crate::config) files: Option<RawFiles>,
    /// Action: serves the MCP endpoint with this name, an `[mcp.endpoints.NAME]`.
    pub(in crate::config) mcp: Option<Spanned<RawMcpAction>>,
    /// Action: redirects the client to another URL.
    pub(in crate::config) redirect: Option<RawRedirect>,
    /// Action: distributes requests over several upstreams, for example for a canary release.
    pub(in crate::config) split: Option<Spanned<RawSplit>>,
    /// Action: forwards requests to the upstream with this name.
    pub(in crate::config) upstream: Option<Spanned<String>>,
    /// Changes to forwarded requests and their responses. This key requires `split` or `upstream`. Default:
    /// none.
    pub(in crate::config) rewrite: Option<Spanned<RawRewrite>>,
    /// Upstream that gets copies of the requests. This key requires `split` or `upstream`. Default: none.
    pub(in crate::config) mirror: Option<Spanned<RawMirror>>,
    /// Maximum length in bytes of request bodies that Thruway reads completely before it selects a server, 1 to
    /// 67108864. So slow uploads do not occupy a server. Longer bodies get 413. Thruway keeps the body in memory until
    /// the response begins, so requests in flight can need this number of bytes each. This key requires `split` or
    /// `upstream`. Default: none, Thruway forwards bodies as they arrive.
    pub(in crate::config) request_buffer_bytes_max: Option<Spanned<usize>>,
    /// Same effect as `response_header_timeout` of the upstream, for requests of this route. This key
    /// requires `split` or `upstream`. Default: the value of the upstream.
    pub(in crate::config) response_header_timeout: Option<Spanned<Period>>,
    /// Same effect as `body_idle_timeout` of the upstream, for requests of this route. This key requires
    /// `split` or `upstream`. Default: the value of the upstream.
    pub(in crate::config) body_idle_timeout: Option<Spanned<Period>>,
    /// Same effect as `event_stream_idle_timeout` of the upstream, for requests of this route. This key
    /// requires `split` or `upstream`. Default: the value of the upstream.
    pub(in crate::config) event_stream_idle_timeout: Option<Spanned<Period>>,
    /// Same effect as `total_timeout` of the upstream, for requests of this route. This key requires `split`
    /// or `upstream`. Default: the value of the upstream.
    pub(in crate::config) total_timeout: Option<Spanned<Period>>,
}

/// A redirect.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawRedirect {
    /// Target URL. It begins with `https://`, `http://` or `/`. `{host}`, `{path}` and `{query}` insert parts
    /// of the request. `{host}` has no port. `{path}` is the original path: percent-encoded and not
    /// normalized. `{rest}` inserts the part of the request's path after the `path` of the route. After the
    /// host and a slash, the target can also contain the parameters of `path_pattern` and the groups of
    /// `path_regex`.
    pub(in crate::config) to: Spanned<String>,
    /// Status of the redirect: 301, 302, 303, 307 or 308. Default: 308.
    pub(in crate::config) status: Option<Spanned<u16>>,
}

const PATHS: [&str; 3] = ["path", "path_exact", "path_pattern"];
const ACTION_KEYS: [&str; 8] =
    ["connect", "demo", "files", "mcp", "redirect", "respond", "split", "upstream"];

/// Returns schemas that require exactly one action, and one path or another condition on the path.
fn path_and_action() -> Vec<Schema> {
    let each = |keys: &[&str]| -> Vec<Schema> {
        keys.iter().map(|key| json_schema!({ "required": [key] })).collect()
    };
    let (mut paths, actions) = (each(&PATHS), each(&ACTION_KEYS));
    let no_path = json_schema!({ "not": { "anyOf": each(&PATHS) } });
    paths.push(json_schema!({ "anyOf": each(&["path_regex", "extensions"]), "allOf": [no_path] }));
    vec![json_schema!({ "oneOf": paths }), json_schema!({ "oneOf": actions })]
}

/// The upstreams, policies, MCP endpoints and compression to which routes refer.
#[derive(Clone, Copy)]
pub(in crate::config) struct Known<'k> {
    pub(in crate::config) listeners: &'k [NamedListener],
    pub(in crate::config) upstreams: &'k Upstreams,
    pub(in crate::config) policies: &'k ResolvedPolicies,
    pub(in crate::config) mcp: &'k McpSettings,
    /// Compression of routes that do not set `compression`.
    pub(in crate::config) compression: Option<&'k Compression>,
}

/// Resolves the routes. If `needs_routes` is `true`, refuses a config without routes.
pub(in crate::config) fn resolve_routes(
    resolver: &mut Resolver<'_>,
    raw: Vec<Spanned<RawRoute>>,
    known: Known<'_>,
    needs_routes: bool,
) -> Vec<Route> {
    if raw.is_empty() && needs_routes {
        resolver.failures.push(
            Failure::new(format!("`{}` has no route", resolver.source.path.display()))
                .with_hint("add one: `[[routes]]` and below it `path = \"/\"` and `demo = true`"),
        );
    }
    let mut names = UniqueNames::of("route");
    raw.into_iter().filter_map(|route| resolve_route(resolver, route, known, &mut names)).collect()
}

fn resolve_route(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawRoute>,
    known: Known<'_>,
    names: &mut UniqueNames,
) -> Option<Route> {
    let Known { policies, compression, .. } = known;
    let span = raw.span();
    let mut raw = raw.into_inner();
    let name = names.resolve(resolver, raw.name.take());
    let hosts = resolve_hosts(resolver, raw.host.take());
    let path = resolve_path_match(resolver, &mut raw, &span);
    check_tunnel_route(resolver, &raw, path.as_ref());
    let conditions = resolve_conditions(resolver, &mut raw);
    let listeners = resolve_route_listeners(resolver, raw.listeners.take(), known.listeners);
    check_policy_headers(resolver, &raw, policies);
    let policies = resolve_route_policies(resolver, std::mem::take(&mut raw.policies), policies);
    let is_compression_own = raw.compression.is_some();
    let compression = match raw.compression.take() {
        None => compression.cloned(),
        Some(own) => resolve_compression(resolver, own),
    };
    let response_rules = std::mem::take(&mut raw.response_rules);
    let regex = conditions.special.as_ref().and_then(|special| special.path_regex.clone());
    let paths = path.as_ref().map(|path| RoutePaths { path, regex: regex.as_ref() });
    let response_rules = paths.and_then(|paths| resolve_response_rules(resolver, response_rules, paths));
    let error_pages = raw.error_pages.take().map(|pages| resolve_error_pages(resolver, pages));
    let bandwidth = raw.bandwidth.take().map(|bandwidth| resolve_bandwidth(resolver, bandwidth));
    let is_logged = raw.access_log.unwrap_or(true);
    let mcp_span = raw.mcp.as_ref().map(|mcp| mcp.span());
    let action = resolve_action(resolver, raw, &span, paths, known);
    if let (Some(Action::Mcp(endpoint)), Some(span)) = (&action, mcp_span) {
        check_claims(resolver, known, &policies, endpoint, &span);
        check_caller_tokens(resolver, known, &policies, endpoint, &span);
    }
    Some(Route {
        name,
        matching: RouteMatch { hosts, path: path?, conditions, listeners },
        policies,
        compression,
        is_compression_own,
        response_rules,
        error_pages,
        bandwidth,
        is_logged,
        action: action?,
        span,
    })
}

/// Refuses a route to an MCP endpoint if the policies of the route do not verify the claims that the rules of
/// the endpoint require.
fn check_claims(
    resolver: &mut Resolver<'_>,
    known: Known<'_>,
    policies: &[String],
    endpoint: &str,
    span: &Span,
) {
    let configs = || policies.iter().filter_map(|name| known.policies.get(name)?.as_ref());
    let has_tokens = configs().any(|config| matches!(config, PolicyConfig::Jwt(_)));
    let is_user_policy = |config: &PolicyConfig| {
        matches!(config, PolicyConfig::ApiKeys(_) | PolicyConfig::BasicAuth(_) | PolicyConfig::Oidc(_))
    };
    let has_users = configs().any(is_user_policy);
    let is_known = |claim: &str| has_tokens || (has_users && claim == "sub");
    if let Some(claim) = known.mcp.endpoints.get(endpoint).and_then(|config| config.claim_without(is_known)) {
        let message = format!(
            "the rules of the MCP endpoint `{endpoint}` require the claim `{}`, but no policy of this route \
             verifies it",
            claim.escape_debug()
        );
        let failure = resolver.source.failure(span.clone(), message);
        resolver.failures.push(failure.with_hint("add a policy of the kind `jwt` to the route"));
    }
}

/// Refuses a route without verified tokens to an MCP endpoint that exchanges the tokens of callers.
fn check_caller_tokens(
    resolver: &mut Resolver<'_>,
    known: Known<'_>,
    policies: &[String],
    endpoint: &str,
    span: &Span,
) {
    let is_jwt = |name: &String| matches!(known.policies.get(name), Some(Some(PolicyConfig::Jwt(_))));
    let server = known.mcp.server_with_caller_tokens(endpoint);
    if let Some(server) = server.filter(|_| !policies.iter().any(is_jwt)) {
        let message = format!(
            "the MCP server `{server}` needs the tokens of the callers, but no policy of this route verifies \
             tokens"
        );
        let failure = resolver.source.failure(span.clone(), message);
        resolver.failures.push(failure.with_hint("add a policy of the kind `jwt` to the route"));
    }
}

/// Refuses a rewrite of a request header that a policy of the same route sets. Otherwise, the rewrite would
/// replace the value of the policy.
fn check_policy_headers(resolver: &mut Resolver<'_>, raw: &RawRoute, policies: &ResolvedPolicies) {
    let Some(rewrite) = &raw.rewrite else { return };
    let fields = &rewrite.get_ref().request;
    for name in fields.remove.iter().chain(fields.set.keys()).chain(fields.add.keys()) {
        let owns = |policy: &&Spanned<String>| {
            let config = policies.get(policy.get_ref()).and_then(Option::as_ref);
            config.is_some_and(|config| config.owns_field(name.get_ref()))
        };
        if let Some(owner) = raw.policies.iter().find(owns) {
            let message = format!(
                "the policy `{}` of this route already sets this header",
                owner.get_ref().escape_debug()
            );
            resolver.refuse_with(name, message, "use another header, or remove the header from the policy");
        }
    }
}

fn resolve_path_match(resolver: &mut Resolver<'_>, raw: &mut RawRoute, span: &Span) -> Option<PathMatch> {
    match (raw.path.take(), raw.path_exact.take(), raw.path_pattern.take()) {
        (Some(path), None, None) => Some(PathMatch::Prefix(resolve_path(resolver, path))),
        (None, Some(path), None) => Some(PathMatch::Exact(resolve_path(resolver, path))),
        (None, None, Some(pattern)) => resolve_pattern(resolver, &pattern).map(PathMatch::Pattern),
        (None, None, None) if raw.path_regex.is_some() || raw.extensions.is_some() => {
            Some(PathMatch::Prefix("/".to_owned()))
        }
        _ => {
            resolver.refuse_at(span, "a route needs exactly one of `path`, `path_exact` and `path_pattern`");
            None
        }
    }
}

fn resolve_conditions(resolver: &mut Resolver<'_>, raw: &mut RawRoute) -> Conditions {
    let methods = match raw.methods.take() {
        _ if raw.connect.is_some() => vec![Method::Connect.as_str().to_owned()],
        Some(methods) => resolve_methods(resolver, methods),
        None => Vec::new(),
    };
    let (headers, query) = (std::mem::take(&mut raw.headers), std::mem::take(&mut raw.query));
    let special = resolve_special(resolver, raw.path_regex.as_ref(), raw.extensions.take(), raw.not.take());
    Conditions {
        methods,
        headers: resolve_headers(resolver, headers),
        query: resolve_expected(resolver, query),
        special,
    }
}

/// Returns the action of a route. Refuses a route without an action, or with several actions.
fn resolve_action(
    resolver: &mut Resolver<'_>,
    mut raw: RawRoute,
    span: &Span,
    paths: Option<RoutePaths<'_>>,
    known: Known<'_>,
) -> Option<Action> {
    let timeouts = resolve_forward_timeouts(resolver, &mut raw);
    let request_buffer_bytes_max = raw.request_buffer_bytes_max.take();
    let RawRoute { respond, connect, demo, files, mcp, redirect, split, upstream, rewrite, mirror, .. } = raw;
    if split.is_none() && upstream.is_none() {
        refuse_without_upstream(resolver, rewrite.as_ref());
        refuse_without_upstream(resolver, mirror.as_ref());
        refuse_without_upstream(resolver, request_buffer_bytes_max.as_ref());
    }
    let demo = demo.and_then(RawDemo::action);
    let connect = connect.map(|connect| resolve_connect(resolver, connect));
    let to = match (respond, demo, files, mcp, redirect, split, upstream) {
        (None, None, None, None, None, None, None) if let Some(connect) = connect => {
            return Some(Action::Connect(connect));
        }
        _ if connect.is_some() => {
            resolver.refuse_at(span, ACTIONS);
            return None;
        }
        (Some(answer), None, None, None, None, None, None) => {
            return Some(Action::Answer(resolve_answer(resolver, answer)));
        }
        (None, Some(demo), None, None, None, None, None) => return Some(demo),
        (None, None, Some(files), None, None, None, None) => {
            return Some(Action::Files(resolve_files(resolver, files)));
        }
        (None, None, None, Some(mcp), None, None, None) => {
            return resolve_mcp_action(resolver, &mcp, &known.mcp.endpoints);
        }
        (None, None, None, None, Some(redirect), None, None) => {
            return resolve_redirect(resolver, redirect, paths?).map(Action::Redirect);
        }
        (None, None, None, None, None, Some(split), None) => resolve_split(resolver, split, known.upstreams),
        (None, None, None, None, None, None, Some(name)) => {
            known_upstream(resolver, &name, known.upstreams).map(ForwardTo::Upstream)
        }
        _ => {
            resolver.refuse_at(span, ACTIONS);
            return None;
        }
    };
    let rewrite = rewrite.map(Spanned::into_inner).zip(paths);
    let rewrite =
        rewrite.map(|(rewrite, paths)| resolve_rewrite(resolver, rewrite, paths)).unwrap_or_default();
    let mirror = mirror.and_then(|mirror| resolve_mirror(resolver, mirror.into_inner(), known.upstreams));
    let request_buffer_bytes_max = request_buffer_bytes_max
        .map(|bytes| resolver.or(Some(bytes), REQUEST_BUFFER_BYTES_MAX, 1..=REQUEST_BUFFER_BYTES_MAX));
    Some(Action::Forward(Box::new(ForwardAction {
        to: to?,
        rewrite,
        mirror,
        timeouts,
        request_buffer_bytes_max,
    })))
}

fn resolve_redirect(
    resolver: &mut Resolver<'_>,
    RawRedirect { to, status }: RawRedirect,
    paths: RoutePaths<'_>,
) -> Option<Redirect> {
    let code = status.as_ref().map_or(308, |status| *status.get_ref());
    let status_code = StatusCode::new(code).unwrap_or(StatusCode::OK);
    match (Redirect::for_route(to.get_ref(), status_code, paths), status) {
        (Ok(redirect), _) => return Some(redirect),
        (Err(error @ InvalidRedirect::Status), Some(status)) => resolver.refuse(&status, error),
        (Err(error @ InvalidRedirect::Placeholder), _) if let Some(hint) = groups_hint(paths) => {
            resolver.refuse_with(&to, error, &hint);
        }
        (Err(error), _) => resolver.refuse(&to, error),
    }
    None
}

const ACTIONS: &str = "a route needs exactly one of `connect`, `demo`, `files`, `mcp`, `redirect`, `respond`, `split` and `upstream`";

/// Maximum of `request_buffer_bytes_max`: 64 MiB.
const REQUEST_BUFFER_BYTES_MAX: usize = 64 << 20;

/// Refuses conditions on path, query and methods in a route with `connect`, because CONNECT requests have
/// neither a path nor a query.
pub(in crate::config) fn check_tunnel_route(
    resolver: &mut Resolver<'_>,
    raw: &RawRoute,
    path: Option<&PathMatch>,
) {
    let Some(connect) = &raw.connect else { return };
    let is_everywhere =
        matches!(path, None | Some(PathMatch::Prefix(_))) && path.is_none_or(|path| path.as_str() == "/");
    if !is_everywhere {
        resolver.refuse_with(connect, "CONNECT requests have no path", "write `path = \"/\"`");
    }
    if raw.path_regex.is_some() || raw.extensions.is_some() {
        let hint = "remove `path_regex` and `extensions`, and write `path = \"/\"`";
        resolver.refuse_with(connect, "CONNECT requests have no path", hint);
    }
    if let Some(not) = &raw.not {
        resolver.refuse_with(not, "routes for CONNECT requests do not support `not`", "use `policies`");
    }
    if !raw.query.is_empty() {
        resolver.refuse_with(connect, "CONNECT requests have no query", "remove `query`");
    }
    if raw.methods.is_some() {
        resolver.refuse_with(connect, "only CONNECT requests open tunnels", "remove `methods`");
    }
}

/// Returns the timeouts of a route, which override the timeouts of the upstream. Refuses invalid timeouts.
pub(in crate::config) fn resolve_forward_timeouts(
    resolver: &mut Resolver<'_>,
    raw: &mut RawRoute,
) -> ForwardTimeouts {
    let is_forwarded = raw.upstream.is_some() || raw.split.is_some();
    let mut take = |period: &mut Option<Spanned<Period>>| {
        if !is_forwarded {
            refuse_without_upstream(resolver, period.as_ref());
        }
        resolve_some_period(resolver, period.take())
    };
    ForwardTimeouts {
        head: take(&mut raw.response_header_timeout),
        content_idle: take(&mut raw.body_idle_timeout),
        event_stream_idle: take(&mut raw.event_stream_idle_timeout),
        total: take(&mut raw.total_timeout),
    }
}
