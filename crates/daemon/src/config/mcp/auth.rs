//! The key `auth` of `[mcp.servers.NAME]`: the identity of Thruway and of its callers toward an MCP server.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_server::FieldValue;

use crate::config::mcp::issuers::ResolvedIssuers;
use crate::config::mcp::settings::{McpAccess, McpGrant, McpIssuerConfig, McpTokenType};
use crate::config::resolver::{Resolver, known_hint};
use crate::config::values::{Span, Spanned};

/// Tokens for an MCP server: exactly one of `exchange`, `enterprise`, `client_credentials` and `bearer`.
/// The token of a caller never reaches the server.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["exchange"] }, { "required": ["enterprise"] }, { "required": ["client_credentials"] },
    { "required": ["bearer"] },
]))]
pub(in crate::config) struct RawMcpAuth {
    /// Name of an `[mcp.issuers.NAME]` that exchanges the token of each caller for a token for the server
    /// (RFC 8693). Each route of an endpoint with this server needs a policy of the kind `jwt`.
    pub(in crate::config) exchange: Option<Spanned<String>>,
    /// Name of an `[mcp.issuers.NAME]`: the identity provider of an enterprise. It exchanges the token of
    /// each caller for an assertion (ID-JAG). With the assertion, Thruway obtains a token from
    /// `authorization_server`. Each route of an endpoint with this server needs a policy of the kind `jwt`.
    pub(in crate::config) enterprise: Option<Spanned<String>>,
    /// Name of an `[mcp.issuers.NAME]` that issues one token for Thruway. All callers share this token.
    pub(in crate::config) client_credentials: Option<Spanned<String>>,
    /// Fixed token that Thruway sends with each request, such as `${TOKEN}`. Thruway hides the token in error
    /// messages.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) bearer: Option<Spanned<String>>,
    /// Name of an `[mcp.issuers.NAME]`: the authorization server of the MCP server. This key requires
    /// `enterprise`.
    pub(in crate::config) authorization_server: Option<Spanned<String>>,
    /// Type of the callers' tokens: `access_token`, `id_token` or `jwt`. This key requires `exchange` or
    /// `enterprise`. Default: `access_token`.
    pub(in crate::config) token_type: Option<Spanned<McpTokenType>>,
    /// URL of the MCP server in the requests for tokens. Default: the URL of the server, or none if there
    /// is an audience. With `enterprise`, the default is always the URL of the server.
    pub(in crate::config) resource: Option<Spanned<String>>,
    /// Audience in the requests for tokens. Cannot be set with `enterprise`. Default: the audience of the
    /// issuer.
    pub(in crate::config) audience: Option<Spanned<String>>,
    /// Requested scopes, separated by spaces. Default: the scope of the issuer.
    pub(in crate::config) scope: Option<Spanned<String>>,
}

/// The resolved key `auth`.
pub(in crate::config) enum ResolvedAuth {
    /// Value of the header `Authorization`.
    Header(String),
    Access(Box<McpAccess>),
}

/// Returns the identity toward a server. Returns `None` if the key is invalid.
pub(in crate::config) fn resolve_auth(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawMcpAuth>,
    issuers: &ResolvedIssuers,
) -> Option<ResolvedAuth> {
    let span = raw.span();
    let mut raw = raw.into_inner();
    let kinds =
        (raw.exchange.take(), raw.enterprise.take(), raw.client_credentials.take(), raw.bearer.take());
    match kinds {
        (None, None, None, Some(bearer)) => {
            refuse_tokens(resolver, &raw, "requires an issuer");
            resolve_bearer(resolver, &bearer)
        }
        (Some(issuer), None, None, None) => {
            refuse(resolver, raw.authorization_server.as_ref(), "requires `enterprise`");
            let issuer = known_issuer(resolver, &issuer, issuers)?;
            let token_type = token_type(&raw);
            Some(ResolvedAuth::Access(access(McpGrant::Exchange(token_type), issuer, raw)))
        }
        (None, Some(provider), None, None) => {
            refuse(resolver, raw.audience.as_ref(), "cannot be set with `enterprise`");
            let authorization_server = raw.authorization_server.take();
            let Some(authorization_server) = authorization_server else {
                resolver.refuse_with(&provider, "`enterprise` needs `authorization_server`", SERVER_HINT);
                return None;
            };
            let provider = known_issuer(resolver, &provider, issuers);
            let issuer = known_issuer(resolver, &authorization_server, issuers)?;
            let grant = McpGrant::Enterprise(Box::new(provider?), token_type(&raw));
            Some(ResolvedAuth::Access(access(grant, issuer, raw)))
        }
        (None, None, Some(issuer), None) => {
            refuse(resolver, raw.authorization_server.as_ref(), "requires `enterprise`");
            refuse(resolver, raw.token_type.as_ref(), "requires `exchange` or `enterprise`");
            let issuer = known_issuer(resolver, &issuer, issuers)?;
            Some(ResolvedAuth::Access(access(McpGrant::ClientCredentials, issuer, raw)))
        }
        _ => {
            refuse_kinds(resolver, &span);
            None
        }
    }
}

