//! The tables `[mcp.servers.NAME]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::FieldRewrite;
use thruway_server::FieldValue;

use crate::config::Upstreams;
use crate::config::mcp::auth::{RawMcpAuth, ResolvedAuth, resolve_auth};
use crate::config::mcp::issuers::ResolvedIssuers;
use crate::config::mcp::patterns::check_name_pattern;
use crate::config::mcp::settings::{McpAccess, McpServerConfig, McpTarget, McpToolRules};
use crate::config::resolver::{Resolver, is_path_byte};
use crate::config::upstreams::known_upstream;
use crate::config::values::{Span, Spanned};

/// An MCP server: `upstream` or `command`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["upstream"] }, { "required": ["command"] }]))]
pub(in crate::config) struct RawMcpServer {
    /// Upstream of a server with Streamable HTTP. Thruway sends all requests to the first server of the
    /// upstream that is healthy, and uses another server only if a connection to the first server fails.
    /// Thruway uses the keys `tls`, `check`, `connect_timeout` and `resolver` of the upstream, and the states
    /// of its servers. The upstream must not have `http2` or `proxy_protocol`.
    pub(in crate::config) upstream: Option<Spanned<String>>,
    /// Path of the MCP endpoint at the upstream. This key requires `upstream`. Default: `/mcp`.
    pub(in crate::config) path: Option<Spanned<String>>,
    /// Headers that Thruway adds to each request, such as `{ Authorization = "Bearer ${TOKEN}" }`. Thruway
    /// hides the values in error messages. This key requires `upstream`. Default: none.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) headers: Option<Spanned<BTreeMap<Spanned<String>, Spanned<String>>>>,
    /// Identity of Thruway and of its callers toward the server. This key requires `upstream`. Default: none, so
    /// that requests contain no token.
    pub(in crate::config) auth: Option<Spanned<RawMcpAuth>>,
    /// Program and arguments of a server that uses its standard input and output (stdio). Thruway starts the
    /// process, and starts it again after it has exited.
    pub(in crate::config) command: Option<Spanned<Vec<String>>>,
    /// Environment variables of the process. From Thruway, the process gets only the variables `HOME`,
    /// `LANG`, `LC_ALL`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ` and `USER`, because other
    /// variables can contain tokens for other servers. Thruway hides the values in error messages. This key
    /// requires `command`. Default: none.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) environment: Option<Spanned<BTreeMap<Spanned<String>, String>>>,
    /// Working directory of the process. A relative path starts at the directory of the config. This key
    /// requires `command`. Default: the working directory of Thruway.
    pub(in crate::config) directory: Option<Spanned<PathBuf>>,
    /// Maximum number of additional processes, 1 to 10000. If a client supports elicitation, sampling or
    /// roots, each of its sessions or calls needs an additional process. This key requires `command`. Default: 32.
    pub(in crate::config) processes_max: Option<Spanned<usize>>,
    /// Selection and new names of the tools.
    #[serde(default)]
    pub(in crate::config) tools: RawMcpTools,
    /// With `true`, lists fail while this server is unavailable. With `false`, lists then lack the tools,
    /// resources and prompts of this server. Default: false.
    #[serde(default)]
    pub(in crate::config) required: bool,
    /// `true` changes the URIs of the server's resources to `SERVER+URI`, such as `files+file:///a`. Use it if
    /// several servers have resources with the same URIs. The name of the server must begin with a letter.
    /// Clients cannot load changed `https` URIs themselves. Default: false.
    #[serde(default)]
    pub(in crate::config) rewrite_uris: Option<Spanned<bool>>,
}

