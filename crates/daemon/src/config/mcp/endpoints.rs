//! The tables `[mcp.endpoints.NAME]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::access_log::log_target;
use crate::config::mcp::limits::{RawMcpLimit, resolve_limits};
use crate::config::mcp::resource::resolve_resource;
use crate::config::mcp::rules::{RawMcpRule, resolve_rules};
use crate::config::mcp::search::{RawMcpSearch, resolve_search};
use crate::config::mcp::servers::ResolvedServers;
use crate::config::mcp::settings::{McpEndpointConfig, McpEndpoints, McpNames};
use crate::config::resolver::{ANY_PERIOD, Resolver, SOME_PERIOD, known_hint};
use crate::config::values::{Period, Span, Spanned};

/// An MCP endpoint that offers the tools, resources and prompts of several MCP servers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMcpEndpoint {
    /// Names of `[mcp.servers.NAME]`, at least one. If several servers have a resource with the same URI, the
    /// first of these servers in this list gets the request.
    pub(in crate::config) servers: Spanned<Vec<Spanned<String>>>,
    /// Names of tools and prompts: `prefixed` (`SERVER__NAME`) or `plain` (`NAME`). If several servers have a
    /// tool with the same plain name, the endpoint offers none of these tools, unless `prefer` selects one.
    /// Default: `prefixed`.
    #[serde(default)]
    pub(in crate::config) names: McpNames,
    /// Order of preference for plain names. If several servers have a tool with the same name, the endpoint
    /// offers the tool of the first of these servers in this list. This key requires `names = "plain"`. Default: none.
    #[serde(default)]
    pub(in crate::config) prefer: Vec<Spanned<String>>,
    /// Maximum time for which a list waits for servers that are not connected. The list then lacks these
    /// servers. Default: 2s.
    pub(in crate::config) list_wait: Option<Spanned<Period>>,
    /// Maximum time for which Thruway and clients cache a list. Servers can set a shorter time. Default: 5m.
    pub(in crate::config) list_ttl_max: Option<Spanned<Period>>,
    /// Access rules. With rules, a caller can see and use only the tools, resources and prompts that a matching
    /// rule permits. For all others, the caller gets the same errors as for unknown names. Risk of the default:
    /// all clients that pass the policies of the route can use everything. Default: none.
    #[serde(default)]
    pub(in crate::config) rules: Vec<Spanned<RawMcpRule>>,
    /// Limits for the tool calls of each caller. Default: none.
    #[serde(default)]
    pub(in crate::config) limits: Vec<Spanned<RawMcpLimit>>,
    /// With `true`, Thruway asks the user before each call of a tool that may delete or overwrite data: a tool with
    /// `annotations.destructiveHint`, or a tool that its server does not list. Thruway asks with a form (elicitation).
    /// Clients without this capability get an error for such calls. Risk: a server can omit the annotation. Default: false.
    #[serde(default)]
    pub(in crate::config) confirm_destructive: bool,
    /// File to which Thruway appends a JSON line for each call of a tool, each requested prompt and each read
    /// resource, or `-` for the standard output. A line has no arguments and no results. A relative path starts
    /// at the directory of the config. If log rotation moves the file away, Thruway creates a new file, at the
    /// latest when it receives `SIGUSR1`. Default: no audit log.
    pub(in crate::config) audit: Option<PathBuf>,
    /// Tool search, for endpoints with many tools. With `true` or a table, clients get only the tools
    /// `find_tool` and `call_tool` and the pinned tools. Models find the other tools with `find_tool`, and call
    /// them with `call_tool`. Clients can also call the other tools directly. Default: false.
    #[serde(default)]
    pub(in crate::config) search: RawMcpSearch,
    /// URL of the endpoint as clients use it, such as `https://mcp.example/dev`. Thruway then publishes metadata
    /// (RFC 9728), so that clients can find the issuer of tokens. Thruway responds to the URL
    /// `https://mcp.example/.well-known/oauth-protected-resource/dev`, and names this URL in `WWW-Authenticate`
    /// if a token is missing or invalid. The endpoint also accepts the host of this URL. A route of the endpoint
    /// must serve this URL, and must have a `jwt` policy with `issuer`. Default: no metadata.
    pub(in crate::config) resource: Option<Spanned<String>>,
}

