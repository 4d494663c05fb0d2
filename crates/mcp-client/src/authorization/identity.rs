//! Client identity and client authentication (RFC 6749 §2.3, RFC 7523 §2.2).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::byte_serialize;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::OAuthError;
use super::random::{random_text, unix_time};
use super::server::ServerMetadata;

/// A client that is registered with an authorization server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisteredClient {
    pub(super) id: String,
    pub(super) secret: Secret,
    pub(super) issuer: Option<String>,
}

/// The credential of a client.
#[derive(Clone)]
pub(super) enum Secret {
    None,
    Text(String),
    Key(Arc<PrivateKey>),
}

/// The private key of a client. The authorization server knows the matching public key.
pub struct PrivateKey {
    algorithm: Algorithm,
    key: EncodingKey,
    key_id: Option<String>,
}

impl RegisteredClient {
    /// Returns a client without a credential. For example, a desktop application cannot keep a secret.
    pub fn public(id: impl Into<String>) -> Self {
        Self { id: id.into(), secret: Secret::None, issuer: None }
    }

    /// Returns a client with a secret. The metadata of the authorization server determines whether the
    /// client sends the secret in the header `Authorization` or in the form.
    ///
    /// Set the authorization server with [`of_issuer`](Self::of_issuer). Otherwise the client requests no
    /// token, and calls fail with [`OAuthError::IssuerRequired`].
    pub fn with_secret(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { secret: Secret::Text(secret.into()), ..Self::public(id) }
    }

    /// Returns a client that proves its identity with an assertion that it signs (`private_key_jwt`).
    pub fn with_private_key(id: impl Into<String>, key: PrivateKey) -> Self {
        Self { secret: Secret::Key(Arc::new(key)), ..Self::public(id) }
    }

    /// Sets the issuer with which this client is registered. The issuer is the URL of an authorization
    /// server. The client identifies itself to no other issuer.
    ///
    /// A client with a secret must set the issuer. Otherwise a malicious MCP server could name an issuer of
    /// its own, which would receive the secret. For other clients, the default is the first issuer that the
    /// MCP server names.
    ///
    /// Also set the issuer for a client without a secret if you do not trust the MCP server. Otherwise a
    /// malicious MCP server could name an issuer of its own, and receive an authorization code from another
    /// issuer. This attack works if the other issuer does not identify itself in its answers (RFC 9207).
    #[must_use]
    pub fn of_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Returns `true` if the client has a secret but no issuer. Such a client must not send the secret to an
    /// authorization server that only the MCP server has named.
    pub(super) const fn needs_issuer(&self) -> bool {
        matches!(self.secret, Secret::Text(_)) && self.issuer.is_none()
    }
}

impl PrivateKey {
    /// Parses a private key in PEM (PKCS #8), for `ES256`, `ES384` or `EdDSA`.
    ///
    /// # Errors
    /// Fails if `pem` is not a key for `algorithm`, or if the algorithm is unsupported.
    pub fn from_pem(algorithm: &str, pem: &str) -> Result<Self, OAuthError> {
        let (algorithm, key) = match algorithm {
            "ES256" => (Algorithm::ES256, EncodingKey::from_ec_pem(pem.as_bytes())),
            "ES384" => (Algorithm::ES384, EncodingKey::from_ec_pem(pem.as_bytes())),
            "EdDSA" => (Algorithm::EdDSA, EncodingKey::from_ed_pem(pem.as_bytes())),
            _ => return Err(OAuthError::KeyInvalid),
        };
        let key = Self { algorithm, key: key.map_err(|_| OAuthError::KeyInvalid)?, key_id: None };
        // A test signature detects an invalid key before the first login.
        key.assertion("", "").map(|_| key)
    }

    /// Sets the key id that the authorization server uses for the key.
    #[must_use]
    pub fn key_id(mut self, id: impl Into<String>) -> Self {
        self.key_id = Some(id.into());
        self
    }

    /// Creates the signed assertion of the client for `issuer` (RFC 7523 §3).
    fn assertion(&self, client_id: &str, issuer: &str) -> Result<String, OAuthError> {
        let now = unix_time();
        let claims = json!({
            "iss": client_id, "sub": client_id, "aud": issuer, "jti": random_text(), "iat": now,
            "exp": now + ASSERTION_SECONDS,
        });
        let header = Header { kid: self.key_id.clone(), ..Header::new(self.algorithm) };
        encode(&header, &claims, &self.key).map_err(|_| OAuthError::KeyInvalid)
    }
}

/// The identity of a client at one authorization server, and its authentication method.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) secret: Secret,
    pub(super) method: Method,
}

/// The authentication method at the token endpoint (RFC 7591 §2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    #[default]
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

