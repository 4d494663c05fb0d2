//! Policies, and the files that they need.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use thruway_client::DocumentConfig;
use thruway_gateway::{
    AddressesConfig, ApiKeysConfig, BasicAuthConfig, ConcurrencyConfig, CountBy, FieldRewrite, InvalidLine,
    InvalidRewrite, JwtAlgorithm, JwtConfig, JwtKeySource, JwtKeys, JwtRules, KeyPlace, PolicyConfig,
    RateLimitConfig, is_user_name, lines_of,
};
use thruway_server::{FieldName, FieldValue, Networks, StatusCode};

use super::super::Span;
use super::super::raw::{
    Period, RawApiKeys, RawBasicAuth, RawConcurrency, RawCountBy, RawCountByHeader, RawCountByName, RawJwt,
    RawPolicy, RawRateLimit, TextOrTable,
};
use super::super::spanned::Spanned;
use super::certificates::resolve_client_certificate;
use crate::config::proxies::resolve_networks;
use crate::config::resolver::{PERIOD_MAX, Resolver};

/// `None` for those that are wrong: their names are known all the same.
pub(super) type ResolvedPolicies = BTreeMap<String, Option<PolicyConfig>>;

pub(super) fn resolve_policies(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<String, Spanned<RawPolicy>>,
) -> ResolvedPolicies {
    let policy = |(name, policy): (String, Spanned<RawPolicy>)| {
        resolver.check_name(&name, &policy.span(), "a policy");
        (name, resolve_policy(resolver, policy))
    };
    raw.into_iter().map(policy).collect()
}

/// The names of a route's policies, all of which there must be.
pub(super) fn resolve_route_policies(
    resolver: &mut Resolver<'_>,
    raw: Vec<Spanned<String>>,
    policies: &ResolvedPolicies,
) -> Vec<String> {
    for (place, name) in raw.iter().enumerate() {
        if !policies.contains_key(name.get_ref()) {
            refuse_unknown_policy(resolver, name, policies);
        } else if raw[..place].iter().any(|earlier| earlier.get_ref() == name.get_ref()) {
            resolver.refuse_with(name, "the route has this policy already", "leave it out");
        }
    }
    raw.into_iter().map(Spanned::into_inner).collect()
}

fn refuse_unknown_policy(resolver: &mut Resolver<'_>, name: &Spanned<String>, policies: &ResolvedPolicies) {
    let message = format!("there is no policy `{}`", name.get_ref().escape_debug());
    let likeness = |known: &str| strsim::jaro_winkler(name.get_ref(), known);
    let meant = policies.keys().map(|known| (likeness(known), known));
    let meant =
        meant.filter(|(likeness, _)| *likeness > 0.8).max_by(|(one, _), (other, _)| one.total_cmp(other));
    let known: Vec<_> = policies.keys().map(|name| format!("`{name}`")).collect();
    let hint = match (meant, &known[..]) {
        (Some((_, name)), _) => format!("did you mean `{name}`?"),
        (None, []) => "add one: `[policies.NAME]` and below it `allow = [\"127.0.0.1\"]`".to_owned(),
        (None, known) => format!("there are {}", known.join(", ")),
    };
    resolver.refuse_with(name, message, &hint);
}

fn resolve_policy(resolver: &mut Resolver<'_>, raw: Spanned<RawPolicy>) -> Option<PolicyConfig> {
    let span = raw.span();
    let RawPolicy {
        allow,
        deny,
        basic_auth,
        api_keys,
        jwt,
        client_certificate,
        rate_limit,
        concurrency,
        content_bytes_max,
    } = raw.into_inner();
    let mut kinds: Vec<Option<PolicyConfig>> = Vec::new();
    if allow.is_some() || deny.is_some() {
        kinds.push(Some(PolicyConfig::Addresses(resolve_addresses(resolver, allow, deny))));
    }
    kinds.extend(basic_auth.map(|raw| resolve_basic_auth(resolver, raw, &span).map(PolicyConfig::BasicAuth)));
    kinds.extend(api_keys.map(|raw| resolve_api_keys(resolver, raw).map(PolicyConfig::ApiKeys)));
    kinds.extend(jwt.map(|raw| resolve_jwt(resolver, raw).map(PolicyConfig::Jwt)));
    kinds.extend(client_certificate.map(|raw| {
        let config = resolve_client_certificate(resolver, raw, &span);
        Some(PolicyConfig::ClientCertificate(config))
    }));
    kinds.extend(rate_limit.map(|raw| Some(PolicyConfig::RateLimit(resolve_rate_limit(resolver, raw)))));
    kinds.extend(concurrency.map(|raw| Some(PolicyConfig::Concurrency(resolve_concurrency(resolver, raw)))));
    kinds.extend(content_bytes_max.map(|octets| Some(PolicyConfig::ContentBytesMax(octets))));
    if kinds.len() == 1 {
        return kinds.pop().flatten();
    }
    let failure = resolver.source.failure(span, KINDS);
    resolver.failures.push(failure.with_hint("what is asked besides is another policy: routes name several"));
    None
}