/// The tools of an MCP server that endpoints offer. A hidden tool cannot be called. The patterns apply to the
/// names of the server: `*` matches any text.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMcpTools {
    /// Patterns for the offered tools, such as `["*issue*"]`. Default: all tools.
    pub(in crate::config) allow: Option<Spanned<Vec<Spanned<String>>>>,
    /// Patterns for hidden tools, such as `["delete_*"]`. Thruway hides these tools even if `allow` matches.
    /// Default: none.
    #[serde(default)]
    pub(in crate::config) deny: Vec<Spanned<String>>,
    /// New names of tools: `{ OLD = "NEW" }`. With prefixed names, the prefix comes before the new name.
    /// Default: none.
    #[serde(default)]
    pub(in crate::config) rename: BTreeMap<Spanned<String>, Spanned<String>>,
}

/// MCP servers by name. An invalid server is `None`, so that endpoints can refer to its name without a second
/// error.
pub(in crate::config) type ResolvedServers = BTreeMap<String, Option<McpServerConfig>>;

pub(in crate::config) fn resolve_servers(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<Spanned<String>, Spanned<RawMcpServer>>,
    upstreams: &Upstreams,
    issuers: &ResolvedIssuers,
) -> ResolvedServers {
    let server = |(name, raw): (Spanned<String>, Spanned<RawMcpServer>)| {
        if !is_member_name(name.get_ref()) {
            let message = format!("`{}` cannot be the name of an MCP server", name.get_ref().escape_debug());
            resolver.refuse_with(&name, message, NAME_HINT);
        }
        let rewrite_uris = raw.get_ref().rewrite_uris.as_ref().filter(|key| *key.get_ref());
        if let Some(key) =
            rewrite_uris.filter(|_| !name.get_ref().starts_with(|c: char| c.is_ascii_lowercase()))
        {
            let message =
                format!("the name `{}` does not begin with a letter", name.get_ref().escape_debug());
            resolver.refuse_with(key, message, URI_HINT);
        }
        (name.into_inner(), resolve_server(resolver, raw, upstreams, issuers))
    };
    raw.into_iter().map(server).collect()
}

/// Returns `true` if `name` can be the name of an MCP server. The name contains no `_`, so that a prefixed
/// name has only one meaning.
fn is_member_name(name: &str) -> bool {
    let is_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MEMBER_NAME_MAX).contains(&name.len()) && name.bytes().all(is_byte)
}

fn resolve_server(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawMcpServer>,
    upstreams: &Upstreams,
    issuers: &ResolvedIssuers,
) -> Option<McpServerConfig> {
    let span = raw.span();
    let mut raw = raw.into_inner();
    let tools = resolve_tools(resolver, std::mem::take(&mut raw.tools));
    let is_required = raw.required;
    let rewrites_uris = raw.rewrite_uris.as_ref().is_some_and(|key| *key.get_ref());
    let target = resolve_target(resolver, raw, &span, upstreams, issuers)?;
    Some(McpServerConfig { target, tools, is_required, rewrites_uris })
}

fn resolve_target(
    resolver: &mut Resolver<'_>,
    raw: RawMcpServer,
    span: &Span,
    upstreams: &Upstreams,
    issuers: &ResolvedIssuers,
) -> Option<McpTarget> {
    let RawMcpServer {
        upstream, path, headers, auth, command, environment, directory, processes_max, ..
    } = raw;
    match (upstream, command) {
        (Some(upstream), None) => {
            refuse_without(resolver, environment.as_ref(), "command");
            refuse_without(resolver, directory.as_ref(), "command");
            refuse_without(resolver, processes_max.as_ref(), "command");
            let path = path.map_or_else(|| DEFAULT_PATH.to_owned(), |path| resolve_path(resolver, path));
            let headers = headers.map(|headers| resolve_headers(resolver, headers)).unwrap_or_default();
            let (headers, access) = resolve_credentials(resolver, headers, auth, issuers);
            let upstream = resolve_mcp_upstream(resolver, &upstream, upstreams)?;
            Some(McpTarget::Upstream { upstream, path, headers, access })
        }
        (None, Some(command)) => {
            refuse_without(resolver, path.as_ref(), "upstream");
            refuse_without(resolver, headers.as_ref(), "upstream");
            refuse_without(resolver, auth.as_ref(), "upstream");
            let environment =
                environment.map(|names| resolve_environment(resolver, names)).unwrap_or_default();
            let directory = directory.map(|directory| resolver.relative_to_config(directory.get_ref()));
            let processes_max =
                processes_max.map(|processes| resolver.or(Some(processes), 1, 1..=PROCESSES_MAX));
            let words = resolve_command(resolver, command)?;
            Some(McpTarget::Command { words, environment, directory, processes_max })
        }
        (upstream, _) => {
            let failure = resolver.source.failure(span.clone(), TARGETS);
            let hint = if upstream.is_some() { "remove one of the two keys" } else { TARGET_HINT };
            resolver.failures.push(failure.with_hint(hint));
            None
        }
    }
}

