//! The login: the redirect to the provider, the callback, and the logout.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;
use thruway_client::Url;
use thruway_message::Method;
use thruway_net::Clock;
use thruway_server::{Request, Response, StatusCode};

use super::Oidc;
use super::cookies::{LOGIN_SECONDS_MAX, PendingLogin, Session, free_slot, removed_cookie};
use super::outcome::{Outcome, Reply};
use super::provider::{ProviderError, ProviderMetadata, printable, since_epoch};
use super::seal::random_text;
use crate::policy::verdict::Verdict;

/// Parameters of a request to `callback_path` (RFC 6749 §4.1.2, RFC 9207 §2).
#[derive(Default)]
struct CallbackParameters {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

impl CallbackParameters {
    /// Parses a query. Returns `None` if a parameter occurs twice (RFC 6749 §3.1).
    fn parse(query: &str) -> Option<Self> {
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "code" => &mut parameters.code,
                "state" => &mut parameters.state,
                "error" => &mut parameters.error,
                "iss" => &mut parameters.iss,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return None;
            }
        }
        Some(parameters)
    }
}

impl Oidc {
    /// Redirects the browser to the provider. Waits if the metadata of the provider is unknown.
    pub(super) fn begin_login(self: &Arc<Self>, request: &Request<'_>, now: u64) -> Verdict<'static> {
        let (target, slot) = (target_of(request), free_slot(request, &self.names, now));
        if let Some(metadata) = self.provider.known_metadata() {
            return Verdict::Respond(Box::new(self.to_provider(&metadata, target, slot, now)));
        }
        let oidc = self.clone();
        Verdict::Exchange(Box::pin(async move {
            let metadata = oidc.in_time(oidc.provider.metadata()).await;
            Outcome::Respond(match metadata {
                Ok(metadata) => oidc.to_provider(&metadata, target, slot, now),
                Err(error) => oidc.failed(&error),
            })
        }))
    }

    /// Returns the redirect to the provider (OpenID Connect Core 1.0 §3.1.2.1), with the cookie of the login.
    fn to_provider(&self, metadata: &ProviderMetadata, target: String, slot: usize, now: u64) -> Reply {
        let begun = || {
            let [state, nonce, verifier] = [random_text()?, random_text()?, random_text()?];
            let login = PendingLogin { state, nonce, verifier, target, ends: now + LOGIN_SECONDS_MAX };
            let cookie = login.cookie(slot, &self.names, &self.sealer)?;
            Some((login, cookie))
        };
        let Some((login, cookie)) = begun() else {
            let text = "503 Service Unavailable\n".to_owned();
            return Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, text, "no_random_numbers");
        };
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&login.verifier));
        let scopes = self.config.scopes.join(" ");
        let location = with_query(
            &metadata.authorization_endpoint,
            &[
                ("response_type", "code"),
                ("client_id", &self.config.client_id),
                ("redirect_uri", &self.redirect_uri()),
                ("scope", &scopes),
                ("state", &login.state),
                ("nonce", &login.nonce),
                ("code_challenge", &challenge),
                ("code_challenge_method", "S256"),
            ],
        );
        Reply { response: redirect(&location, &cookie), reason: Some("login") }
    }

    /// Handles the request with which the browser returns from the provider.
    pub(super) fn call_back(self: &Arc<Self>, request: &Request<'_>) -> Verdict<'static> {
        let respond = |reply| Verdict::Respond(Box::new(reply));
        if request.method() != Method::Get {
            let text = "405 Method Not Allowed\n".to_owned();
            let mut reply = Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text, "method");
            reply.response = reply.response.with_field("Allow", "GET");
            return respond(reply);
        }
        let clock = request.worker().clock().clone();
        let now = since_epoch(&clock).as_secs();
        let parameters = CallbackParameters::parse(request.query_string().unwrap_or_default());
        let begun = parameters.and_then(|parameters| {
            let state = parameters.state.as_deref()?;
            let (login, slot) = PendingLogin::of_request(request, state, &self.names, &self.sealer, now)?;
            Some((parameters, login, slot))
        });
        let Some((parameters, login, slot)) = begun else {
            let text = format!(
                "400 Bad Request\nThis login has expired, is already complete, or began in another browser. Open {}\n",
                self.config.origin.origin()
            );
            return respond(Reply::refusal(StatusCode::BAD_REQUEST, text, "login_unknown"));
        };
        let oidc = self.clone();
        Verdict::Exchange(Box::pin(async move {
            let mut reply = match oidc.in_time(oidc.complete(&parameters, &login, &clock)).await {
                Ok(reply) => reply,
                Err(error) => oidc.failed(&error),
            };
            // The login is over, so its state must not be valid a second time.
            let removed = removed_cookie(&oidc.names.logins[slot]);
            reply.response = reply.response.with_field("Set-Cookie", removed);
            Outcome::Respond(reply)
        }))
    }

    /// Completes a login with the parameters of the provider. Returns the redirect to the page.
    async fn complete(
        &self,
        parameters: &CallbackParameters,
        login: &PendingLogin,
        clock: &Clock,
    ) -> Result<Reply, ProviderError> {
        let metadata = self.provider.metadata().await?;
        let is_of_issuer = match &parameters.iss {
            Some(issuer) => *issuer == self.config.issuer,
            None => !metadata.sends_issuer,
        };
        if !is_of_issuer {
            return Err(ProviderError::Callback("it is of another issuer"));
        }
        if let Some(error) = &parameters.error {
            return Ok(self.refused_by_provider(error));
        }
        let code = parameters.code.as_deref().ok_or(ProviderError::Callback("it has no code"))?;
        let redirect_uri = self.redirect_uri();
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri.as_str()),
            ("code_verifier", login.verifier.as_str()),
        ];
        let tokens = self.provider.tokens(&form, &self.config.client_id, self.client_secret()).await?;
        let id_token = tokens.id_token.ok_or(ProviderError::NoMember("id_token"))?;
        let claims = self.verified(&id_token, clock).await?;
        let nonce = claims.get("nonce").and_then(Value::as_str).unwrap_or_default();
        if !bool::from(nonce.as_bytes().ct_eq(login.nonce.as_bytes())) {
            return Err(ProviderError::IdToken("its nonce is not the nonce of this login"));
        }
        let now = since_epoch(clock);
        let session = Session {
            claims: self.used_claims(&claims),
            ends: (now + self.config.session_max).as_secs(),
            refresh_at: (now + self.config.refresh_interval).as_secs(),
            refresh_token: tokens.refresh_token,
        };
        let cookie = session.cookie(&self.names, &self.sealer, now.as_secs());
        let cookie = cookie.ok_or(ProviderError::IdToken("its claims are too large for a cookie"))?;
        // The origin is from the config, so this redirect cannot lead to another site.
        let location = format!("{}{}", self.config.origin.origin(), login.target);
        Ok(Reply { response: redirect(&location, &cookie), reason: None })
    }

    /// Returns the response if the provider has not logged in the user (OpenID Connect Core 1.0 §3.1.2.6).
    fn refused_by_provider(&self, error: &str) -> Reply {
        let error = printable(error);
        tracing::debug!(policy = &*self.policy, error, "the provider refused a login");
        if matches!(&*error, "server_error" | "temporarily_unavailable") {
            let text = format!("503 Service Unavailable\nThe login provider reports `{error}`.\n");
            return Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, text, "provider_unavailable");
        }
        let text = format!("403 Forbidden\nThe login provider reports `{error}`.\n");
        Reply::refusal(StatusCode::FORBIDDEN, text, "login_refused")
    }

    /// Ends the session of the browser, and redirects the browser to the logout page of the provider, if it
    /// has one (OpenID Connect RP-Initiated Logout 1.0 §2).
    pub(super) fn log_out(self: &Arc<Self>, request: &Request<'_>) -> Verdict<'static> {
        let site = request.field("sec-fetch-site").and_then(|value| value.as_str()).unwrap_or_default();
        if !matches!(request.method(), Method::Get | Method::Post) || site == "cross-site" {
            let text = "403 Forbidden\nOther sites cannot end a session.\n".to_owned();
            return Verdict::Respond(Box::new(Reply::refusal(
                StatusCode::FORBIDDEN,
                text,
                "logout_of_other_site",
            )));
        }
        let oidc = self.clone();
        Verdict::Exchange(Box::pin(async move {
            let metadata = oidc.in_time(oidc.provider.metadata()).await.ok();
            let home = format!("{}/", oidc.config.origin.origin());
            let end = metadata.as_ref().and_then(|metadata| metadata.end_session_endpoint.as_ref());
            let removed = removed_cookie(&oidc.names.session);
            let response = match end {
                Some(end) => redirect(
                    &with_query(
                        end,
                        &[("client_id", &oidc.config.client_id), ("post_logout_redirect_uri", &home)],
                    ),
                    &removed,
                ),
                None => Response::text("You are logged out.\n")
                    .with_field("Cache-Control", "no-store")
                    .with_field("Set-Cookie", removed),
            };
            Outcome::Respond(Reply { response, reason: None })
        }))
    }

    fn redirect_uri(&self) -> String {
        format!("{}{}", self.config.origin.origin(), self.config.callback_path)
    }
}

/// Returns the path and the query of the request. Returns `/` if they are too long for a cookie.
fn target_of(request: &Request<'_>) -> String {
    let target = match request.query_string() {
        Some(query) => format!("{}?{query}", request.path()),
        None => request.path().to_owned(),
    };
    if target.starts_with('/') && target.len() <= TARGET_BYTES_MAX { target } else { "/".to_owned() }
}

/// Appends `parameters` to the query of `url`.
fn with_query(url: &Url, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    let separator = if url.query().is_some() { '&' } else { '?' };
    format!("{}{separator}{}", url.as_str(), query.finish())
}

/// Returns a redirect that sets a cookie. The browser follows it with GET.
fn redirect(location: &str, cookie: &str) -> Response {
    Response::redirect(StatusCode::SEE_OTHER, location)
        .with_field("Cache-Control", "no-store")
        .with_field("Set-Cookie", cookie)
}

/// Maximum length of the target that the browser requests after the login.
const TARGET_BYTES_MAX: usize = 1000;
