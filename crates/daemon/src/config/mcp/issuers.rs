//! The tables `[mcp.issuers.NAME]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_client::DocumentConfig;

use crate::config::mcp::settings::{ClientAuthentication, McpIssuerConfig};
use crate::config::resolver::{Resolver, SOME_PERIOD};
use crate::config::tls::resolve_connector;
use crate::config::values::{Period, Spanned};

/// An authorization server that issues tokens for MCP servers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMcpIssuer {
    /// URL of the token endpoint: an `https` URL, or an `http` URL of this machine.
    pub(in crate::config) token_url: Spanned<String>,
    /// Issuer identifier of the authorization server. Only `enterprise` of an MCP server uses it. Default:
    /// the origin of `token_url`.
    pub(in crate::config) issuer: Option<String>,
    /// Client id of Thruway at the authorization server.
    pub(in crate::config) client_id: String,
    /// Secret of the client, such as `${CORP_SECRET}`. Thruway hides the secret in error messages. Default:
    /// none.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) client_secret: Option<String>,
    /// Way in which Thruway sends the secret: `client_secret_basic` (header `Authorization`) or
    /// `client_secret_post` (form). Default: `client_secret_basic`.
    #[serde(default)]
    pub(in crate::config) client_authentication: ClientAuthentication,
    /// Audience in the requests for tokens, unless the MCP server has its own `audience`. Default: none.
    pub(in crate::config) audience: Option<String>,
    /// Requested scopes, separated by spaces, unless the MCP server has its own `scope`. Default: none.
    pub(in crate::config) scope: Option<String>,
    /// Maximum time of a request for a token. Default: 10s.
    pub(in crate::config) timeout: Option<Spanned<Period>>,
    /// PEM files with the root certificates that Thruway trusts when it verifies the certificate of the
    /// authorization server. Default: the roots of the system.
    pub(in crate::config) roots: Option<Spanned<Vec<PathBuf>>>,
}

/// Issuers by name. An invalid issuer is `None`, so that servers can refer to its name without a second
/// error.
pub(in crate::config) type ResolvedIssuers = BTreeMap<String, Option<McpIssuerConfig>>;

pub(in crate::config) fn resolve_issuers(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<Spanned<String>, Spanned<RawMcpIssuer>>,
) -> ResolvedIssuers {
    let issuer = |(name, raw): (Spanned<String>, Spanned<RawMcpIssuer>)| {
        resolver.check_name(name.get_ref(), &name.span(), "an MCP issuer");
        let issuer = resolve_issuer(resolver, name.get_ref(), raw.into_inner());
        (name.into_inner(), issuer)
    };
    raw.into_iter().map(issuer).collect()
}

fn resolve_issuer(resolver: &mut Resolver<'_>, name: &str, raw: RawMcpIssuer) -> Option<McpIssuerConfig> {
    // The URL has the same rules as the URLs of keys.
    let url = DocumentConfig::new(raw.token_url.get_ref().as_str());
    let is_valid = url.map_err(|error| resolver.refuse(&raw.token_url, error)).is_ok();
    let timeout = resolver.or(raw.timeout, Period(TIMEOUT), SOME_PERIOD).0;
    let tls = match raw.roots {
        Some(roots) => Some(resolve_connector(resolver, roots)?),
        None => None,
    };
    is_valid.then(|| McpIssuerConfig {
        name: name.to_owned(),
        token_url: raw.token_url.into_inner(),
        issuer: raw.issuer,
        client_id: raw.client_id,
        client_secret: raw.client_secret,
        client_authentication: raw.client_authentication,
        audience: raw.audience,
        scope: raw.scope,
        timeout,
        tls,
    })
}

const TIMEOUT: Duration = Duration::from_secs(10);
