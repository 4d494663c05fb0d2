//! Authorization over HTTP. The MCP server is a resource server of OAuth 2.1. A resource server verifies
//! access tokens, but does not issue or forward tokens.

mod jwt;
mod caller;
mod identity;
mod challenge;
mod protected_resource;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use thruway_message::FieldLines;
use thruway_server::{FieldLinesBuf, Response, StatusCode};

pub use jwt::{AccessTokenRules, InvalidKeys, JwtVerifier};

pub use caller::{Caller, CallerAddress};
pub(crate) use challenge::Challenge;
pub use identity::{CallerToken, Identity};
pub use protected_resource::{InvalidResource, ProtectedResource};

/// Access rules of an endpoint. Every request needs a token that was issued for this endpoint (RFC 6750,
/// RFC 9728).
///
/// Mount [`metadata`](Self::metadata) at [`metadata_path`](Self::metadata_path), so that clients can find the
/// authorization server.
///
/// ```
/// use thruway_mcp_server::{Authorization, InvalidKeys, JwtVerifier, McpServer};
/// use thruway_server::Router;
///
/// /// `keys` is the issuer's JSON Web Key Set.
/// fn router(keys: &str) -> Result<Router, InvalidKeys> {
///     let (url, issuer) = ("https://mcp.example/mcp", "https://login.example");
///     let authorization = Authorization::new(url, [issuer], JwtVerifier::new(issuer, url, keys)?);
///     let endpoint = McpServer::new("greeter", "1.0.0")
///         .endpoint()
///         .allow_host("mcp.example")
///         .authorize(authorization.clone());
///     Ok(Router::new()
///         .get(&authorization.metadata_path(), authorization.metadata())
///         .any("/mcp", endpoint))
/// }
/// ```
#[derive(Clone)]
pub struct Authorization {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    /// The endpoint as a protected resource. `None` if no authorization server issues tokens for the endpoint.
    resource: Option<ProtectedResource>,
    scopes: Vec<String>,
    verifier: Arc<dyn VerifyToken>,
}

/// Verifies access tokens.
pub trait VerifyToken: Send + Sync + 'static {
    /// Returns the identity of the caller that sends `token`. An implementation must check that the token was
    /// issued for this server and has not expired.
    ///
    /// # Errors
    /// Returns an error if the token is invalid, expired, or issued for another server.
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken>;
}

/// The error for a token that is not valid for this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidToken;

impl Authorization {
    /// Returns access rules for the endpoint with the URL `resource`. `resource` must be the complete URL
    /// that clients use. `verifier` checks the tokens. `authorization_servers` must contain at least one
    /// issuer of tokens.
    ///
    /// # Panics
    /// Panics if `resource` is not an absolute HTTP URL, or if it has a query or a fragment. Also panics if
    /// `authorization_servers` is empty.
    pub fn new<T: Into<String>>(
        resource: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = T>,
        verifier: impl VerifyToken,
    ) -> Self {
        match ProtectedResource::new(resource, authorization_servers) {
            Ok(resource) => Self::build(Some(resource), verifier),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns access rules for tokens that the operator distributes, for example in a file. Without an
    /// authorization server, the endpoint has no metadata. So the response to a rejected client says that a
    /// token is required (RFC 6750 §3), but not where to get a token.
    pub fn given_tokens(verifier: impl VerifyToken) -> Self {
        Self::build(None, verifier)
    }

    fn build(resource: Option<ProtectedResource>, verifier: impl VerifyToken) -> Self {
        let verifier = Arc::new(verifier);
        Self { shared: Arc::new(Shared { resource, scopes: Vec::new(), verifier }) }
    }

    /// Requires that each token grants all of `scopes`.
    #[must_use]
    pub fn with_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        let shared = Arc::make_mut(&mut self.shared);
        shared.scopes = scopes.into_iter().map(Into::into).collect();
        let resource = shared.resource.take();
        shared.resource = resource.map(|resource| resource.with_scopes(shared.scopes.iter().cloned()));
        self
    }

    /// Returns the path at which clients request the metadata. See [`ProtectedResource::metadata_path`].
    pub fn metadata_path(&self) -> String {
        let resource = self.shared.resource.as_ref();
        resource.map_or_else(
            || "/.well-known/oauth-protected-resource".to_owned(),
            ProtectedResource::metadata_path,
        )
    }

    /// Returns a handler that answers with the metadata (RFC 9728 §2), or with status 404 if the endpoint
    /// has no metadata.
    pub fn metadata(&self) -> impl Fn() -> Response + Send + Sync + 'static {
        let metadata = self.shared.resource.as_ref().map(ProtectedResource::metadata);
        move || match &metadata {
            Some(metadata) => Response::ok(JSON, metadata.clone()),
            None => Response::text("").with_status(StatusCode::NOT_FOUND),
        }
    }

    /// Returns the caller of a request with these header field lines.
    ///
    /// # Errors
    /// Returns a challenge if the request has no valid token, or if the request has several
    /// `Authorization` headers. Also returns a challenge if the token lacks a required scope.
    pub(crate) fn identify(&self, fields: FieldLines<'_>) -> Result<Arc<Identity>, Challenge> {
        let mut values = fields.all("authorization");
        let (value, None) = (values.next(), values.next()) else {
            return Err(self.challenge(Some("invalid_request")));
        };
        let Some(token) = value.and_then(|value| bearer_token(value.as_bytes())) else {
            return Err(self.challenge(None));
        };
        let Ok(identity) = self.shared.verifier.verify(token) else {
            return Err(self.challenge(Some("invalid_token")));
        };
        if !self.shared.scopes.iter().all(|scope| identity.has_scope(scope)) {
            return Err(self.insufficient(&self.shared.scopes));
        }
        Ok(Arc::new(identity.with_token(CallerToken::new(token))))
    }

    /// Returns the challenge for a caller whose token lacks some of `scopes`.
    pub(crate) fn insufficient(&self, scopes: &[String]) -> Challenge {
        self.challenge(Some("insufficient_scope")).with_scopes(scopes)
    }

    fn challenge(&self, error: Option<&'static str>) -> Challenge {
        let metadata = self.shared.resource.as_ref().map(ProtectedResource::metadata_url);
        Challenge::new(error, metadata).with_scopes(&self.shared.scopes)
    }
}

/// Returns the token in an `Authorization` header with the scheme `Bearer`. The name of the scheme is
/// case-insensitive (RFC 6750 §2.1).
fn bearer_token(value: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("resource", &self.shared.resource).finish_non_exhaustive()
    }
}

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the token is not valid for this server")
    }
}

impl std::error::Error for InvalidToken {}
