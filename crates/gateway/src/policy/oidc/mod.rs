//! Login of browsers at an OpenID provider: the authorization code flow with PKCE (OpenID Connect Core 1.0
//! §3.1, RFC 7636).
//!
//! The gateway keeps no state about sessions. An encrypted cookie contains the session, so each replica with
//! the same secrets accepts the sessions of all replicas.
//!
//! ```text
//! page without session ─▶ provider ─▶ callback_path ─▶ the same page, with a session
//!        302                             302                 │ after refresh_interval
//!                                                            ▼
//!                                                    refresh at the provider
//! ```

mod seal;
pub(super) mod cookies;
pub(super) mod outcome;
mod provider;
mod refreshes;

mod login;
mod refresh;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use thruway_client::{DocumentConfig, InvalidDocumentUrl, Url};
use thruway_message::Method;
use thruway_net::{Admitted, Clock, LogLimit};
use thruway_server::{Request, StatusCode};

use super::credentials::is_user_name;
use super::fields::VerifiedFacts;
use super::jwt::decide::fields_of_claims;
use super::refusal::Refusal;
use super::verdict::Verdict;

pub use seal::{InvalidOidcSecrets, OidcSecrets};

use cookies::{COOKIE_PREFIX, CookieNames, Session};
use outcome::Reply;
use provider::{Provider, ProviderError, since_epoch};
use refreshes::Refreshes;
use seal::Sealer;

/// Settings of the policy.
#[derive(Clone, PartialEq, Debug)]
pub struct OidcConfig {
    /// The issuer: the URL of the provider, without `/.well-known/openid-configuration`.
    pub issuer: String,
    /// Settings for fetching the metadata and the keys of the provider.
    pub discovery: DocumentConfig,
    /// Id of the gateway at the provider.
    pub client_id: String,
    /// Secret of the gateway at the provider. `None` for public clients.
    pub client_secret: Option<OidcClientSecret>,
    /// Requested scopes. They contain `openid`.
    pub scopes: Vec<String>,
    /// Origin of the protected site, as browsers see it, such as `https://shop.example`.
    pub origin: Url,
    /// Path to which the provider redirects browsers.
    pub callback_path: String,
    /// Path that ends a session.
    pub logout_path: String,
    /// Secrets for the cookies.
    pub secrets: OidcSecrets,
    /// Maximum time between a login and the end of the session.
    pub session_max: Duration,
    /// Time after which the gateway asks the provider again, if the provider has sent a refresh token.
    pub refresh_interval: Duration,
    /// Maximum time of a request to the provider.
    pub timeout: Duration,
    /// Claim with the name of the user.
    pub user_claim: String,
    /// Pairs of a request header and a claim. The rules of [`JwtConfig::fields`](crate::JwtConfig::fields)
    /// apply.
    pub fields: Vec<(String, String)>,
    /// Conditions that users must meet. All conditions must hold.
    pub conditions: Vec<ClaimCondition>,
}

/// Secret of the gateway at the provider. Debug output does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct OidcClientSecret(pub String);

/// A condition for a claim: the claim, or a member of the list in the claim, has one of the values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimCondition {
    /// Name of the claim.
    pub claim: String,
    /// Accepted values. `*@example.com` accepts all texts that end with `@example.com`.
    pub values: Vec<String>,
}

/// A policy with its provider and its secrets.
#[derive(Debug)]
pub(super) struct Oidc {
    policy: Arc<str>,
    config: OidcConfig,
    provider: Arc<Provider>,
    refreshes: Arc<Refreshes>,
    names: CookieNames,
    sealer: Sealer,
}

impl OidcConfig {
    /// Returns settings for the provider `issuer`, with defaults for all other settings. `origin` is the
    /// origin of the protected site.
    ///
    /// # Errors
    /// `issuer` is not a URL, or an attacker on the network path could change its metadata.
    pub fn new(
        issuer: &str,
        client_id: &str,
        origin: Url,
        secrets: OidcSecrets,
    ) -> Result<Self, InvalidDocumentUrl> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let timeout = Duration::from_secs(5);
        let discovery = DocumentConfig {
            accept: "application/json".to_owned(),
            fetch_timeout: timeout,
            ..DocumentConfig::new(url)?
        };
        Ok(Self {
            issuer: issuer.to_owned(),
            discovery,
            client_id: client_id.to_owned(),
            client_secret: None,
            scopes: vec!["openid".to_owned()],
            origin,
            callback_path: "/oidc/callback".to_owned(),
            logout_path: "/oidc/logout".to_owned(),
            secrets,
            session_max: Duration::from_hours(8),
            refresh_interval: Duration::from_mins(5),
            timeout,
            user_claim: "sub".to_owned(),
            fields: Vec::new(),
            conditions: Vec::new(),
        })
    }
}

