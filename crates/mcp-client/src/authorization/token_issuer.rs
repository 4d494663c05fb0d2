//! Authorization servers that a gateway uses to obtain tokens for other servers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::Client;

use super::error::OAuthError;
use super::fetch::Fetch;
use super::identity::{Identity, Method, RegisteredClient};
use super::server::ServerMetadata;
use super::token::{Form, TokenResponse, request_token};
use super::token_cache::TokenCache;
use super::url::HostScope;

/// Options of a [`TokenIssuer`].
#[derive(Clone, Debug)]
pub struct TokenIssuerOptions {
    /// Name of the authorization server in the log.
    pub name: String,
    /// URL of the token endpoint: an `https` URL, or an `http` URL of this machine.
    pub token_endpoint: String,
    /// The issuer identifier of the authorization server. Only [`ServerAccess::enterprise`] uses this value.
    /// Default: the origin of `token_endpoint`.
    ///
    /// [`ServerAccess::enterprise`]: super::ServerAccess::enterprise
    pub issuer: Option<String>,
    /// The client that is registered with the authorization server. Needs no issuer, because only
    /// `token_endpoint` receives the secret.
    pub client: RegisteredClient,
    /// `true` if the client sends its secret in the form (`client_secret_post`). Default: `false`, so that
    /// the client sends the secret in the header `Authorization` (`client_secret_basic`).
    pub has_secret_in_form: bool,
    /// Maximum time of a request for a token. Default: 10 seconds.
    pub timeout: Duration,
    /// Sends the requests. Must keep no idle connections if several tokio runtimes use the issuer.
    pub http: Client,
}

/// An authorization server with which a gateway obtains tokens for other servers. Caches the tokens until
/// shortly before they expire. Clones share the cache.
#[derive(Clone)]
pub struct TokenIssuer(Arc<Shared>);

struct Shared {
    name: Box<str>,
    metadata: ServerMetadata,
    identity: Identity,
    fetch: Fetch,
    cache: Arc<TokenCache>,
}

impl TokenIssuerOptions {
    /// Returns the default options for the token endpoint with this URL.
    pub fn new(name: impl Into<String>, token_endpoint: impl Into<String>, client: RegisteredClient) -> Self {
        Self {
            name: name.into(),
            token_endpoint: token_endpoint.into(),
            issuer: None,
            client,
            has_secret_in_form: false,
            timeout: Duration::from_secs(10),
            http: super::client_without_idle_connections(),
        }
    }
}

impl TokenIssuer {
    /// Returns the issuer with these options. Sends no request.
    ///
    /// # Errors
    /// The URL of the token endpoint is invalid, or neither `https` nor on this machine.
    pub fn new(options: TokenIssuerOptions) -> Result<Self, OAuthError> {
        let TokenIssuerOptions { name, token_endpoint, issuer, client, has_secret_in_form, timeout, http } =
            options;
        let fetch = Fetch::new(http, HostScope::Machine).with_timeout(timeout);
        let url = fetch.admit(&token_endpoint)?;
        let metadata = ServerMetadata {
            issuer: issuer.unwrap_or_else(|| url.origin().to_owned()),
            token_endpoint: Some(token_endpoint),
            ..ServerMetadata::default()
        };
        let method = if has_secret_in_form { Method::ClientSecretPost } else { Method::ClientSecretBasic };
        let identity = Identity::new(client.id, client.secret, Some(method), &metadata);
        let (name, cache) = (name.into(), Arc::default());
        Ok(Self(Arc::new(Shared { name, metadata, identity, fetch, cache })))
    }

    /// Returns the name of the authorization server in the log.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the issuer identifier of the authorization server.
    pub(super) fn issuer(&self) -> &str {
        &self.0.metadata.issuer
    }

    pub(super) fn token_endpoint(&self) -> &str {
        self.0.metadata.token_endpoint.as_deref().unwrap_or_default()
    }

    pub(super) fn cache(&self) -> &Arc<TokenCache> {
        &self.0.cache
    }

    /// Sends a token request. The error contains no text that could repeat the token of a caller.
    pub(super) async fn request(&self, form: Form) -> Result<TokenResponse, OAuthError> {
        let Shared { metadata, identity, fetch, .. } = &*self.0;
        request_token(fetch, metadata, identity, None, form).await.map_err(without_description)
    }
}

/// Removes the text of the authorization server from an error, except for an error code that has the usual
/// form. A server could repeat the token from the request in this text.
fn without_description(error: OAuthError) -> OAuthError {
    match error {
        OAuthError::Refused { error, .. } => {
            let is_code = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            let is_usual = error.len() <= CODE_BYTES_MAX && error.bytes().all(is_code);
            let error = if is_usual { error } else { "invalid error code".into() };
            OAuthError::Refused { error, description: None }
        }
        error => error,
    }
}

/// Maximum length of an error code. The longest code in RFC 6749, RFC 8693 and RFC 9449 has 23 bytes.
const CODE_BYTES_MAX: usize = 40;

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenIssuer").field("name", &self.0.name).finish_non_exhaustive()
    }
}
