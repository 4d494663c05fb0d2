//! Logins: the authorization code grant with PKCE (RFC 6749 §4.1, RFC 7636, RFC 9207).

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

/// Future that resolves to the URL of the redirect at the end of a login.
pub type LoginFuture<'a> = Pin<Box<dyn Future<Output = io::Result<String>> + Send + 'a>>;

/// Lets a person log in, for example in a browser.
pub trait UserAgent: Send + Sync + 'static {
    /// Returns the URL to which the authorization server redirects after the login.
    ///
    /// # Errors
    /// The user agent cannot receive redirects.
    fn redirect_uri(&self) -> io::Result<String>;

    /// Returns the redirect URI that a client registers with `issuer`. The client calls this method if it
    /// registers itself, and if the issuer does not identify itself in its answers (RFC 9207). Default:
    /// [`redirect_uri`](Self::redirect_uri).
    ///
    /// With a separate URI for each issuer, the client can tell the answers of different issuers apart (RFC
    /// 9700 §4.4.2.2). Otherwise, a malicious issuer could receive the authorization code of another issuer
    /// from the client.
    ///
    /// If this method and [`redirect_uri`](Self::redirect_uri) return different URIs, the client accepts an
    /// answer only at the redirect URI of its login. Then [`log_in`](Self::log_in) must return an absolute
    /// URL, or a URL that starts with the path of the redirect URI.
    ///
    /// # Errors
    /// The user agent cannot receive redirects.
    fn redirect_uri_for(&self, issuer: &str) -> io::Result<String> {
        let _ = issuer;
        self.redirect_uri()
    }

    /// Opens `url` and returns the URL of the redirect, unchanged. The caller validates that URL.
    ///
    /// # Errors
    /// The person cannot log in, or refuses to log in.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait for the login.
    fn log_in<'a>(&'a self, url: &'a str) -> LoginFuture<'a>;
}

/// The state of a login until the answer of the authorization server arrives.
pub(super) struct LoginRequest {
    /// The URL that the person opens.
    pub(super) url: String,
    verifier: String,
    state: String,
    redirect_uri: String,
    /// `true` if each issuer has a separate redirect URI.
    is_uri_of_issuer: bool,
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
            // Without this parameter, the server ignores the scope `offline_access` (OpenID Connect Core 1.0
            // §11).
            form.push(("prompt", "consent"));
        }
        let separator = if endpoint.as_str().contains('?') { '&' } else { '?' };
        let url =
            format!("{endpoint}{separator}{}", Serializer::new(String::new()).extend_pairs(form).finish());
        Self { url, verifier, state, redirect_uri: redirect_uri.to_owned(), is_uri_of_issuer: false }
    }

    /// Restricts answers to the redirect URI of this login, if the user agent has a separate redirect URI
    /// for each issuer.
    pub(super) fn at_uri_of_issuer(self, user_agent: &dyn UserAgent, issuer: &str) -> Self {
        let is_uri_of_issuer = match (user_agent.redirect_uri_for(issuer), user_agent.redirect_uri()) {
            (Ok(own), Ok(shared)) => own != shared,
            _ => false,
        };
        Self { is_uri_of_issuer, ..self }
    }

    /// Returns the authorization code in the URL `redirect` as a grant. First checks that the answer comes
    /// from the right issuer. Ignores the content of an answer from another issuer, even an error.
    pub(super) fn grant(self, redirect: &str, metadata: &ServerMetadata) -> Result<Form, OAuthError> {
        let answer = RedirectAnswer::parse(redirect)?;
        if answer.state.as_deref() != Some(&self.state) {
            return Err(OAuthError::RedirectStateMismatch);
        }
        if !answer.is_from(metadata) || !self.is_at_redirect_uri(redirect) {
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

    /// `true` if the answer arrived at the redirect URI of this login, or if all issuers share one redirect
    /// URI (RFC 9700 §4.4.2.2).
    fn is_at_redirect_uri(&self, redirect: &str) -> bool {
        let place = redirect.split(['?', '#']).next().unwrap_or_default();
        let is_path = || HttpUrl::parse(&self.redirect_uri).is_some_and(|uri| uri.path() == place);
        !self.is_uri_of_issuer || place == self.redirect_uri || is_path()
    }
}

/// The parameters of a redirect (RFC 6749 §4.1.2).
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
            // RFC 6749 §3.1: parameters must not occur twice.
            if place.replace(value.into_owned()).is_some() {
                return Err(OAuthError::RedirectInvalid);
            }
        }
        Ok(answer)
    }

    /// `true` if the answer may come from the issuer in `metadata` (RFC 9207 §2.4). `false` if the answer
    /// names another issuer. Also `false` if the answer names no issuer, but the metadata declare that the
    /// issuer always identifies itself. The comparison of issuers is byte by byte.
    fn is_from(&self, metadata: &ServerMetadata) -> bool {
        match &self.issuer {
            Some(issuer) => *issuer == metadata.issuer,
            None => !metadata.authorization_response_iss_parameter_supported,
        }
    }
}