impl Oidc {
    pub(super) fn new(policy: Arc<str>, config: OidcConfig) -> Self {
        let provider = Arc::new(Provider::new(config.issuer.clone(), config.discovery.clone()));
        let sealer = Sealer::new(&config.secrets, &[&policy, &config.issuer, &config.client_id]);
        let names = CookieNames::of(&policy);
        Self { policy, config, provider, refreshes: Arc::default(), names, sealer }
    }

    /// Uses the documents that `before` has fetched, if both policies have the same provider.
    pub(super) fn take_provider_of(&mut self, before: &Self) {
        if self.provider.is_like(&before.provider) {
            self.provider = before.provider.clone();
            self.refreshes = before.refreshes.clone();
        }
    }

    pub(super) fn decide<'p>(self: &'p Arc<Self>, request: &Request<'_>) -> Verdict<'p> {
        if request.path() == self.config.callback_path {
            return self.call_back(request);
        }
        if request.path() == self.config.logout_path {
            return self.log_out(request);
        }
        let clock = request.worker().clock();
        let now = since_epoch(clock).as_secs();
        match Session::of_request(request, &self.names, &self.sealer, now) {
            Some(session) if self.must_refresh(&session, now) => {
                Verdict::Exchange(self.refresh(request, session, now))
            }
            Some(session) => match self.facts(&session) {
                Ok(facts) => Verdict::Identify(facts),
                Err(NotAllowed) => Verdict::Respond(Box::new(self.not_allowed())),
            },
            None if is_for_page(request) => self.begin_login(request, now),
            None => Verdict::Refuse(Refusal::Credentials {
                scheme: "Cookie",
                realm: None,
                parameters: "",
                is_missing: true,
            }),
        }
    }

