//! Authorization over HTTP: the server as a resource server of OAuth 2.1. It issues no tokens and passes none
//! on.

mod jwt;
mod caller;
mod challenge;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde_json::json;
use thruway_mcp::schema::JsonObject;
use thruway_message::FieldLines;
use thruway_server::{FieldLinesBuf, Response, StatusCode};

pub use jwt::{AccessTokenRules, InvalidKeys, JwtVerifier};

pub use caller::Caller;
pub(crate) use challenge::Challenge;

/// Who may use an endpoint: callers with a token that was issued for it (RFC 6750, RFC 9728).
///
/// Mount [`metadata`](Self::metadata) at [`metadata_path`](Self::metadata_path), so that clients find out
/// where to get a token.
#[derive(Clone)]
pub struct Authorization {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    /// The URL of the endpoint; `None` if no authorization server issues tokens for it.
    resource: Option<String>,
    authorization_servers: Vec<String>,
    scopes: Vec<String>,
    verifier: Arc<dyn VerifyToken>,
}

/// Says whose token it is.
pub trait VerifyToken: Send + Sync + 'static {
    /// Who has been given `token`, for this server and until a time that is not over.
    ///
    /// # Errors
    /// Nobody, or it is not for this server, or too old.
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken>;
}

/// A caller whose token was verified.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Identity {
    /// Who issued the token.
    pub issuer: String,
    /// Who the caller is to that issuer.
    pub subject: String,
    /// What the caller may do.
    pub scopes: Vec<String>,
    /// Everything that the token says.
    pub claims: JsonObject,
}

impl Identity {
    /// Whether the caller has been given `scope`.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|given| given == scope)
    }

    /// What tells callers apart: subjects are unique with their issuer only.
    pub(crate) fn principal(&self) -> String {
        format!("{} {}", self.issuer, self.subject)
    }
}

/// A token is not valid here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidToken;

impl Authorization {
    /// For the endpoint at `resource`, its whole URL as clients know it, with tokens that `verifier` accepts.
    /// `authorization_servers` are the issuers of such tokens, at least one.
    ///
    /// # Panics
    /// `resource` is not an absolute URL without a fragment, or there is no authorization server.
    pub fn new<T: Into<String>>(
        resource: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = T>,
        verifier: impl VerifyToken,
    ) -> Self {
        let resource = resource.into();
        assert!(path_of(&resource).is_some(), "`{resource}` is not the URL of an endpoint");
        let authorization_servers: Vec<_> = authorization_servers.into_iter().map(Into::into).collect();
        assert!(!authorization_servers.is_empty(), "there must be an authorization server");
        Self::build(Some(resource), authorization_servers, verifier)
    }

    /// For an endpoint whose operator gives tokens to clients, such as a list of them in a file. No
    /// authorization server issues them, so that there is no metadata: a refused client is told to send a
    /// token (RFC 6750 §3), and not where to get one.
    pub fn given_tokens(verifier: impl VerifyToken) -> Self {
        Self::build(None, Vec::new(), verifier)
    }

    fn build(
        resource: Option<String>,
        authorization_servers: Vec<String>,
        verifier: impl VerifyToken,
    ) -> Self {
        let verifier = Arc::new(verifier);
        Self { shared: Arc::new(Shared { resource, authorization_servers, scopes: Vec::new(), verifier }) }
    }

    /// With scopes that every token must have.
    #[must_use]
    pub fn with_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        Arc::make_mut(&mut self.shared).scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Where clients look for the metadata: the well-known path, and behind it that of the endpoint (RFC 9728
    /// §3.1).
    pub fn metadata_path(&self) -> String {
        let resource = self.shared.resource.as_deref();
        let path = resource.and_then(path_of).unwrap_or_default().trim_end_matches('/');
        format!("/.well-known/oauth-protected-resource{path}")
    }

    /// Answers with the metadata (RFC 9728 §2), and with 404 if there is none.
    pub fn metadata(&self) -> impl Fn() -> Response + Send + Sync + 'static {
        let Shared { resource, authorization_servers, scopes, .. } = &*self.shared;
        let mut metadata = json!({
            "resource": resource,
            "authorization_servers": authorization_servers,
            "bearer_methods_supported": ["header"],
        });
        if !scopes.is_empty() {
            metadata["scopes_supported"] = json!(scopes);
        }
        let metadata = resource.is_some().then(|| metadata.to_string());
        move || match &metadata {
            Some(metadata) => Response::ok(JSON, metadata.clone()),
            None => Response::text("").with_status(StatusCode::NOT_FOUND),
        }
    }

    /// Whoever sent a request with these fields.
    ///
    /// # Errors
    /// What to tell them, if they may not.
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
        Ok(Arc::new(identity))
    }

    /// What those are told who have not been given all of `scopes`.
    pub(crate) fn insufficient(&self, scopes: &[String]) -> Challenge {
        self.challenge(Some("insufficient_scope")).with_scopes(scopes)
    }

    fn challenge(&self, error: Option<&'static str>) -> Challenge {
        let metadata = self.shared.resource.as_ref().map(|resource| {
            let origin_end = resource.len() - path_of(resource).unwrap_or_default().len();
            format!("{}{}", &resource[..origin_end], self.metadata_path())
        });
        Challenge::new(error, metadata).with_scopes(&self.shared.scopes)
    }
}

/// The path of an absolute HTTP URL without query and fragment.
fn path_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    (!authority.is_empty() && !path.contains(['?', '#']) && !authority.contains(['?', '#', '"', ' ']))
        .then_some(path)
}

/// The token of a field value that says `Bearer`, in any case (RFC 6750 §2.1).
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
        f.write_str("the token is not valid here")
    }
}

impl std::error::Error for InvalidToken {}