pub(in crate::config) fn resolve_endpoints(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<Spanned<String>, Spanned<RawMcpEndpoint>>,
    servers: &ResolvedServers,
) -> McpEndpoints {
    let endpoint = |(name, raw): (Spanned<String>, Spanned<RawMcpEndpoint>)| {
        resolver.check_name(name.get_ref(), &name.span(), "an MCP endpoint");
        (name.into_inner(), resolve_endpoint(resolver, raw.into_inner(), servers))
    };
    raw.into_iter().map(endpoint).collect()
}

fn resolve_endpoint(
    resolver: &mut Resolver<'_>,
    raw: RawMcpEndpoint,
    known: &ResolvedServers,
) -> McpEndpointConfig {
    let RawMcpEndpoint {
        servers,
        names,
        prefer,
        list_wait,
        list_ttl_max,
        rules,
        limits,
        confirm_destructive,
        audit,
        resource,
        search,
    } = raw;
    resolver.refuse_empty(&servers, "an MCP endpoint needs at least one server", SERVERS_HINT);
    let servers = servers.into_inner();
    check_servers(resolver, &servers, known);
    check_preferred(resolver, &prefer, &servers, names);
    let period = |resolver: &mut Resolver<'_>, raw: Option<Spanned<Period>>, range| {
        raw.map(|period| resolver.or(Some(period), Period(Duration::ZERO), range).0)
    };
    let servers = names_of(servers);
    let search = resolve_search(resolver, search, &servers, names, known);
    McpEndpointConfig {
        servers,
        names,
        prefer: names_of(prefer),
        list_wait: period(resolver, list_wait, SOME_PERIOD),
        list_ttl_max: period(resolver, list_ttl_max, ANY_PERIOD),
        rules: resolve_rules(resolver, rules),
        limits: resolve_limits(resolver, limits),
        confirm_destructive,
        audit: audit.map(|path| log_target(resolver, &path)),
        search,
        resource: resolve_resource(resolver, resource),
    }
}

fn check_servers(resolver: &mut Resolver<'_>, servers: &[Spanned<String>], known: &ResolvedServers) {
    refuse_repeated(resolver, servers);
    for server in servers.iter().filter(|server| !known.contains_key(server.get_ref())) {
        let message = format!("there is no MCP server `{}`", server.get_ref().escape_debug());
        resolver.refuse_with(server, message, &known_hint(server.get_ref(), known.keys(), SERVER_HINT));
    }
}

fn check_preferred(
    resolver: &mut Resolver<'_>,
    prefer: &[Spanned<String>],
    servers: &[Spanned<String>],
    names: McpNames,
) {
    refuse_repeated(resolver, prefer);
    for preferred in prefer {
        if names == McpNames::Prefixed {
            resolver.refuse_with(preferred, "`prefer` requires plain names", "write `names = \"plain\"`");
        } else if servers.iter().all(|server| server.get_ref() != preferred.get_ref()) {
            let message = format!("the endpoint has no MCP server `{}`", preferred.get_ref().escape_debug());
            let servers = servers.iter().map(|server| server.get_ref());
            resolver.refuse_with(preferred, message, &known_hint(preferred.get_ref(), servers, SERVERS_HINT));
        }
    }
}

fn refuse_repeated(resolver: &mut Resolver<'_>, names: &[Spanned<String>]) {
    for (place, name) in names.iter().enumerate() {
        if names[..place].iter().any(|earlier| earlier.get_ref() == name.get_ref()) {
            resolver.refuse_with(name, "the list names this MCP server twice", "remove the second entry");
        }
    }
}

/// Returns `name` if there is an endpoint with this name. Refuses an unknown name.
pub(in crate::config) fn known_endpoint(
    resolver: &mut Resolver<'_>,
    name: &str,
    span: &Span,
    endpoints: &McpEndpoints,
) -> Option<String> {
    if endpoints.contains_key(name) {
        return Some(name.to_owned());
    }
    let failure =
        resolver.source.failure(span.clone(), format!("there is no MCP endpoint `{}`", name.escape_debug()));
    resolver.failures.push(failure.with_hint(known_hint(name, endpoints.keys(), ENDPOINT_HINT)));
    None
}

fn names_of(raw: Vec<Spanned<String>>) -> Vec<String> {
    raw.into_iter().map(Spanned::into_inner).collect()
}

const SERVERS_HINT: &str = "write `servers = [\"NAME\"]` with the name of an `[mcp.servers.NAME]`";
const SERVER_HINT: &str = "add one: `[mcp.servers.NAME]` and below it `command = [\"PROGRAM\"]`";
const ENDPOINT_HINT: &str = "add one: `[mcp.endpoints.NAME]` and below it `servers = [\"NAME\"]`";