fn resolve_addresses(
    resolver: &mut Resolver<'_>,
    allow: Option<Spanned<Vec<Spanned<String>>>>,
    deny: Option<Spanned<Vec<Spanned<String>>>>,
) -> AddressesConfig {
    let allow = allow.map(|allow| resolve_some_networks(resolver, &allow));
    let deny = deny.map(|deny| resolve_some_networks(resolver, &deny)).unwrap_or_default();
    AddressesConfig { allow, deny }
}

fn resolve_some_networks(resolver: &mut Resolver<'_>, raw: &Spanned<Vec<Spanned<String>>>) -> Networks {
    if raw.get_ref().is_empty() {
        resolver.refuse_with(raw, "a list of addresses has at least one", "leave it out");
    }
    resolve_networks(resolver, raw.get_ref())
}

fn resolve_basic_auth(
    resolver: &mut Resolver<'_>,
    raw: RawBasicAuth,
    span: &Span,
) -> Option<BasicAuthConfig> {
    let RawBasicAuth { realm, users, users_file, user_field } = raw;
    let (realm, user_field) = (resolve_realm(resolver, realm), resolve_told_field(resolver, user_field));
    let users = resolve_names(resolver, users, users_file, "htpasswd -nbB NAME PASSWORD` writes one")?;
    if users.is_empty() {
        resolver.refuse_at(span, "there are no users: `basic_auth` has `users` or a `users_file`");
        return None;
    }
    let mut known = HashSet::new();
    if let Some((name, _)) = users.iter().find(|(name, _)| !known.insert(name)) {
        resolver.refuse_at(span, format!("the user `{}` is there twice", name.escape_debug()));
    }
    Some(BasicAuthConfig { realm, users, user_field })
}

fn resolve_api_keys(resolver: &mut Resolver<'_>, raw: Spanned<RawApiKeys>) -> Option<ApiKeysConfig> {
    let span = raw.span();
    let RawApiKeys { header, query, bearer, keys, keys_file, user_field } = raw.into_inner();
    let place = match (header, query, bearer) {
        (None, None, true) => KeyPlace::Bearer,
        (None, Some(name), false) if name.is_empty() => {
            resolver.refuse_at(&span, "the parameter of the `query` that keys are in has a name");
            return None;
        }
        (None, Some(name), false) => KeyPlace::Query(name),
        (None, None, false) => KeyPlace::Header("X-Api-Key".to_owned()),
        (Some(name), None, false) => KeyPlace::Header(resolve_own_field(resolver, Some(name))?),
        _ => {
            resolver.refuse_at(&span, "keys are in one of `header`, `query` and `bearer`");
            return None;
        }
    };
    let user_field = resolve_told_field(resolver, user_field);
    let keys = resolve_names(resolver, keys, keys_file, "printf %s KEY | sha256sum` writes the digits")?;
    if keys.is_empty() {
        resolver.refuse_at(&span, "there are no keys: `api_keys` has `keys` or a `keys_file`");
        return None;
    }
    let mut known = HashMap::new();
    for (name, key) in &keys {
        if let Some(other) = known.insert(key, name).filter(|other| *other != name) {
            let names = [other, name].map(|name| name.escape_debug());
            resolver.refuse_at(&span, format!("the key of `{}` is also that of `{}`", names[0], names[1]));
        }
    }
    Some(ApiKeysConfig { place, keys, user_field })
}

