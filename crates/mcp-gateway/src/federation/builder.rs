//! The configuration of an MCP gateway.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thruway_mcp::federated::{
    CompiledFilter, EndpointNames, InvalidFilter, InvalidMemberName, ListKind, MemberName, NameStyle,
    ToolFilter, UriRewriter,
};
use thruway_mcp::schema::Implementation;
use thruway_mcp_client::oauth::ServerAccess;
use thruway_mcp_client::{McpClient, McpClientBuilder, McpClientError};

use super::audit::AuditSink;
use super::durable::TaskArchive;
use super::limits::{CallLimit, CallLimits, InvalidLimit};
use super::rules::{AccessRules, InvalidRule, Rule};
use super::search::ToolSearch;
use super::search_tools;
use crate::bridge::{BridgeOptions, Connect};

/// Options of an [`McpGateway`](crate::McpGateway).
#[derive(Clone, Debug)]
pub struct McpGatewayOptions {
    /// The form of the tool names and prompt names that clients use. Default: the prefixed form
    /// `member__tool`.
    pub names: NameStyle,
    /// The order of the members for plain names. If several members have a tool of the same name, clients get
    /// the tool of the first of these members in `prefer`. Default: empty. If `prefer` contains none of these
    /// members, clients get none of the tools. With prefixed names, `prefer` must be empty.
    pub prefer: Vec<String>,
    /// Maximum time that a request waits for a member: the request for a list, or a call of a member that is
    /// connecting. After this time, a list omits the member, and a call fails. Default: 2 seconds.
    pub list_wait: Duration,
    /// Maximum time that clients may cache a list. Default: 5 minutes. The members can only shorten this
    /// time.
    pub list_ttl_max: Duration,
    /// Options for tool search, for endpoints with many tools. Default: `None`, so clients get the list of all
    /// tools.
    pub search: Option<ToolSearch>,
    /// `true` if the gateway asks the user before each call of a tool with `annotations.destructiveHint`. The gateway
    /// also asks before a call of a tool that its member does not list. Clients without form elicitation get an error
    /// for such calls. Default: `false`.
    pub confirm_destructive: bool,
    /// Maximum number of items in a page of a list. Default: 100.
    pub page_items: usize,
    /// Options of the connections to each member, and of the MCP server that clients connect to.
    pub bridge: BridgeOptions,
}

impl Default for McpGatewayOptions {
    fn default() -> Self {
        Self {
            names: NameStyle::default(),
            prefer: Vec::new(),
            list_wait: Duration::from_secs(2),
            list_ttl_max: Duration::from_mins(5),
            search: None,
            confirm_destructive: false,
            page_items: 100,
            bridge: BridgeOptions::default(),
        }
    }
}

/// An MCP server behind an [`McpGateway`](crate::McpGateway).
pub struct Member {
    pub(super) name: String,
    pub(super) connect: Connect,
    pub(super) tools: ToolFilter,
    pub(super) is_required: bool,
    pub(super) rewrites_uris: bool,
    pub(super) servers_max: Option<usize>,
    pub(super) access: Option<ServerAccess>,
}

