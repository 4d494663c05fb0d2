//! The validated settings of MCP servers and endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::{CallLimit, NameStyle, Rule, ToolFilter, ToolSearch};
use thruway_net::tls::TlsConnector;
use thruway_server::AccessLogTarget;

use crate::config::values::Span;

/// The validated section `mcp`.
#[derive(Default)]
pub(crate) struct McpSettings {
    pub(crate) servers: McpServers,
    pub(crate) endpoints: McpEndpoints,
}

/// Positions of MCP servers and endpoints in the file.
#[derive(Default)]
pub(in crate::config) struct McpPlaces {
    pub(in crate::config) servers: BTreeMap<String, Span>,
    pub(in crate::config) issuers: BTreeMap<String, Span>,
    pub(in crate::config) endpoints: BTreeMap<String, Span>,
    /// Positions of the patterns in the rules of each endpoint, in the order of the rules.
    pub(in crate::config) rules: BTreeMap<String, Vec<PatternPlaces>>,
    /// Positions of the keys `resource`, by endpoint.
    pub(in crate::config) resources: BTreeMap<String, Span>,
}

/// The patterns of an access rule, each with its position in the file.
pub(in crate::config) type PatternPlaces = Vec<(String, Span)>;

/// MCP servers by their names.
pub(crate) type McpServers = BTreeMap<String, McpServerConfig>;

/// MCP endpoints by their names.
pub(crate) type McpEndpoints = BTreeMap<String, McpEndpointConfig>;

/// An MCP server behind endpoints of this gateway.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct McpServerConfig {
    pub(crate) target: McpTarget,
    pub(crate) tools: McpToolRules,
    /// `true` if lists fail while this server is missing.
    pub(crate) is_required: bool,
    /// `true` if clients use the URIs `SERVER+URI`.
    pub(crate) rewrites_uris: bool,
}

/// The way in which the gateway reaches an MCP server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum McpTarget {
    /// Requests to a path at the servers of an upstream.
    Upstream {
        upstream: String,
        path: String,
        /// Additional headers of each request.
        headers: Vec<(String, String)>,
        /// The access tokens in the requests. `None` means no token, or a token in `headers`.
        access: Option<Box<McpAccess>>,
    },
    /// Child processes.
    Command {
        /// The program and its arguments. The list is not empty.
        words: Vec<String>,
        environment: BTreeMap<String, String>,
        directory: Option<PathBuf>,
        /// Maximum number of processes for single sessions and calls. `None` means the default.
        processes_max: Option<usize>,
    },
}

/// The access tokens for an MCP server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct McpAccess {
    pub(crate) grant: McpGrant,
    /// The authorization server that issues the tokens for the MCP server.
    pub(crate) issuer: McpIssuerConfig,
    pub(crate) resource: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) scope: Option<String>,
}

/// The way in which Thruway obtains access tokens.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum McpGrant {
    /// All callers share the token of Thruway.
    ClientCredentials,
    /// The issuer exchanges the tokens of callers.
    Exchange(McpTokenType),
    /// This identity provider exchanges the tokens of callers for assertions to the issuer.
    Enterprise(Box<McpIssuerConfig>, McpTokenType),
}

/// An authorization server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct McpIssuerConfig {
    pub(crate) name: String,
    pub(crate) token_url: String,
    /// The issuer identifier. `None` means the origin of `token_url`.
    pub(crate) issuer: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
    pub(crate) client_authentication: ClientAuthentication,
    pub(crate) audience: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) timeout: Duration,
    /// `None` means the root certificates of the system.
    pub(crate) tls: Option<Arc<TlsConnector>>,
}

/// The way in which Thruway sends its secret to an authorization server.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientAuthentication {
    /// In the header `Authorization`.
    #[default]
    ClientSecretBasic,
    /// In the form.
    ClientSecretPost,
}

/// The type of the callers' tokens.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum McpTokenType {
    #[default]
    AccessToken,
    IdToken,
    Jwt,
}

/// The tools of a server that an endpoint offers, and their new names.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct McpToolRules {
    /// Patterns for the offered tools. `None` means all tools.
    pub(crate) allow: Option<Vec<String>>,
    /// Patterns for hidden tools.
    pub(crate) deny: Vec<String>,
    /// The new name of each renamed tool.
    pub(crate) rename: BTreeMap<String, String>,
}

/// An endpoint that offers the tools of several MCP servers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct McpEndpointConfig {
    /// Names of the MCP servers, in the order of the config.
    pub(crate) servers: Vec<String>,
    pub(crate) names: McpNames,
    /// Order of preference of the servers for tools with the same name.
    pub(crate) prefer: Vec<String>,
    /// Maximum time of a list request to wait for servers. `None` means the default.
    pub(crate) list_wait: Option<Duration>,
    /// Maximum time for which clients may cache lists. `None` means the default.
    pub(crate) list_ttl_max: Option<Duration>,
    /// The access rules. If there are none, all callers can use everything.
    pub(crate) rules: Vec<Rule>,
    /// The limits for the calls of each caller.
    pub(crate) limits: Vec<CallLimit>,
    /// `true` if the user must confirm calls of destructive tools.
    pub(crate) confirm_destructive: bool,
    /// The target of the audit log, if the endpoint has one.
    pub(crate) audit: Option<AccessLogTarget>,
    /// `None` if clients get the list of all tools.
    pub(crate) search: Option<McpSearch>,
    /// The URL of the endpoint as a protected resource (RFC 9728).
    pub(crate) resource: Option<String>,
}

/// The tool search of an endpoint.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct McpSearch {
    /// Names of the tools that stay in the list.
    pub(crate) pinned: Vec<String>,
    /// Maximum number of tools that a search returns.
    pub(crate) results_max: usize,
}