/// Refuses the key `raw` of a server that lacks the key `other`.
fn refuse_without<T>(resolver: &mut Resolver<'_>, raw: Option<&Spanned<T>>, other: &str) {
    if let Some(raw) = raw {
        // The key may contain secrets, so the message has no values.
        let message = format!("this key requires `{other}`");
        let failure = resolver.source.failure_without_values(&raw.span(), message);
        resolver.failures.push(failure);
    }
}

/// Returns the name of the upstream. Refuses an unknown upstream, and an upstream with settings that the MCP
/// client does not support.
fn resolve_mcp_upstream(
    resolver: &mut Resolver<'_>,
    raw: &Spanned<String>,
    upstreams: &Upstreams,
) -> Option<String> {
    let name = known_upstream(resolver, raw, upstreams)?;
    let upstream = &upstreams[&name];
    let unsupported =
        [("http2", upstream.http2.is_some()), ("proxy_protocol", upstream.proxy_protocol.is_some())];
    for (key, _) in unsupported.into_iter().filter(|(_, is_set)| *is_set) {
        let message = format!("an MCP server cannot use an upstream with `{key}`");
        resolver.refuse_with(raw, message, "add another upstream with the same servers and without this key");
    }
    Some(name)
}

fn resolve_path(resolver: &mut Resolver<'_>, raw: Spanned<String>) -> String {
    let path = raw.get_ref();
    if !path.starts_with('/') {
        resolver.refuse(&raw, "a path begins with `/`");
    } else if let Some(byte) = path.chars().find(|&byte| !is_path_byte(byte) && byte != '?') {
        let message = format!("a path cannot contain `{}`", byte.escape_debug());
        resolver.refuse_with(&raw, message, "percent-encode this character");
    }
    raw.into_inner()
}

fn resolve_headers(
    resolver: &mut Resolver<'_>,
    raw: Spanned<BTreeMap<Spanned<String>, Spanned<String>>>,
) -> Vec<(String, String)> {
    for (name, value) in raw.get_ref() {
        match FieldRewrite::default().remove(name.get_ref()) {
            Ok(()) if is_of_protocol(name.get_ref()) => {
                resolver.refuse(name, "the MCP client sets this header");
            }
            Ok(()) => {}
            Err(error) => resolver.refuse(name, error),
        }
        if let Err(error) = FieldValue::new(value.get_ref().as_bytes()) {
            resolver.failures.push(resolver.source.failure_without_values(&value.span(), error));
        }
    }
    let header = |(name, value): (Spanned<String>, Spanned<String>)| (name.into_inner(), value.into_inner());
    raw.into_inner().into_iter().map(header).collect()
}

/// Returns the headers with a fixed token, and the other identity toward the server. Refuses a second token in
/// the headers.
fn resolve_credentials(
    resolver: &mut Resolver<'_>,
    mut headers: Vec<(String, String)>,
    auth: Option<Spanned<RawMcpAuth>>,
    issuers: &ResolvedIssuers,
) -> (Vec<(String, String)>, Option<Box<McpAccess>>) {
    let Some(auth) = auth else { return (headers, None) };
    if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        let message = "`auth` and `headers` both set the header `Authorization`";
        let failure = resolver.source.failure_without_values(&auth.span(), message);
        resolver.failures.push(failure.with_hint("remove the header"));
    }
    match resolve_auth(resolver, auth, issuers) {
        Some(ResolvedAuth::Header(value)) => {
            headers.push(("Authorization".to_owned(), value));
            (headers, None)
        }
        Some(ResolvedAuth::Access(access)) => (headers, Some(access)),
        None => (headers, None),
    }
}

