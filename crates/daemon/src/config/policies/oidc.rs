//! The key `oidc` of policies: login of browsers at an OpenID provider.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_client::Url;
use thruway_gateway::{ClaimCondition, OidcClientSecret, OidcConfig, OidcSecrets};

use crate::config::policies::headers::{resolve_text_of_file, resolve_user_field};
use crate::config::resolver::{Resolver, SOME_PERIOD, is_path_byte};
use crate::config::values::{Period, Span, Spanned};

/// Login of browsers at an OpenID provider, such as Keycloak, Authentik, Google or Microsoft Entra. Exactly
/// one of `secret` and `secrets_file` is required.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawOidc {
    /// The issuer: the URL of the provider, without `/.well-known/openid-configuration`. It must be exactly
    /// the issuer in the metadata of the provider. An `https` URL, or an `http` URL of this machine.
    pub(in crate::config) issuer: Spanned<String>,
    /// Id of Thruway at the provider.
    pub(in crate::config) client_id: Spanned<String>,
    /// Secret of Thruway at the provider. Thruway hides the secret in error messages. Default: none, for a
    /// public client.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) client_secret: Option<Spanned<String>>,
    /// File with the secret of Thruway at the provider. A relative path starts at the directory of the
    /// config. Default: none.
    pub(in crate::config) client_secret_file: Option<Spanned<PathBuf>>,
    /// Origin of the protected site, as browsers see it: `https://shop.example`. Register this URL with
    /// `callback_path` at the provider.
    pub(in crate::config) url: Spanned<String>,
    /// Secret of at least 32 bytes that encrypts the cookies. All replicas need the same secret. Thruway
    /// hides the secret in error messages. Risk: an attacker with the secret can log in as any user. Default:
    /// none.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) secret: Option<Spanned<String>>,
    /// File with secrets that encrypt the cookies, one in each line. Thruway encrypts with the first secret
    /// and decrypts with all secrets. A relative path starts at the directory of the config. Default: none.
    pub(in crate::config) secrets_file: Option<Spanned<PathBuf>>,
    /// Requested scopes in addition to `openid`, such as `profile`, `email`, `groups` and `offline_access`.
    /// Default: none.
    #[serde(default)]
    pub(in crate::config) scopes: Vec<Spanned<String>>,
    /// Path to which the provider redirects browsers. A route with this policy must contain it. Default:
    /// `/oidc/callback`.
    pub(in crate::config) callback_path: Option<Spanned<String>>,
    /// Path that ends a session. A route with this policy must contain it. Default: `/oidc/logout`.
    pub(in crate::config) logout_path: Option<Spanned<String>>,
    /// Maximum time between a login and the end of the session: 1 minute to 30 days. Risk of a long time: a
    /// stolen cookie is valid until the end. Default: 8h.
    pub(in crate::config) session_max: Option<Spanned<Period>>,
    /// Time after which Thruway asks the provider if the user still has access, if the provider sends refresh
    /// tokens. Default: 5m.
    pub(in crate::config) refresh_interval: Option<Spanned<Period>>,
    /// Maximum time for the requests to the provider in one step of the login. After this time, the client
    /// gets 503. Default: 5s.
    pub(in crate::config) timeout: Option<Spanned<Period>>,
    /// Claim of the ID token with the name of the user, for access logs and for limits by user. Users without
    /// this claim get 403. Default: `sub`.
    pub(in crate::config) user: Option<Spanned<String>>,
    /// Headers in which Thruway sends claims of the ID token to the upstream: `{ X-User = "email" }`. Lists
    /// of strings become text with commas. If a string in a list contains a comma, the request gets 403.
    /// Thruway removes these headers from requests of clients. Default: none.
    #[serde(default)]
    pub(in crate::config) headers: BTreeMap<Spanned<String>, String>,
    /// Required claims of users, each with the accepted values: `{ groups = ["ops"], email =
    /// ["*@example.com"] }`. Other users get 403. `*` at the start of a value stands for any text. Risk of
    /// the default: all users of the provider have access. Default: none.
    #[serde(default)]
    pub(in crate::config) require: BTreeMap<String, Spanned<Vec<String>>>,
}

