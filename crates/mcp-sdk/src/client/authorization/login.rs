//! A person logs in: the authorization code grant with PKCE (RFC 6749 §4.1, RFC 7636, RFC 9207).

use std::io;
use std::pin::Pin;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use form_urlencoded::Serializer;
use sha2::{Digest as _, Sha256};

use super::error::OAuthError;
use super::random::random_text;
use super::scopes::Scopes;
use super::server::ServerMetadata;
use super::token::Form;
use super::url::HttpUrl;

/// Somebody logging in.
pub type LoggingIn<'a> = Pin<Box<dyn Future<Output = io::Result<String>> + Send + 'a>>;

/// Lets a person log in, in a browser for instance.
pub trait UserAgent: Send + Sync + 'static {
    /// Where the authorization server sends the person back to.
    ///
    /// # Errors
    /// There is no place to come back to.
    fn redirect_uri(&self) -> io::Result<String>;

    /// Opens `url`, and returns the URL that the person was sent back to, as it is: it is checked by whoever asked.
    ///
    /// # Errors
    /// The person cannot, or does not want to.
    ///
    /// # Cancel safety
    /// Whoever drops the future does not wait any more.
    fn log_in<'a>(&'a self, url: &'a str) -> LoggingIn<'a>;
}

/// What was asked of an authorization server, kept until the answer.
pub(super) struct LoginRequest {
    /// What is opened.
    pub(super) url: String,
    verifier: String,
    state: String,
    redirect_uri: String,
}

impl LoginRequest {
    pub(super) fn new(
        endpoint: &HttpUrl,
        client_id: &str,
        redirect_uri: &str,
        resource: &str,
        scopes: &Scopes,
    ) -> Self {
        let (verifier, state) = (random_text(), random_text());
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        let mut form = vec![
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect_uri),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", resource),
        ];
        let scope = scopes.to_string();
        if !scopes.is_empty() {
            form.push(("scope", &scope));
        }
        if scopes.contains(OFFLINE_ACCESS) {
            // OpenID Connect Core 1.0 §11: without it, the scope is ignored.
            form.push(("prompt", "consent"));
        }
        let separator = if endpoint.as_str().contains('?') { '&' } else { '?' };
        let url =
            format!("{endpoint}{separator}{}", Serializer::new(String::new()).extend_pairs(form).finish());
        Self { url, verifier, state, redirect_uri: redirect_uri.to_owned() }
    }

    /// The code in the URL that the person was sent back to, as a grant. Nothing in it is believed, not even an error, before it
    /// is known whose answer it is.
    pub(super) fn grant(self, redirect: &str, metadata: &ServerMetadata) -> Result<Form, OAuthError> {
        let answer = RedirectAnswer::parse(redirect)?;
        if answer.state.as_deref() != Some(&self.state) {
            return Err(OAuthError::RedirectStateMismatch);
        }
        // RFC 9207 §2.4, compared as it is written.
        let is_whole = answer.issuer.is_some() || !metadata.authorization_response_iss_parameter_supported;
        if !is_whole || answer.issuer.is_some_and(|issuer| issuer != metadata.issuer) {
            return Err(OAuthError::RedirectIssuerMismatch);
        }
        if let Some(error) = answer.error {
            return Err(OAuthError::refused(&error, answer.error_description.as_deref()));
        }
        Ok(vec![
            ("grant_type", AUTHORIZATION_CODE.to_owned()),
            ("code", answer.code.ok_or(OAuthError::RedirectInvalid)?),
            ("redirect_uri", self.redirect_uri),
            ("code_verifier", self.verifier),
        ])
    }
}