fn access(grant: McpGrant, issuer: McpIssuerConfig, raw: RawMcpAuth) -> Box<McpAccess> {
    let text = |text: Option<Spanned<String>>| text.map(Spanned::into_inner);
    let is_enterprise = matches!(grant, McpGrant::Enterprise(..));
    let audience = text(raw.audience).or_else(|| issuer.audience.clone()).filter(|_| !is_enterprise);
    let scope = text(raw.scope).or_else(|| issuer.scope.clone());
    Box::new(McpAccess { grant, issuer, resource: text(raw.resource), audience, scope })
}

fn token_type(raw: &RawMcpAuth) -> McpTokenType {
    raw.token_type.as_ref().map(|token_type| *token_type.get_ref()).unwrap_or_default()
}

fn resolve_bearer(resolver: &mut Resolver<'_>, bearer: &Spanned<String>) -> Option<ResolvedAuth> {
    let token = bearer.get_ref();
    if token.is_empty() || token.contains(' ') || FieldValue::new(token.as_bytes()).is_err() {
        let failure = resolver.source.failure_without_values(&bearer.span(), "this is not a token");
        resolver.failures.push(failure.with_hint("write the token without `Bearer`"));
        return None;
    }
    Some(ResolvedAuth::Header(format!("Bearer {token}")))
}

/// Returns the issuer with this name. Refuses an unknown issuer.
fn known_issuer(
    resolver: &mut Resolver<'_>,
    name: &Spanned<String>,
    issuers: &ResolvedIssuers,
) -> Option<McpIssuerConfig> {
    let known = issuers.get(name.get_ref()).cloned();
    if known.is_none() {
        let message = format!("there is no MCP issuer `{}`", name.get_ref().escape_debug());
        resolver.refuse_with(name, message, &known_hint(name.get_ref(), issuers.keys(), ISSUER_HINT));
    }
    known?
}

/// Refuses all keys about requests for tokens.
fn refuse_tokens(resolver: &mut Resolver<'_>, raw: &RawMcpAuth, reason: &str) {
    for key in [&raw.authorization_server, &raw.resource, &raw.audience, &raw.scope] {
        refuse(resolver, key.as_ref(), reason);
    }
    refuse(resolver, raw.token_type.as_ref(), reason);
}

fn refuse<T>(resolver: &mut Resolver<'_>, raw: Option<&Spanned<T>>, reason: &str) {
    if let Some(raw) = raw {
        resolver.refuse(raw, format!("this key {reason}"));
    }
}

fn refuse_kinds(resolver: &mut Resolver<'_>, span: &Span) {
    // The table may contain a token, so the message has no values.
    let failure = resolver.source.failure_without_values(span, KINDS);
    resolver.failures.push(failure.with_hint("write `auth = { exchange = \"ISSUER\" }`"));
}

const KINDS: &str = "`auth` needs exactly one of `exchange`, `enterprise`, `client_credentials` and `bearer`";
const ISSUER_HINT: &str = "add one: `[mcp.issuers.NAME]` and below it `token_url` and `client_id`";
const SERVER_HINT: &str =
    "add `authorization_server = \"NAME\"` with the issuer that issues tokens for the MCP server";