pub(in crate::config) fn resolve_oidc(
    resolver: &mut Resolver<'_>,
    raw: RawOidc,
    span: &Span,
) -> Option<OidcConfig> {
    let before = resolver.failures.len();
    let secrets = resolve_secrets(resolver, raw.secret, raw.secrets_file, span);
    let client_secret = resolve_client_secret(resolver, raw.client_secret, raw.client_secret_file);
    let origin = resolve_origin(resolver, &raw.url);
    if raw.client_id.get_ref().is_empty() {
        resolver.refuse(&raw.client_id, "the client id is empty");
    }
    let issuer = raw.issuer.get_ref();
    if issuer.contains(['?', '#']) {
        resolver.refuse(&raw.issuer, "an issuer has no query and no fragment");
    }
    let config = OidcConfig::new(issuer, raw.client_id.get_ref(), origin?, secrets?);
    let config = config.map_err(|error| resolver.refuse(&raw.issuer, error)).ok()?;
    let callback_path = resolve_path(resolver, raw.callback_path, &config.callback_path);
    let logout_path = resolve_path(resolver, raw.logout_path, &config.logout_path);
    if callback_path == logout_path {
        resolver.refuse_at(span, "`callback_path` and `logout_path` are equal");
    }
    let session_max = resolver.or(raw.session_max, Period(config.session_max), SESSION_MIN..=SESSION_MAX);
    let refresh_interval =
        resolver.or(raw.refresh_interval, Period(config.refresh_interval), REFRESH_MIN..=SESSION_MAX);
    let timeout = resolver.or(raw.timeout, Period(config.timeout), SOME_PERIOD).0;
    let mut scopes = config.scopes;
    for scope in raw.scopes {
        let is_valid = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if scope.get_ref().is_empty() || !scope.get_ref().bytes().all(is_valid) {
            resolver.refuse_with(&scope, "this is not a valid scope", "write each scope as its own text");
        }
        if !scopes.contains(scope.get_ref()) {
            scopes.push(scope.into_inner());
        }
    }
    let conditions = raw.require.into_iter().map(|(claim, values)| {
        resolver.refuse_empty(&values, "the list is empty, so no user would have access", "remove the claim");
        ClaimCondition { claim, values: values.into_inner() }
    });
    let conditions = conditions.collect();
    let fields = raw.headers.into_iter();
    let fields =
        fields.filter_map(|(name, claim)| Some((resolve_user_field(resolver, Some(name))?, claim))).collect();
    let mut discovery = config.discovery;
    discovery.fetch_timeout = timeout;
    (resolver.failures.len() == before).then_some(OidcConfig {
        discovery,
        client_secret,
        scopes,
        callback_path,
        logout_path,
        session_max: session_max.0,
        refresh_interval: refresh_interval.0,
        timeout,
        user_claim: raw.user.map_or(config.user_claim, Spanned::into_inner),
        fields,
        conditions,
        ..config
    })
}

fn resolve_secrets(
    resolver: &mut Resolver<'_>,
    secret: Option<Spanned<String>>,
    file: Option<Spanned<PathBuf>>,
    span: &Span,
) -> Option<OidcSecrets> {
    const HINT: &str = "`openssl rand -base64 32` prints a secret";
    match (secret, file) {
        (Some(secret), None) => {
            let secrets = OidcSecrets::from_lines(secret.get_ref());
            secrets.map_err(|error| resolver.refuse_with(&secret, error, HINT)).ok()
        }
        (None, Some(path)) => {
            let secrets = OidcSecrets::from_lines(&resolve_text_of_file(resolver, &path)?);
            secrets.map_err(|error| resolver.refuse_with(&path, format!("in this file: {error}"), HINT)).ok()
        }
        _ => {
            let failure =
                resolver.source.failure(span.clone(), "`oidc` needs one of `secret` and `secrets_file`");
            resolver.failures.push(failure.with_hint(HINT));
            None
        }
    }
}

fn resolve_client_secret(
    resolver: &mut Resolver<'_>,
    secret: Option<Spanned<String>>,
    file: Option<Spanned<PathBuf>>,
) -> Option<OidcClientSecret> {
    if let (Some(secret), Some(_)) = (&secret, &file) {
        resolver.refuse(secret, "set only one of `client_secret` and `client_secret_file`");
    }
    match file {
        Some(path) => {
            let text = resolve_text_of_file(resolver, &path)?;
            if text.trim().is_empty() {
                resolver.refuse(&path, "this file is empty");
            }
            Some(OidcClientSecret(text.trim().to_owned()))
        }
        None => secret.map(|secret| OidcClientSecret(secret.into_inner())),
    }
}

fn resolve_origin(resolver: &mut Resolver<'_>, raw: &Spanned<String>) -> Option<Url> {
    const HINT: &str = "write the URL of the site: `https://shop.example`";
    let url = Url::for_request(raw.get_ref()).ok();
    let is_origin = |url: &Url| url.target() == "/" && !raw.get_ref().contains(['?', '#']);
    match url {
        Some(url) if !is_origin(&url) => {
            resolver.refuse_with(raw, "the URL must have no path and no query", HINT);
            None
        }
        Some(url) if !url.is_protected() => {
            let message = "browsers send the cookies only with `https`, except to this machine";
            resolver.refuse_with(raw, message, HINT);
            None
        }
        Some(url) => Some(url),
        None => {
            resolver.refuse_with(raw, "this is not a URL", HINT);
            None
        }
    }
}

fn resolve_path(resolver: &mut Resolver<'_>, raw: Option<Spanned<String>>, default: &str) -> String {
    let Some(path) = raw else { return default.to_owned() };
    let text = path.get_ref();
    let is_valid = text.starts_with('/') && text.len() > 1 && !text.contains("//");
    if !is_valid || !text.chars().all(is_path_byte) {
        let message = "a path begins with one slash, and is percent-encoded";
        resolver.refuse_with(&path, message, "write a path such as `/oidc/callback`");
    }
    path.into_inner()
}

const SESSION_MIN: Period = Period(Duration::from_mins(1));
const SESSION_MAX: Period = Period(Duration::from_hours(30 * 24));

/// Minimum of `refresh_interval`. The provider would get too many requests with a shorter interval.
const REFRESH_MIN: Period = Period(Duration::from_secs(10));