impl Member {
    /// Creates a member. The name has 1 to 24 lowercase letters, digits and hyphens. The gateway calls
    /// `connect` for each connection to the server.
    pub fn new(
        name: impl Into<String>,
        connect: impl Fn(McpClientBuilder) -> Result<McpClient, McpClientError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            connect: Arc::new(connect),
            tools: ToolFilter::default(),
            is_required: false,
            rewrites_uris: false,
            servers_max: None,
            access: None,
        }
    }

    /// Selects the tools that clients can use, and renames them. By default, clients can use all tools.
    #[must_use]
    pub fn tools(mut self, tools: ToolFilter) -> Self {
        self.tools = tools;
        self
    }

    /// `true` if requests for lists fail while the gateway has no list of this member. Default: `false`, so
    /// that lists omit a missing member.
    #[must_use]
    pub const fn required(mut self, is_required: bool) -> Self {
        self.is_required = is_required;
        self
    }

    /// `true` if clients use other URIs than the member: `MEMBER+URI`, such as `files+file:///a`. Then the URIs of
    /// different members never clash, and each URI names its member. Only `ui://REST` becomes `ui://MEMBER+REST`,
    /// because clients with MCP Apps require this scheme. The gateway changes URIs in lists, requests
    /// and notifications, and also in resource links and embedded resources. It does not change URIs in texts,
    /// in structured content and in the arguments of tools. The name of the member must begin with a letter.
    /// Default: `false`.
    ///
    /// A client cannot load a changed `https` URI itself. It must read the resource through the gateway.
    #[must_use]
    pub const fn rewrite_uris(mut self, rewrites_uris: bool) -> Self {
        self.rewrites_uris = rewrites_uris;
        self
    }

    /// Sets the access tokens in the requests to this member. Only members over HTTP use this setting. By
    /// default, requests contain no token.
    ///
    /// If each caller has its own token, each caller also has its own connection to the member. The gateway
    /// fetches the lists of the member with its own token.
    #[must_use]
    pub fn access(mut self, access: ServerAccess) -> Self {
        self.access = Some(access);
        self
    }

    /// Sets the maximum number of dedicated servers for this member. See
    /// [`BridgeOptions::servers_max`](BridgeOptions::servers_max).
    #[must_use]
    pub const fn servers_max(mut self, servers_max: usize) -> Self {
        self.servers_max = Some(servers_max);
        self
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Configures an [`McpGateway`](crate::McpGateway).
#[derive(Debug)]
pub struct McpGatewayBuilder {
    pub(super) info: Implementation,
    pub(super) options: McpGatewayOptions,
    pub(super) members: Vec<Member>,
    pub(super) rules: Vec<Rule>,
    pub(super) limits: Vec<CallLimit>,
    pub(super) audit: Option<Arc<dyn AuditSink>>,
    pub(super) archive: Option<Arc<dyn TaskArchive>>,
}

impl McpGatewayBuilder {
    pub(super) fn new(info: Implementation) -> Self {
        Self {
            info,
            options: McpGatewayOptions::default(),
            members: Vec::new(),
            rules: Vec::new(),
            limits: Vec::new(),
            audit: None,
            archive: None,
        }
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: McpGatewayOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a member. If several members have a resource with the same URI, clients get the resource of the
    /// first of these members.
    #[must_use]
    pub fn member(mut self, member: Member) -> Self {
        self.members.push(member);
        self
    }

    /// Sets the access rules. Without rules, all callers can use everything.
    #[must_use]
    pub fn rules(mut self, rules: Vec<Rule>) -> Self {
        self.rules = rules;
        self
    }

    /// Sets limits for the tool calls of each caller. Default: none.
    #[must_use]
    pub fn limits(mut self, limits: Vec<CallLimit>) -> Self {
        self.limits = limits;
        self
    }

    /// Sends an event to `sink` for each call of a tool, each requested prompt and each read resource. For a
    /// log file, use an [`AuditLog`](crate::AuditLog).
    #[must_use]
    pub fn audit(mut self, sink: impl AuditSink) -> Self {
        self.audit = Some(Arc::new(sink));
        self
    }

    /// Stores tasks in `archive`, so that they survive this gateway. Default: tasks end with their gateway.
    #[must_use]
    pub fn archive(mut self, archive: Arc<dyn TaskArchive>) -> Self {
        self.archive = Some(archive);
        self
    }

    /// Checks the configuration without creating the gateway.
    ///
    /// # Errors
    /// Returns the first error in the configuration.
    pub fn check(&self) -> Result<(), McpGatewayError> {
        self.names()?;
        self.access_rules()?;
        self.call_limits().map(drop)
    }

    pub(super) fn access_rules(&self) -> Result<Option<AccessRules>, McpGatewayError> {
        let rules = AccessRules::compile(&self.rules);
        rules.map_err(|(number, error)| McpGatewayError::InvalidRule { number, error })
    }

    pub(super) fn call_limits(&self) -> Result<CallLimits, McpGatewayError> {
        let limits = CallLimits::compile(&self.limits);
        limits.map_err(|(number, error)| McpGatewayError::InvalidLimit { number, error })
    }

    pub(super) fn names(&self) -> Result<EndpointNames, McpGatewayError> {
        let mut members: Vec<(MemberName, CompiledFilter)> = Vec::new();
        for member in &self.members {
            let name = MemberName::try_from(&*member.name).map_err(McpGatewayError::InvalidName)?;
            if members.iter().any(|(other, _)| *other == name) {
                return Err(McpGatewayError::DuplicateName(member.name.clone()));
            }
            let tools = member.tools.compile();
            let tools = tools
                .map_err(|error| McpGatewayError::InvalidTools { member: member.name.clone(), error })?;
            members.push((name, tools));
        }
        if members.is_empty() {
            return Err(McpGatewayError::NoMembers);
        }
        if self.options.names == NameStyle::Prefixed && !self.options.prefer.is_empty() {
            return Err(McpGatewayError::PreferWithoutPlainNames);
        }
        let index_of = |name: &String| {
            let index = members.iter().position(|(other, _)| other.as_str() == name);
            index.ok_or_else(|| McpGatewayError::UnknownPreferred(name.clone()))
        };
        let preferred: Vec<_> = self.options.prefer.iter().map(index_of).collect::<Result<_, _>>()?;
        let mut names = EndpointNames::new(self.options.names, members, &preferred);
        for (index, member) in self.members.iter().enumerate().filter(|(_, member)| member.rewrites_uris) {
            let uris = UriRewriter::new(&member.name);
            let uris = uris.ok_or_else(|| McpGatewayError::InvalidUriPrefix(member.name.clone()))?;
            names.rewrite_uris(index, uris);
        }
        let Some(search) = &self.options.search else { return Ok(names) };
        let names = names.with_reserved_tools(search_tools::NAMES);
        let is_unknown = |name: &&String| names.candidates(ListKind::Tools, name).next().is_none();
        match search.pinned.iter().find(is_unknown) {
            Some(name) => Err(McpGatewayError::UnknownPinned(name.clone())),
            None => Ok(names),
        }
    }
}

/// The error for an invalid configuration of an [`McpGateway`](crate::McpGateway).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum McpGatewayError {
    /// The gateway has no members.
    NoMembers,
    /// The name of a member is invalid.
    InvalidName(InvalidMemberName),
    /// Two members have this name.
    DuplicateName(String),
    /// The selection of a member's tools is invalid.
    InvalidTools {
        /// The name of the member.
        member: String,
        /// The reason.
        error: InvalidFilter,
    },
    /// The member with this name rewrites URIs, but the name does not begin with a letter.
    InvalidUriPrefix(String),
    /// The option `prefer` contains this name, but no member has this name.
    UnknownPreferred(String),
    /// The tool search pins a tool with this name, but no member can have such a tool.
    UnknownPinned(String),
    /// The option `prefer` is set, but the names are prefixed. Prefixed names never clash.
    PreferWithoutPlainNames,
    /// An access rule is invalid.
    InvalidRule {
        /// The number of the rule, counted from 1.
        number: usize,
        /// The reason.
        error: InvalidRule,
    },
    /// A limit for calls is invalid.
    InvalidLimit {
        /// The number of the limit, counted from 1.
        number: usize,
        /// The reason.
        error: InvalidLimit,
    },
}

impl fmt::Display for McpGatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMembers => f.write_str("the MCP gateway has no servers: add at least one"),
            Self::InvalidName(error) => error.fmt(f),
            Self::DuplicateName(name) => write!(f, "two MCP servers have the name `{name}`"),
            Self::InvalidTools { member, error } => {
                write!(f, "invalid tools of the MCP server `{member}`: {error}")
            }
            Self::InvalidUriPrefix(name) => write!(
                f,
                "the MCP server `{name}` cannot rewrite URIs: its name must begin with a letter, because it \
                 becomes a part of the URI scheme"
            ),
            Self::UnknownPreferred(name) => {
                write!(f, "`prefer` contains `{name}`, but the gateway has no server of this name")
            }
            Self::UnknownPinned(name) => write!(
                f,
                "the tool search pins `{name}`, but no server can have a tool with this public name"
            ),
            Self::PreferWithoutPlainNames => f.write_str("`prefer` requires plain names"),
            Self::InvalidRule { number, error } => write!(f, "invalid access rule {number}: {error}"),
            Self::InvalidLimit { number, error } => write!(f, "invalid limit {number}: {error}"),
        }
    }
}

impl Error for McpGatewayError {}