fn resolve_jwt(resolver: &mut Resolver<'_>, raw: Spanned<RawJwt>) -> Option<JwtConfig> {
    let span = raw.span();
    let mut raw = raw.into_inner();
    let keys = resolve_jwt_keys(resolver, &mut raw, &span)?;
    let default = JwtConfig::new(keys);
    if let Some(audience) = &raw.audience {
        resolver.refuse_empty(audience, "an audience is at least one", "leave it out for tokens for anybody");
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
    let fields = raw.fields.into_iter();
    Some(JwtConfig {
        rules,
        fields: fields
            .filter_map(|(name, claim)| Some((resolve_told_field(resolver, Some(name))?, claim)))
            .collect(),
        realm: resolve_realm(resolver, raw.realm),
        ..default
    })
}

fn resolve_jwt_keys(resolver: &mut Resolver<'_>, raw: &mut RawJwt, span: &Span) -> Option<JwtKeySource> {
    for period in [&raw.keys_kept_for, &raw.keys_age_max].into_iter().flatten() {
        if raw.keys_url.is_none() {
            resolver.refuse_with(period, "only keys at a `keys_url` are fetched", "leave it out");
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
            let kept_for = Period(config.kept_for);
            let least = Period(config.rest);
            let kept_for = resolver.or(raw.keys_kept_for.take(), kept_for, least..=PERIOD_MAX).0;
            let age_max = Period(config.age_max);
            let age_max = resolver.or(raw.keys_age_max.take(), age_max, Period(kept_for)..=KEYS_AGE_MAX).0;
            Some(DocumentConfig { kept_for, age_max, ..config }.into())
        }
        (None, None, Some(secret)) => {
            let keys = JwtKeys::from_secret(secret.get_ref()).map_err(|error| resolver.refuse(secret, error));
            Some(keys.ok()?.into())
        }
        _ => {
            resolver.refuse_at(span, "a token is checked with one of `keys_file`, `keys_url` and `secret`");
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
        "tokens are signed by at least one algorithm",
        "leave it out for those that the keys are for",
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
        "`types` has no type, so no token would be accepted",
        "leave it out for the default",
    );
    for name in raw.get_ref() {
        let text = name.get_ref();
        // RFC 6838 §4.2.
        let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+/".contains(&byte));
        if text.is_empty() || !is_name {
            resolver.refuse_with(name, "this is not the type of a token", "possible: `at+jwt`, `JWT`, …");
        }
    }
    raw.get_ref().iter().map(|name| name.get_ref().clone()).collect()
}

fn resolve_rate_limit(resolver: &mut Resolver<'_>, raw: RawRateLimit) -> RateLimitConfig {
    let requests = resolver.or(Some(raw.requests), 1, 1..=1_000_000_000);
    let default = RateLimitConfig::per_second(requests);
    RateLimitConfig {
        per: resolver.or(raw.per, Period(default.per), Period(Duration::from_millis(1))..=PERIOD_MAX).0,
        burst: resolver.or(raw.burst, default.burst, 1..=1_000_000_000),
        by: resolve_count_by(resolver, raw.by, default.by),
        status: resolve_refusal_status(resolver, raw.status, default.status),
        keys_max: resolver.or(raw.keys_max, default.keys_max, 8..=100_000_000),
        ..default
    }
}

fn resolve_concurrency(resolver: &mut Resolver<'_>, raw: RawConcurrency) -> ConcurrencyConfig {
    let default = ConcurrencyConfig::of_route(resolver.or(Some(raw.requests_max), 1, 1..=1_000_000));
    ConcurrencyConfig {
        by: resolve_count_by(resolver, raw.by, default.by),
        status: resolve_refusal_status(resolver, raw.status, default.status),
        ..default
    }
}

fn resolve_count_by(
    resolver: &mut Resolver<'_>,
    raw: Option<TextOrTable<RawCountBy>>,
    default: CountBy,
) -> CountBy {
    match raw.map(|TextOrTable(by)| by) {
        None => default,
        Some(RawCountBy::Named(RawCountByName::Address)) => CountBy::Address,
        Some(RawCountBy::Named(RawCountByName::Route)) => CountBy::Route,
        Some(RawCountBy::Header(RawCountByHeader { header })) => {
            resolve_own_field(resolver, Some(header)).map_or(default, CountBy::Header)
        }
    }
}

fn resolve_refusal_status(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<u16>>,
    default: StatusCode,
) -> StatusCode {
    let code = resolver.or(raw, default.as_u16(), 400..=599);
    StatusCode::new(code).unwrap_or(default)
}

/// The name of a field that a policy writes: none that gateways write, or would leave out.
fn resolve_told_field(resolver: &mut Resolver<'_>, raw: Option<Spanned<String>>) -> Option<String> {
    let before = resolver.failures.len();
    if let Some(name) = &raw
        && FieldRewrite::default().remove(name.get_ref()) == Err(InvalidRewrite::FieldOfGateway)
        && !is_framing(name.get_ref())
    {
        resolver.refuse(name, "this field is the gateway's: take another name");
    }
    if resolver.failures.len() == before { resolve_own_field(resolver, raw) } else { None }
}

/// The name of a field.
fn resolve_own_field(resolver: &mut Resolver<'_>, raw: Option<Spanned<String>>) -> Option<String> {
    let name = raw?;
    if let Err(error) = FieldName::new(name.get_ref().as_bytes()) {
        resolver.refuse(&name, error);
    } else if is_framing(name.get_ref()) {
        resolver.refuse(&name, "this field is about the connection or the content: take another name");
    }
    Some(name.into_inner())
}

fn resolve_realm(resolver: &mut Resolver<'_>, raw: Option<Spanned<String>>) -> Option<String> {
    let realm = raw?;
    if let Err(error) = FieldValue::new(realm.get_ref().as_bytes()) {
        resolver.refuse(&realm, error);
    }
    Some(realm.into_inner())
}

/// Names and what belongs to them, from the config and from a file. `command` tells how to make the latter.
fn resolve_names<T: FromStr<Err: fmt::Display>>(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<Spanned<String>, Spanned<String>>,
    file: Option<Spanned<PathBuf>>,
    command: &str,
) -> Option<Vec<(String, T)>> {
    let before = resolver.failures.len();
    let mut all = Vec::new();
    for (name, value) in raw {
        if !is_user_name(name.get_ref()) {
            resolver.refuse(&name, "this is no name: it is told as the value of a field");
        }
        match value.get_ref().parse() {
            Ok(value) => all.push((name.into_inner(), value)),
            Err(error) => resolver.refuse_with(&value, error, &format!("`{command}")),
        }
    }
    if let Some(path) = file {
        let text = resolve_text_of_file(resolver, &path)?;
        match lines_of(&text, T::from_str) {
            Ok(lines) => all.extend(lines),
            Err(InvalidLine { line, error: Some(error) }) => {
                resolver.refuse_with(
                    &path,
                    format!("line {line} of this file: {error}"),
                    &format!("`{command}"),
                );
            }
            Err(InvalidLine { line, error: None }) => {
                resolver.refuse(&path, format!("line {line} of this file is not `NAME:VALUE`"));
            }
        }
    }
    (resolver.failures.len() == before).then_some(all)
}

fn resolve_text_of_file(resolver: &mut Resolver<'_>, path: &Spanned<PathBuf>) -> Option<String> {
    let place = resolver.beside_config(path.get_ref());
    let text = std::fs::read_to_string(&place);
    text.map_err(|error| resolver.refuse(path, format!("`{}` cannot be read: {error}", place.display()))).ok()
}

const KINDS: &str = "a policy is of exactly one kind: `allow` or `deny` or both, `basic_auth`, `api_keys`, `jwt`, `client_certificate`, \
                     `rate_limit`, `concurrency`, `content_bytes_max`";

/// Clocks that are further apart are wrong.
const LEEWAY_MAX: Period = Period(Duration::from_hours(1));
const KEYS_AGE_MAX: Period = Period(Duration::from_hours(7 * 24));

fn is_framing(name: &str) -> bool {
    FRAMING.iter().any(|field| name.eq_ignore_ascii_case(field))
}

/// What decides where a message ends and where it goes is not for policies to change.
const FRAMING: [&str; 8] =
    ["Connection", "Content-Length", "Host", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade"];
