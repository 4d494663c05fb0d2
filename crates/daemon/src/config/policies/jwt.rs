//! The policy `jwt`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_client::DocumentConfig;
use thruway_gateway::{JwtAlgorithm, JwtConfig, JwtKeySource, JwtKeys, JwtRules};

use crate::config::policies::headers::{resolve_realm, resolve_text_of_file, resolve_user_field};
use crate::config::resolver::{PERIOD_MAX, Resolver};
use crate::config::values::{Period, Span, Spanned};

/// Rules for JSON Web Tokens. Exactly one of `keys_file`, `keys_url` and `secret` is required: the keys that
/// verify the signatures of tokens.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawJwt {
    /// File with the issuer's public keys, as a JSON Web Key Set or in PEM. A relative path starts at the
    /// directory of the config. Default: none.
    pub(in crate::config) keys_file: Option<Spanned<PathBuf>>,
    /// URL of the issuer's JSON Web Key Set: an `https` URL, or an `http` URL of this machine. Thruway
    /// fetches the set again after `keys_refresh_interval`. Thruway also fetches the set again when a token
    /// names an unknown key. Default: none.
    pub(in crate::config) keys_url: Option<Spanned<String>>,
    /// Time after which Thruway fetches the keys at `keys_url` again. The server at `keys_url` can shorten
    /// this time with `Cache-Control`, but cannot extend it. Default: 10m.
    pub(in crate::config) keys_refresh_interval: Option<Spanned<Period>>,
    /// Maximum age of fetched keys: at least `keys_refresh_interval`, at most 168h. If Thruway cannot fetch
    /// `keys_url` again, the keys stay valid until this age. After that, requests get 503. Set a lower value
    /// if withdrawn keys must become invalid sooner. Risk: if Thruway cannot fetch `keys_url`, withdrawn keys
    /// stay valid for up to this time. Default: 24h.
    pub(in crate::config) keys_age_max: Option<Spanned<Period>>,
    /// Secret of at least 32 bytes that the issuer also has. Thruway hides the secret in error messages.
    /// Default: none.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) secret: Option<Spanned<String>>,
    /// Required issuer of the token (`iss`). Default: any.
    pub(in crate::config) issuer: Option<String>,
    /// Accepted audiences (`aud`). A token must have at least one of these audiences. Risk of the default:
    /// a token that the issuer made for another service gives access. Default: any.
    pub(in crate::config) audience: Option<Spanned<Vec<String>>>,
    /// Accepted signature algorithms, such as `RS256`, `ES256`, `EdDSA` or `HS256`. Default: all algorithms
    /// that the keys support.
    pub(in crate::config) algorithms: Option<Spanned<Vec<Spanned<String>>>>,
    /// Tolerated difference between the clock of the issuer and the clock of this server. The maximum is
    /// 1h. Default: 30s.
    pub(in crate::config) leeway: Option<Spanned<Period>>,
    /// Claims that a token must have in addition to `exp`. Default: none.
    #[serde(default)]
    pub(in crate::config) required_claims: Vec<String>,
    /// Accepted token types (`typ` in the header of the token), with or without `application/`. Set
    /// `["at+jwt"]` if the issuer writes this type into access tokens (RFC 9068). Risk of other types: a
    /// token that is not an access token may give access. Default: `JWT`, `JOSE`, `at+jwt`, and tokens
    /// without a type.
    pub(in crate::config) types: Option<Spanned<Vec<Spanned<String>>>>,
    /// `true` accepts ID tokens (OpenID Connect). Set `false` if clients send access tokens. Risk of `true`
    /// without `audience`: an ID token that the issuer made for any application gives access. Default:
    /// true.
    pub(in crate::config) id_tokens: Option<bool>,
    /// Headers in which Thruway sends claims of the token to the upstream: `{ X-User = "sub" }`. If a claim
    /// is a list of strings, Thruway joins the strings with commas. If a string in the list contains a comma,
    /// the request gets 401. Risk: a claim that is a single string may contain commas. An upstream server
    /// that splits the header at commas then reads several values. Default: none.
    #[serde(default)]
    pub(in crate::config) headers: BTreeMap<Spanned<String>, String>,
    /// Realm in the header `WWW-Authenticate` of 401 responses. Default: the name of the policy.
    pub(in crate::config) realm: Option<Spanned<String>>,
}