/// The scope that requests a refresh token. With a refresh token, the client can renew a token while the
/// person is absent.
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

pub(super) const AUTHORIZATION_CODE: &str = "authorization_code";

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://as.example";

    fn grant(is_iss_supported: bool, parameters: &str) -> Result<Form, OAuthError> {
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
    fn redirect_must_match_state_and_issuer_of_login() {
        let whole = "code=c&state=STATE&iss=https%3A%2F%2Fas.example";
        for (is_iss_supported, parameters) in [(true, whole), (false, whole), (false, "state=STATE&code=c#x")]
        {
            assert!(grant(is_iss_supported, parameters).is_ok(), "{parameters}");
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
            assert_eq!(grant(is_iss_supported, parameters), Err(error), "{parameters}");
        }
    }

    /// A user agent with one redirect URI per issuer.
    struct PerIssuer;

    impl UserAgent for PerIssuer {
        fn redirect_uri(&self) -> io::Result<String> {
            Ok("http://127.0.0.1:1/back".to_owned())
        }

        fn redirect_uri_for(&self, issuer: &str) -> io::Result<String> {
            Ok(format!("http://127.0.0.1:1/back/{}", issuer.len()))
        }

        fn log_in<'a>(&'a self, _: &'a str) -> LoginFuture<'a> {
            unreachable!("this test logs in without a user agent")
        }
    }

    /// Regression test: the client accepted answers at any URI. An issuer could redirect the person to
    /// another issuer that does not identify itself in its answers, and receive the code of that issuer.
    #[test]
    fn redirect_to_uri_of_another_issuer_is_rejected() {
        let endpoint = HttpUrl::parse("https://as.example/authorize").unwrap();
        let metadata = ServerMetadata { issuer: ISSUER.to_owned(), ..ServerMetadata::default() };
        let grant = |redirect_uri: &str, place: &str| {
            let request = LoginRequest::new(
                &endpoint,
                "client",
                redirect_uri,
                "https://rs.example",
                &Scopes::default(),
            )
            .at_uri_of_issuer(&PerIssuer, ISSUER);
            let redirect = format!("{place}?code=c&state={}", request.state);
            request.grant(&redirect, &metadata).map(drop)
        };
        let shared = PerIssuer.redirect_uri().unwrap();
        let own = PerIssuer.redirect_uri_for(ISSUER).unwrap();
        for uri in [&shared, &own] {
            assert_eq!(grant(uri, uri), Ok(()));
            assert_eq!(grant(uri, &uri["http://127.0.0.1:1".len()..]), Ok(()));
            for place in
                ["/back/1", "/back/", "/", "", "http://127.0.0.1:2/back", "http://127.0.0.1:1/back/1"]
            {
                assert_eq!(grant(uri, place), Err(OAuthError::RedirectIssuerMismatch), "{uri} {place}");
            }
        }
        assert_eq!(grant(&own, &shared), Err(OAuthError::RedirectIssuerMismatch));
        assert_eq!(grant(&shared, &own), Err(OAuthError::RedirectIssuerMismatch));
    }

    #[test]
    fn login_url_contains_all_required_parameters() {
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
