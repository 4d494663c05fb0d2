//! Creates the access tokens for MCP servers from their config.

use thruway_client::{Client, ClientConfig, PoolConfig};
use thruway_mcp_sdk::oauth::{
    RegisteredClient, ServerAccess, SubjectTokenType, TokenIssuer, TokenIssuerOptions, TokenTarget,
};

use crate::config::mcp::settings::{
    ClientAuthentication, McpAccess, McpGrant, McpIssuerConfig, McpTokenType,
};

/// Returns the access tokens for the MCP server at `url`. The config was checked, so the library accepts
/// the URLs of the issuers.
pub(super) fn server_access(access: &McpAccess, url: &str) -> Option<ServerAccess> {
    let McpAccess { grant, issuer, resource, audience, scope } = access;
    let resource = resource.clone().or_else(|| audience.is_none().then(|| url.to_owned()));
    let target = TokenTarget { resource, audience: audience.clone(), scope: scope.clone() };
    let issuer = token_issuer(issuer)?;
    Some(match grant {
        McpGrant::ClientCredentials => ServerAccess::client_credentials(issuer, target),
        McpGrant::Exchange(token_type) => ServerAccess::exchange(issuer, target, subject_type(*token_type)),
        McpGrant::Enterprise(provider, token_type) => {
            ServerAccess::enterprise(token_issuer(provider)?, issuer, target, subject_type(*token_type))
        }
    })
}

fn token_issuer(config: &McpIssuerConfig) -> Option<TokenIssuer> {
    let client = match &config.client_secret {
        Some(secret) => RegisteredClient::with_secret(&config.client_id, secret),
        None => RegisteredClient::public(&config.client_id),
    };
    let options = TokenIssuerOptions {
        issuer: config.issuer.clone(),
        has_secret_in_form: config.client_authentication == ClientAuthentication::ClientSecretPost,
        timeout: config.timeout,
        http: client_of(config),
        ..TokenIssuerOptions::new(&config.name, &config.token_url, client)
    };
    TokenIssuer::new(options)
        .inspect_err(|error| tracing::error!(issuer = %config.name, "cannot use the issuer: {error}"))
        .ok()
}

/// Returns the HTTP client for an issuer. The client keeps no idle connections, because the threads of the
/// server share it.
fn client_of(config: &McpIssuerConfig) -> Client {
    Client::with_config(ClientConfig {
        tls: config.tls.clone(),
        pool: PoolConfig { idle_max: 0, ..PoolConfig::default() },
        ..ClientConfig::default()
    })
}

const fn subject_type(token_type: McpTokenType) -> SubjectTokenType {
    match token_type {
        McpTokenType::AccessToken => SubjectTokenType::AccessToken,
        McpTokenType::IdToken => SubjectTokenType::IdToken,
        McpTokenType::Jwt => SubjectTokenType::Jwt,
    }
}