pub(in crate::config) fn resolve_jwt(resolver: &mut Resolver<'_>, raw: Spanned<RawJwt>) -> Option<JwtConfig> {
    let span = raw.span();
    let mut raw = raw.into_inner();
    let keys = resolve_jwt_keys(resolver, &mut raw, &span)?;
    let default = JwtConfig::new(keys);
    if let Some(audience) = &raw.audience {
        resolver.refuse_empty(
            audience,
            "`audience` is empty",
            "remove the key to accept tokens for any audience",
        );
    }
    let algorithms =
        raw.algorithms.map_or_else(Vec::new, |raw| resolve_algorithms(resolver, &raw, &default.keys));
    let leeway = Period(default.rules.leeway);
    let rules = JwtRules {
        issuer: raw.issuer,
        audience: raw.audience.map(Spanned::into_inner).unwrap_or_default(),
        algorithms,
        leeway: resolver.or(raw.leeway, leeway, Period(Duration::ZERO)..=LEEWAY_MAX).0,
        required_claims: raw.required_claims,
        types: raw.types.map_or_else(Vec::new, |raw| resolve_token_types(resolver, &raw)),
        allow_id_tokens: raw.id_tokens.unwrap_or(default.rules.allow_id_tokens),
    };
    let fields = raw.headers.into_iter();
    Some(JwtConfig {
        rules,
        fields: fields
            .filter_map(|(name, claim)| Some((resolve_user_field(resolver, Some(name))?, claim)))
            .collect(),
        realm: resolve_realm(resolver, raw.realm),
        ..default
    })
}

fn resolve_jwt_keys(resolver: &mut Resolver<'_>, raw: &mut RawJwt, span: &Span) -> Option<JwtKeySource> {
    for period in [&raw.keys_refresh_interval, &raw.keys_age_max].into_iter().flatten() {
        if raw.keys_url.is_none() {
            resolver.refuse_with(period, "this key requires `keys_url`", "remove the key");
        }
    }
    match (&raw.keys_file, &raw.keys_url, &raw.secret) {
        (Some(path), None, None) => {
            let text = resolve_text_of_file(resolver, path)?;
            let keys = JwtKeys::from_file(&text).map_err(|error| resolver.refuse(path, error));
            Some(keys.ok()?.into())
        }
        (None, Some(url), None) => {
            let config = DocumentConfig::new(url.get_ref().as_str());
            let config = config.map_err(|error| resolver.refuse(url, error)).ok()?;
            let refresh_interval = Period(config.refresh_interval);
            let least = Period(config.refresh_interval_min);
            let refresh_interval =
                resolver.or(raw.keys_refresh_interval.take(), refresh_interval, least..=PERIOD_MAX).0;
            let age_max = Period(config.age_max);
            let age_max =
                resolver.or(raw.keys_age_max.take(), age_max, Period(refresh_interval)..=KEYS_AGE_MAX).0;
            Some(DocumentConfig { refresh_interval, age_max, ..config }.into())
        }
        (None, None, Some(secret)) => {
            let keys = JwtKeys::from_secret(secret.get_ref()).map_err(|error| resolver.refuse(secret, error));
            Some(keys.ok()?.into())
        }
        _ => {
            resolver.refuse_at(span, "a `jwt` policy needs one of `keys_file`, `keys_url` and `secret`");
            None
        }
    }
}

fn resolve_algorithms(
    resolver: &mut Resolver<'_>,
    raw: &Spanned<Vec<Spanned<String>>>,
    keys: &JwtKeySource,
) -> Vec<JwtAlgorithm> {
    let mut algorithms = Vec::new();
    resolver.refuse_empty(
        raw,
        "`algorithms` is empty",
        "remove the key to accept the algorithms of the keys",
    );
    for name in raw.get_ref() {
        match JwtAlgorithm::from_str(name.get_ref()) {
            Ok(algorithm) if keys.may_be_for(algorithm) => algorithms.push(algorithm),
            Ok(_) => resolver.refuse(name, "there is no key for this algorithm"),
            Err(_) => resolver.refuse_with(
                name,
                "unknown algorithm",
                "possible: `RS256`, `PS256`, `ES256`, `EdDSA`, `HS256`, …",
            ),
        }
    }
    algorithms
}

fn resolve_token_types(resolver: &mut Resolver<'_>, raw: &Spanned<Vec<Spanned<String>>>) -> Vec<String> {
    resolver.refuse_empty(
        raw,
        "`types` is empty, so no token would be accepted",
        "remove the key to accept the default types",
    );
    for name in raw.get_ref() {
        let text = name.get_ref();
        // Only these characters are allowed in media types (RFC 6838 §4.2).
        let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+/".contains(&byte));
        if text.is_empty() || !is_name {
            resolver.refuse_with(name, "this is not a valid token type", "possible: `at+jwt`, `JWT`, …");
        }
    }
    raw.get_ref().iter().map(|name| name.get_ref().clone()).collect()
}

/// Maximum of `leeway`. If two clocks differ by more than one hour, one of them is wrong.
const LEEWAY_MAX: Period = Period(Duration::from_hours(1));

const KEYS_AGE_MAX: Period = Period(Duration::from_hours(7 * 24));