/// What an authorization server says by where it sends a person back to (RFC 6749 §4.1.2).
#[derive(Default)]
struct RedirectAnswer {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

impl RedirectAnswer {
    fn parse(redirect: &str) -> Result<Self, OAuthError> {
        let redirect = redirect.split_once('#').map_or(redirect, |(before, _)| before);
        let (_, query) = redirect.split_once('?').ok_or(OAuthError::RedirectInvalid)?;
        let mut answer = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "code" => &mut answer.code,
                "state" => &mut answer.state,
                "iss" => &mut answer.issuer,
                "error" => &mut answer.error,
                "error_description" => &mut answer.error_description,
                _ => continue,
            };
            // RFC 6749 §3.1: nothing is said twice.
            if place.replace(value.into_owned()).is_some() {
                return Err(OAuthError::RedirectInvalid);
            }
        }
        Ok(answer)
    }
}

/// What tokens that outlive the person's presence are asked for with.
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

pub(super) const AUTHORIZATION_CODE: &str = "authorization_code";

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://as.example";

    fn answered(is_iss_supported: bool, parameters: &str) -> Result<Form, OAuthError> {
        let endpoint = HttpUrl::parse("https://as.example/authorize?tenant=1").unwrap();
        let scopes = Scopes::parse("a offline_access");
        let request =
            LoginRequest::new(&endpoint, "client", "http://127.0.0.1:1/back", "https://rs.example", &scopes);
        let metadata = ServerMetadata {
            issuer: ISSUER.to_owned(),
            authorization_response_iss_parameter_supported: is_iss_supported,
            ..ServerMetadata::default()
        };
        let parameters = parameters.replace("STATE", &request.state);
        request.grant(&format!("http://127.0.0.1:1/back?{parameters}"), &metadata)
    }

    #[test]
    fn an_answer_is_believed_only_if_it_is_of_whom_was_asked() {
        let whole = "code=c&state=STATE&iss=https%3A%2F%2Fas.example";
        for (is_iss_supported, parameters) in [(true, whole), (false, whole), (false, "state=STATE&code=c#x")]
        {
            assert!(answered(is_iss_supported, parameters).is_ok(), "{parameters}");
        }
        for (is_iss_supported, parameters, error) in [
            (true, "code=c&state=STATE", OAuthError::RedirectIssuerMismatch),
            (true, "error=access_denied&state=STATE", OAuthError::RedirectIssuerMismatch),
            (false, "code=c&state=STATE&iss=https://evil.example", OAuthError::RedirectIssuerMismatch),
            (false, "code=c&state=STATE&iss=https://as.example/", OAuthError::RedirectIssuerMismatch),
            (false, "code=c&state=STATE&iss=HTTPS://as.example", OAuthError::RedirectIssuerMismatch),
            (false, "code=c&state=other", OAuthError::RedirectStateMismatch),
            (false, "code=c", OAuthError::RedirectStateMismatch),
            (false, "error=access_denied&state=other", OAuthError::RedirectStateMismatch),
            (false, "code=c&code=d&state=STATE", OAuthError::RedirectInvalid),
            (false, "state=STATE", OAuthError::RedirectInvalid),
            (false, "error=access_denied&state=STATE", OAuthError::refused("access_denied", None)),
        ] {
            assert_eq!(answered(is_iss_supported, parameters), Err(error), "{parameters}");
        }
    }

    #[test]
    fn what_is_opened_says_all_that_the_specification_wants() {
        let endpoint = HttpUrl::parse("https://as.example/authorize?tenant=1").unwrap();
        let scopes = Scopes::parse("a offline_access");
        let request = LoginRequest::new(
            &endpoint,
            "client",
            "http://127.0.0.1:1/back",
            "https://rs.example/mcp",
            &scopes,
        );
        let (before, query) = request.url.split_once('?').unwrap();
        assert_eq!(before, "https://as.example/authorize");
        let parameters: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let value =
            |name: &str| parameters.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value);
        assert_eq!(value("code_challenge"), URL_SAFE_NO_PAD.encode(Sha256::digest(&request.verifier)));
        assert_eq!(value("resource"), "https://rs.example/mcp");
        assert_eq!((value("tenant"), value("scope"), value("prompt")), ("1", "a offline_access", "consent"));
        assert!(request.verifier.len() >= 43 && request.verifier != request.state);
    }
}