/// Returns `true` if the MCP client sets the header `name`.
fn is_of_protocol(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("mcp-") || ["accept", "content-type", "last-event-id"].contains(&name.as_str())
}

fn resolve_environment(
    resolver: &mut Resolver<'_>,
    raw: Spanned<BTreeMap<Spanned<String>, String>>,
) -> BTreeMap<String, String> {
    for name in raw.get_ref().keys() {
        if name.get_ref().is_empty() || name.get_ref().contains(['=', '\0']) {
            resolver.refuse(name, "an environment variable needs a name without `=`");
        }
    }
    raw.into_inner().into_iter().map(|(name, value)| (name.into_inner(), value)).collect()
}

fn resolve_command(resolver: &mut Resolver<'_>, raw: Spanned<Vec<String>>) -> Option<Vec<String>> {
    if raw.get_ref().first().is_none_or(String::is_empty) {
        resolver.refuse_with(
            &raw,
            "`command` has no program",
            "write `command = [\"PROGRAM\", \"ARGUMENT\"]`",
        );
        return None;
    }
    Some(raw.into_inner())
}

fn resolve_tools(resolver: &mut Resolver<'_>, raw: RawMcpTools) -> McpToolRules {
    let RawMcpTools { allow, deny, rename } = raw;
    if let Some(allow) = &allow {
        resolver.refuse_empty(allow, "`allow` hides all tools", "remove the key to offer all tools");
    }
    let allow = allow.map(Spanned::into_inner);
    for pattern in allow.iter().flatten().chain(&deny) {
        check_name_pattern(resolver, pattern, "tools");
    }
    check_new_names(resolver, &rename);
    let text = |patterns: Vec<Spanned<String>>| patterns.into_iter().map(Spanned::into_inner).collect();
    let rename = rename.into_iter().map(|(old, new)| (old.into_inner(), new.into_inner())).collect();
    McpToolRules { allow: allow.map(text), deny: text(deny), rename }
}

/// Refuses invalid and repeated new names.
fn check_new_names(resolver: &mut Resolver<'_>, rename: &BTreeMap<Spanned<String>, Spanned<String>>) {
    let mut known = BTreeSet::new();
    for new in rename.values() {
        let name = new.get_ref();
        if !(1..=TOOL_NAME_MAX).contains(&name.len()) || !name.chars().all(is_name_byte) {
            let message = format!("`{}` cannot be the name of a tool", name.escape_debug());
            resolver.refuse_with(new, message, TOOL_NAME_HINT);
        } else if !known.insert(name) {
            resolver.refuse(new, format!("two tools get the new name `{name}`"));
        }
    }
}

/// Returns `true` if the name of a tool may contain `byte`.
const fn is_name_byte(byte: char) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, '_' | '-' | '.' | '/')
}

const URI_HINT: &str = "rename the server: with `rewrite_uris`, its name becomes a part of the URI scheme";
const TARGETS: &str = "an MCP server needs exactly one of `upstream` and `command`";
const TARGET_HINT: &str =
    "add `command = [\"PROGRAM\"]` for a child process, or `upstream = \"NAME\"` for a server over HTTP";
const NAME_HINT: &str = "use 1 to 24 lowercase letters, digits and `-`";
const TOOL_NAME_HINT: &str = "use 1 to 128 letters, digits, `_`, `-`, `.` and `/`";
const DEFAULT_PATH: &str = "/mcp";
const MEMBER_NAME_MAX: usize = 24;
const TOOL_NAME_MAX: usize = 128;
const PROCESSES_MAX: usize = 10_000;