/// Names of tools and prompts at an endpoint.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum McpNames {
    /// The names of the servers, without a prefix.
    Plain,
    /// `SERVER__NAME`.
    #[default]
    Prefixed,
}

impl McpSettings {
    /// Returns `true` if an MCP server is behind the upstream with this name.
    pub(crate) fn has_upstream(&self, upstream: &str) -> bool {
        self.servers.values().any(|server| server.upstream() == Some(upstream))
    }

    /// Returns `true` if the endpoint has this server.
    pub(crate) fn has_member(&self, endpoint: &str, server: &str) -> bool {
        self.endpoints
            .get(endpoint)
            .is_some_and(|endpoint| endpoint.servers.iter().any(|name| name == server))
    }

    /// Returns the first server of the endpoint for which each caller needs a token.
    pub(crate) fn server_with_caller_tokens(&self, endpoint: &str) -> Option<&str> {
        let servers = &self.endpoints.get(endpoint)?.servers;
        let has_tokens =
            |name: &&String| self.servers.get(*name).is_some_and(McpServerConfig::has_caller_tokens);
        servers.iter().find(has_tokens).map(String::as_str)
    }

    /// Returns the names of the issuers that servers use.
    pub(crate) fn used_issuers(&self) -> BTreeSet<&str> {
        self.servers.values().filter_map(McpServerConfig::access).flat_map(McpAccess::issuers).collect()
    }

    /// Returns the names of the servers that belong to an endpoint.
    pub(crate) fn used_servers(&self) -> BTreeSet<&str> {
        self.endpoints.values().flat_map(|endpoint| &endpoint.servers).map(String::as_str).collect()
    }
}

impl McpEndpointConfig {
    /// Returns the first claim on which a rule depends and that `is_known` does not contain.
    pub(in crate::config) fn claim_without(&self, is_known: impl Fn(&str) -> bool) -> Option<&str> {
        let mut claims = self.rules.iter().flat_map(|rule| rule.claims.keys());
        claims.find(|claim| !is_known(claim)).map(String::as_str)
    }
}

impl McpNames {
    pub(crate) const fn style(self) -> NameStyle {
        match self {
            Self::Plain => NameStyle::Plain,
            Self::Prefixed => NameStyle::Prefixed,
        }
    }
}

impl McpToolRules {
    /// Returns the selection of the tools for the library.
    pub(crate) fn filter(&self) -> ToolFilter {
        let Self { allow, deny, rename } = self.clone();
        ToolFilter { allow: allow.unwrap_or_default(), deny, rename }
    }
}

impl McpSearch {
    /// Returns the options for the library.
    pub(crate) fn options(&self) -> ToolSearch {
        ToolSearch { pinned: self.pinned.clone(), results_max: self.results_max }
    }
}

impl McpServerConfig {
    /// Returns the access tokens for the server, if Thruway obtains tokens.
    pub(crate) fn access(&self) -> Option<&McpAccess> {
        match &self.target {
            McpTarget::Upstream { access, .. } => access.as_deref(),
            McpTarget::Command { .. } => None,
        }
    }

    /// Returns `true` if each caller has its own token for the server.
    pub(crate) fn has_caller_tokens(&self) -> bool {
        self.access().is_some_and(|access| access.grant != McpGrant::ClientCredentials)
    }

    /// Returns the name of the upstream, if the server is behind an upstream.
    pub(crate) fn upstream(&self) -> Option<&str> {
        match &self.target {
            McpTarget::Upstream { upstream, .. } => Some(upstream),
            McpTarget::Command { .. } => None,
        }
    }
}

impl McpAccess {
    /// Returns the names of the authorization servers.
    pub(crate) fn issuers(&self) -> Vec<&str> {
        match &self.grant {
            McpGrant::Enterprise(provider, _) => vec![&provider.name, &self.issuer.name],
            _ => vec![&self.issuer.name],
        }
    }
}

/// Describes the kind of the tokens and the issuers, without secrets.
impl fmt::Display for McpAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.grant {
            McpGrant::ClientCredentials => write!(f, "client credentials of {}", self.issuer.name),
            McpGrant::Exchange(_) => write!(f, "token exchange at {}", self.issuer.name),
            McpGrant::Enterprise(provider, _) => {
                write!(f, "assertions of {} for {}", provider.name, self.issuer.name)
            }
        }
    }
}

/// Describes the target without headers, arguments and environment variables, because these may be secret.
impl fmt::Display for McpServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            McpTarget::Upstream { upstream, path, access, .. } => {
                write!(f, "upstream {upstream}, path {path}")?;
                access.as_ref().map_or(Ok(()), |access| write!(f, ", {access}"))
            }
            McpTarget::Command { words, .. } => {
                write!(f, "command `{}`", words.first().map_or("", String::as_str))
            }
        }
    }
}

impl fmt::Display for McpEndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = match self.names {
            McpNames::Plain => "plain",
            McpNames::Prefixed => "prefixed",
        };
        write!(f, "servers {}; {names} names", self.servers.join(", "))?;
        if !self.rules.is_empty() {
            write!(f, "; access rules: {}", self.rules.len())?;
        }
        match &self.search {
            Some(search) if search.pinned.is_empty() => f.write_str("; tool search")?,
            Some(search) => write!(f, "; tool search, pinned {}", search.pinned.join(", "))?,
            None => {}
        }
        if !self.limits.is_empty() {
            write!(f, "; limits: {}", self.limits.len())?;
        }
        if self.confirm_destructive {
            f.write_str("; asks before destructive calls")?;
        }
        match &self.audit {
            None => Ok(()),
            Some(AccessLogTarget::File(path)) => write!(f, "; audit log {}", path.display()),
            Some(_) => f.write_str("; audit log on the standard output"),
        }
    }
}