    /// Returns the verified properties of the user, if the user meets all conditions.
    pub(super) fn facts(&self, session: &Session) -> Result<VerifiedFacts<'_>, NotAllowed> {
        let claims = &session.claims;
        let config = &self.config;
        let sends_email =
            config.user_claim == "email" || config.fields.iter().any(|(_, claim)| claim == "email");
        let is_unverified = sends_email && !is_email_verified(claims);
        if is_unverified || !config.conditions.iter().all(|condition| condition.holds(claims)) {
            return Err(NotAllowed);
        }
        let user = match claims.get(&self.config.user_claim) {
            Some(Value::String(user)) if is_user_name(user) => user.clone(),
            _ => return Err(NotAllowed),
        };
        let fields = fields_of_claims(claims, &self.config.fields).ok_or(NotAllowed)?;
        Ok(VerifiedFacts {
            fields,
            user: Some(Cow::Owned(user)),
            claims: claims.clone(),
            withheld_cookies: Some(COOKIE_PREFIX),
        })
    }

    /// Returns the claims that the policy uses. A cookie has not enough space for all claims.
    fn used_claims(&self, claims: &Map<String, Value>) -> Map<String, Value> {
        let config = &self.config;
        let is_used = |name: &String| {
            ["sub", "email_verified", config.user_claim.as_str()].contains(&name.as_str())
                || config.fields.iter().any(|(_, claim)| claim == name)
                || config.conditions.iter().any(|condition| condition.claim == *name)
        };
        claims
            .iter()
            .filter(|(name, _)| is_used(name))
            .map(|(name, claim)| (name.clone(), claim.clone()))
            .collect()
    }

    /// Returns the response to a user without access.
    pub(super) fn not_allowed(&self) -> Reply {
        let text = format!(
            "403 Forbidden\nYour account has no access to this site. To use another account, open {}\n",
            self.config.logout_path
        );
        Reply::refusal(StatusCode::FORBIDDEN, text, "not_allowed")
    }

    /// Logs a failure of the provider.
    fn log_failure(&self, action: &str, error: &ProviderError) {
        static LIMIT: LogLimit = LogLimit::new();
        if let Some(Admitted { suppressed }) = LIMIT.admit() {
            let (policy, issuer) = (&*self.policy, self.config.issuer.as_str());
            tracing::warn!(policy, issuer, suppressed, "{action} failed: {error}");
        }
    }

    /// Returns the response to a failed login, and logs the reason.
    fn failed(&self, error: &ProviderError) -> Reply {
        self.log_failure("login", error);
        if error.is_unavailable() {
            return Reply::unavailable();
        }
        let (status, text, reason) = if error.is_refusal() {
            (StatusCode::FORBIDDEN, "did not accept the login. Open the page again.", "login_refused")
        } else if let ProviderError::Callback(_) = error {
            (StatusCode::BAD_REQUEST, "sent an incomplete redirect. Open the page again.", "login_invalid")
        } else {
            (StatusCode::BAD_GATEWAY, "sent no valid response.", "provider_failed")
        };
        let text = format!("{} {}\nThe login provider {text}\n", status.as_u16(), status.reason());
        Reply::refusal(status, text, reason)
    }

    /// Waits for `exchange`, at most for the configured time.
    async fn in_time<T>(
        &self,
        exchange: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        tokio::time::timeout(self.config.timeout, exchange).await.unwrap_or(Err(ProviderError::TimedOut))
    }

    /// Verifies an ID token, and returns its claims.
    async fn verified(&self, token: &str, clock: &Clock) -> Result<Map<String, Value>, ProviderError> {
        self.provider.verify(token, &self.config.client_id, clock).await
    }

    fn client_secret(&self) -> Option<&str> {
        self.config.client_secret.as_ref().map(|secret| secret.0.as_str())
    }
}

/// Error: the user does not meet the conditions, or a header cannot express a claim.
pub(super) struct NotAllowed;

/// Returns `false` if the provider states that it has not verified the address of the user. At some providers, anyone can
/// enter the address of another user.
fn is_email_verified(claims: &Map<String, Value>) -> bool {
    claims.get("email_verified").is_none_or(|is_verified| is_verified == true)
}

impl ClaimCondition {
    fn holds(&self, claims: &Map<String, Value>) -> bool {
        if self.claim == "email" && !is_email_verified(claims) {
            return false;
        }
        match claims.get(&self.claim) {
            Some(Value::Array(texts)) => texts.iter().any(|text| self.accepts(text)),
            Some(claim) => self.accepts(claim),
            None => false,
        }
    }

    fn accepts(&self, claim: &Value) -> bool {
        let Some(text) = claim.as_str() else { return false };
        self.values.iter().any(|value| match value.strip_prefix('*') {
            Some(end) => text.len() > end.len() && text.ends_with(end),
            None => text == value,
        })
    }
}

/// Returns `true` if a browser wants to show the response as a page. Scripts and API clients cannot log in by
/// a redirect.
fn is_for_page(request: &Request<'_>) -> bool {
    let field = |name: &str| request.field(name).and_then(|value| value.as_str()).unwrap_or_default();
    let accepts_html = request.field_lines().all("accept").any(|value| {
        let text = value.as_str().unwrap_or_default();
        text.split(',').any(|range| {
            let name = range.split(';').next().unwrap_or_default().trim();
            ["text/html", "application/xhtml+xml"].iter().any(|html| name.eq_ignore_ascii_case(html))
        })
    });
    matches!(request.method(), Method::Get | Method::Head)
        && accepts_html
        && matches!(field("sec-fetch-mode"), "" | "navigate")
        && !field("x-requested-with").eq_ignore_ascii_case("XMLHttpRequest")
        && !request.wants_tunnel()
}

impl fmt::Debug for OidcClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OidcClientSecret")
    }
}

/// Writes the settings as text, without secrets.
impl fmt::Display for OidcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "login at {}", self.issuer)?;
        for condition in &self.conditions {
            write!(f, ", {} is {}", condition.claim, condition.values.join(" or "))?;
        }
        Ok(())
    }
}
