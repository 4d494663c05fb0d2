//! The token endpoint (RFC 6749 §3.2).

use form_urlencoded::Serializer;
use serde::Deserialize;
use serde_json::Value;
use thruway_message::StatusCode;

use super::dpop::DpopKey;
use super::error::{OAuthError, quoted};
use super::fetch::{Answer, Fetch};
use super::identity::Identity;
use super::server::ServerMetadata;
use super::url::HttpUrl;

/// The form parameters of a token request.
pub(super) type Form = Vec<(&'static str, String)>;

/// An issued token (RFC 6749 §5.1).
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Value,
    #[serde(default)]
    pub(super) refresh_token: Option<String>,
    #[serde(default)]
    pub(super) scope: Option<String>,
    /// The type of token that a token exchange has issued (RFC 8693 §2.2.1).
    #[serde(default)]
    pub(super) issued_token_type: Option<String>,
}

/// An error response (RFC 6749 §5.2).
#[derive(Deserialize)]
pub(super) struct ErrorResponse {
    pub(super) error: String,
    #[serde(default)]
    pub(super) error_description: Option<String>,
}

impl TokenResponse {
    /// `true` if the token is bound to a key.
    pub(super) fn is_dpop(&self) -> bool {
        self.token_type.eq_ignore_ascii_case("dpop")
    }

    /// Returns the lifetime of the token in seconds, if known. Some servers send the number as a string.
    pub(super) fn expires_in(&self) -> Option<u64> {
        self.expires_in.as_u64().or_else(|| self.expires_in.as_str()?.parse().ok())
    }

    /// Checks that the type of the token is known, and that a header can contain the token (RFC 6750 §2.1).
    pub(super) fn validate(self, has_key: bool) -> Result<Self, OAuthError> {
        let token = &self.access_token;
        let is_clean = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        let is_known = self.token_type.eq_ignore_ascii_case("bearer") || (has_key && self.is_dpop());
        (is_clean && is_known).then_some(self).ok_or(OAuthError::TokenInvalid)
    }
}

/// Requests a token from an authorization server.
pub(super) async fn request_token(
    fetch: &Fetch,
    metadata: &ServerMetadata,
    client: &Identity,
    key: Option<&DpopKey>,
    form: Form,
) -> Result<TokenResponse, OAuthError> {
    let url = metadata.token_endpoint(fetch)?;
    let mut nonce = None;
    // A server that requires a nonce rejects the first proof and sends the nonce.
    for _ in 0..2 {
        let answer = ask(fetch, &url, &metadata.issuer, client, key, nonce.as_deref(), form.clone()).await?;
        if answer.status == StatusCode::OK {
            let response: TokenResponse =
                serde_json::from_slice(&answer.content).map_err(|_| OAuthError::TokenInvalid)?;
            return Ok(response);
        }
        let error = refusal(&url, &answer);
        let wants_nonce = matches!(&error, OAuthError::Refused { error, .. } if &**error == "use_dpop_nonce");
        nonce = answer.dpop_nonce.filter(|_| wants_nonce && nonce.is_none() && key.is_some());
        if nonce.is_none() {
            return Err(error);
        }
    }
    Err(OAuthError::TokenInvalid)
}

async fn ask(
    fetch: &Fetch,
    url: &HttpUrl,
    issuer: &str,
    client: &Identity,
    key: Option<&DpopKey>,
    nonce: Option<&str>,
    mut form: Form,
) -> Result<Answer, OAuthError> {
    let mut fields = Vec::new();
    if let Some(proof) = client.prove(issuer, &mut form)? {
        fields.push(("Authorization", proof));
    }
    if let Some(key) = key {
        fields.push(("DPoP", key.proof("POST", url, nonce, None)?));
    }
    let content = Serializer::new(String::new()).extend_pairs(form).finish();
    fetch.post(url, FORM, content, &fields).await
}

/// Converts the error response of an authorization server to an [`OAuthError`].
pub(super) fn refusal(url: &HttpUrl, answer: &Answer) -> OAuthError {
    let status = OAuthError::Status(quoted(url.as_str()), answer.status);
    // A server with a temporary failure may use the error format of a refusal.
    if status.is_passing() {
        return status;
    }
    match serde_json::from_slice::<ErrorResponse>(&answer.content) {
        Ok(response) => OAuthError::refused(&response.error, response.error_description.as_deref()),
        Err(_) => status,
    }
}

const FORM: &str = "application/x-www-form-urlencoded";