impl Method {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    pub(super) fn of_name(name: &str) -> Option<Self> {
        let all = [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt];
        all.into_iter().find(|method| method.as_str() == name)
    }
}

impl Identity {
    /// Creates an identity. If `chosen` is `None`, the metadata of the authorization server determines the
    /// authentication method.
    pub(super) fn new(id: String, secret: Secret, chosen: Option<Method>, metadata: &ServerMetadata) -> Self {
        let supported = metadata.token_endpoint_auth_methods_supported.as_deref();
        // RFC 8414 §2 defines `client_secret_basic` as the default.
        let supports = |method: Method| match supported {
            None => method == Method::ClientSecretBasic,
            Some(supported) => supported.iter().any(|name| name == method.as_str()),
        };
        let method = match (&secret, chosen) {
            (Secret::None, _) => Method::None,
            (Secret::Key(_), _) => Method::PrivateKeyJwt,
            (Secret::Text(_), Some(method)) => method,
            (Secret::Text(_), None) => [Method::ClientSecretBasic, Method::ClientSecretPost, Method::None]
                .into_iter()
                .find(|method| supports(*method))
                .unwrap_or(Method::ClientSecretBasic),
        };
        Self { id, secret, method }
    }

    /// Authenticates a request to the token endpoint of `issuer`. Either adds parameters to `form`, or
    /// returns the value of the `Authorization` header.
    pub(super) fn prove(
        &self,
        issuer: &str,
        form: &mut Vec<(&'static str, String)>,
    ) -> Result<Option<String>, OAuthError> {
        if let Secret::Key(key) = &self.secret {
            form.push(("client_assertion_type", ASSERTION_TYPE.to_owned()));
            form.push(("client_assertion", key.assertion(&self.id, issuer)?));
            return Ok(None);
        }
        // Some servers require the parameter `client_id` even if the header contains the id.
        form.push(("client_id", self.id.clone()));
        match (&self.secret, self.method) {
            (Secret::Text(secret), Method::ClientSecretBasic) => return Ok(Some(basic(&self.id, secret))),
            (Secret::Text(secret), Method::ClientSecretPost) => form.push(("client_secret", secret.clone())),
            _ => {}
        }
        Ok(None)
    }
}

/// Returns the value of the header `Authorization` for HTTP Basic. The id and the secret are form-encoded
/// first (RFC 6749 §2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encode(id), encode(secret))))
}

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Lifetime of an assertion in seconds. The client uses each assertion only once, right after creating it.
const ASSERTION_SECONDS: u64 = 60;

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Key(one), Self::Key(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::None { "none" } else { "…" })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(chosen: Option<Method>, supported: Option<&[&str]>) -> Identity {
        let supported = supported.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        let metadata =
            ServerMetadata { token_endpoint_auth_methods_supported: supported, ..Default::default() };
        Identity::new("i d".to_owned(), Secret::Text("s:+".to_owned()), chosen, &metadata)
    }

    #[test]
    fn authentication_method_follows_server_metadata() {
        for (supported, method) in [
            (None, Method::ClientSecretBasic),
            (Some(&["client_secret_post", "client_secret_basic"][..]), Method::ClientSecretBasic),
            (Some(&["none", "client_secret_post"]), Method::ClientSecretPost),
            (Some(&["none"]), Method::None),
            (Some(&["tls_client_auth"]), Method::ClientSecretBasic),
        ] {
            assert_eq!(identity(None, supported).method, method, "{supported:?}");
        }
        assert_eq!(identity(Some(Method::ClientSecretPost), None).method, Method::ClientSecretPost);
    }

    #[test]
    fn secret_is_sent_in_header_or_form_but_not_in_debug_output() {
        let mut form = Vec::new();
        let header = identity(None, None).prove("https://a", &mut form).unwrap().unwrap();
        // printf 'i+d:s%3A%2B' | base64
        assert_eq!(
            (header.as_str(), &form[..]),
            ("Basic aStkOnMlM0ElMkI=", &[("client_id", "i d".to_owned())][..])
        );
        form.clear();
        let post = identity(Some(Method::ClientSecretPost), None);
        assert_eq!(post.prove("https://a", &mut form), Ok(None));
        assert_eq!(form, [("client_id", "i d".to_owned()), ("client_secret", "s:+".to_owned())]);
        assert!(!format!("{post:?}").contains("s:+"));
    }

    #[test]
    fn invalid_private_key_is_rejected_when_loaded() {
        for (algorithm, pem) in [("ES256", ""), ("RS256", "x"), ("none", "")] {
            assert_eq!(
                PrivateKey::from_pem(algorithm, pem).err(),
                Some(OAuthError::KeyInvalid),
                "{algorithm}"
            );
        }
    }
}
