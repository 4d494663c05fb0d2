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
use super::{PERIOD_MAX, Resolver};

/// `None` for those that are wrong: their names are known all the same.
pub(super) type ResolvedPolicies = BTreeMap<String, Option<PolicyConfig>>;

impl Resolver<'_> {
    pub(super) fn policies(&mut self, raw: BTreeMap<String, Spanned<RawPolicy>>) -> ResolvedPolicies {
        let policy = |(name, policy): (String, Spanned<RawPolicy>)| {
            self.check_name(&name, &policy.span(), "a policy");
            (name, self.policy(policy))
        };
        raw.into_iter().map(policy).collect()
    }

    /// The names of a route's policies, all of which there must be.
    pub(super) fn route_policies(
        &mut self,
        raw: Vec<Spanned<String>>,
        policies: &ResolvedPolicies,
    ) -> Vec<String> {
        for (place, name) in raw.iter().enumerate() {
            if !policies.contains_key(name.get_ref()) {
                self.refuse_unknown_policy(name, policies);
            } else if raw[..place].iter().any(|earlier| earlier.get_ref() == name.get_ref()) {
                self.refuse_with(name, "the route has this policy already", "leave it out");
            }
        }
        raw.into_iter().map(Spanned::into_inner).collect()
    }

    fn refuse_unknown_policy(&mut self, name: &Spanned<String>, policies: &ResolvedPolicies) {
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
        self.refuse_with(name, message, &hint);
    }

    fn policy(&mut self, raw: Spanned<RawPolicy>) -> Option<PolicyConfig> {
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
            kinds.push(Some(PolicyConfig::Addresses(self.addresses(allow, deny))));
        }
        kinds.extend(basic_auth.map(|raw| self.basic_auth(raw, &span).map(PolicyConfig::BasicAuth)));
        kinds.extend(api_keys.map(|raw| self.api_keys(raw).map(PolicyConfig::ApiKeys)));
        kinds.extend(jwt.map(|raw| self.jwt(raw).map(PolicyConfig::Jwt)));
        kinds.extend(client_certificate.map(|raw| {
            let config = self.client_certificate(raw, &span);
            Some(PolicyConfig::ClientCertificate(config))
        }));
        kinds.extend(rate_limit.map(|raw| Some(PolicyConfig::RateLimit(self.rate_limit(raw)))));
        kinds.extend(concurrency.map(|raw| Some(PolicyConfig::Concurrency(self.concurrency(raw)))));
        kinds.extend(content_bytes_max.map(|octets| Some(PolicyConfig::ContentBytesMax(octets))));
        if kinds.len() == 1 {
            return kinds.pop().flatten();
        }
        let failure = self.source.failure(span, KINDS);
        self.failures.push(failure.with_hint("what is asked besides is another policy: routes name several"));
        None
    }

    fn addresses(
        &mut self,
        allow: Option<Spanned<Vec<Spanned<String>>>>,
        deny: Option<Spanned<Vec<Spanned<String>>>>,
    ) -> AddressesConfig {
        let allow = allow.map(|allow| self.some_networks(&allow));
        let deny = deny.map(|deny| self.some_networks(&deny)).unwrap_or_default();
        AddressesConfig { allow, deny }
    }

    fn some_networks(&mut self, raw: &Spanned<Vec<Spanned<String>>>) -> Networks {
        if raw.get_ref().is_empty() {
            self.refuse_with(raw, "a list of addresses has at least one", "leave it out");
        }
        self.networks(raw.get_ref())
    }

    fn basic_auth(&mut self, raw: RawBasicAuth, span: &Span) -> Option<BasicAuthConfig> {
        let RawBasicAuth { realm, users, users_file, user_field } = raw;
        let (realm, user_field) = (self.realm(realm), self.told_field(user_field));
        let users = self.names(users, users_file, "htpasswd -nbB NAME PASSWORD` writes one")?;
        if users.is_empty() {
            self.refuse_at(span, "there are no users: `basic_auth` has `users` or a `users_file`");
            return None;
        }
        let mut known = HashSet::new();
        if let Some((name, _)) = users.iter().find(|(name, _)| !known.insert(name)) {
            self.refuse_at(span, format!("the user `{}` is there twice", name.escape_debug()));
        }
        Some(BasicAuthConfig { realm, users, user_field })
    }

    fn api_keys(&mut self, raw: Spanned<RawApiKeys>) -> Option<ApiKeysConfig> {
        let span = raw.span();
        let RawApiKeys { header, query, bearer, keys, keys_file, user_field } = raw.into_inner();
        let place = match (header, query, bearer) {
            (None, None, true) => KeyPlace::Bearer,
            (None, Some(name), false) if name.is_empty() => {
                self.refuse_at(&span, "the parameter of the `query` that keys are in has a name");
                return None;
            }
            (None, Some(name), false) => KeyPlace::Query(name),
            (None, None, false) => KeyPlace::Header("X-Api-Key".to_owned()),
            (Some(name), None, false) => KeyPlace::Header(self.own_field(Some(name))?),
            _ => {
                self.refuse_at(&span, "keys are in one of `header`, `query` and `bearer`");
                return None;
            }
        };
        let user_field = self.told_field(user_field);
        let keys = self.names(keys, keys_file, "printf %s KEY | sha256sum` writes the digits")?;
        if keys.is_empty() {
            self.refuse_at(&span, "there are no keys: `api_keys` has `keys` or a `keys_file`");
            return None;
        }
        let mut known = HashMap::new();
        for (name, key) in &keys {
            if let Some(other) = known.insert(key, name).filter(|other| *other != name) {
                let names = [other, name].map(|name| name.escape_debug());
                self.refuse_at(&span, format!("the key of `{}` is also that of `{}`", names[0], names[1]));
            }
        }
        Some(ApiKeysConfig { place, keys, user_field })
    }

    fn jwt(&mut self, raw: Spanned<RawJwt>) -> Option<JwtConfig> {
        let span = raw.span();
        let mut raw = raw.into_inner();
        let keys = self.jwt_keys(&mut raw, &span)?;
        let default = JwtConfig::new(keys);
        if let Some(audience) = &raw.audience {
            self.refuse_empty(audience, "an audience is at least one", "leave it out for tokens for anybody");
        }
        let algorithms = raw.algorithms.map_or_else(Vec::new, |raw| self.algorithms(&raw, &default.keys));
        let leeway = Period(default.rules.leeway);
        let rules = JwtRules {
            issuer: raw.issuer,
            audience: raw.audience.map(Spanned::into_inner).unwrap_or_default(),
            algorithms,
            leeway: self.or(raw.leeway, leeway, Period(Duration::ZERO)..=LEEWAY_MAX).0,
            required_claims: raw.required_claims,
            types: raw.types.map_or_else(Vec::new, |raw| self.token_types(&raw)),
            allow_id_tokens: raw.id_tokens.unwrap_or(default.rules.allow_id_tokens),
        };
        let fields = raw.fields.into_iter();
        Some(JwtConfig {
            rules,
            fields: fields.filter_map(|(name, claim)| Some((self.told_field(Some(name))?, claim))).collect(),
            realm: self.realm(raw.realm),
            ..default
        })
    }

    fn jwt_keys(&mut self, raw: &mut RawJwt, span: &Span) -> Option<JwtKeySource> {
        for period in [&raw.keys_kept_for, &raw.keys_age_max].into_iter().flatten() {
            if raw.keys_url.is_none() {
                self.refuse_with(period, "only keys at a `keys_url` are fetched", "leave it out");
            }
        }
        match (&raw.keys_file, &raw.keys_url, &raw.secret) {
            (Some(path), None, None) => {
                let text = self.text_of_file(path)?;
                let keys = JwtKeys::from_file(&text).map_err(|error| self.refuse(path, error));
                Some(keys.ok()?.into())
            }
            (None, Some(url), None) => {
                let config = DocumentConfig::new(url.get_ref().as_str());
                let config = config.map_err(|error| self.refuse(url, error)).ok()?;
                let kept_for = Period(config.kept_for);
                let least = Period(config.rest);
                let kept_for = self.or(raw.keys_kept_for.take(), kept_for, least..=PERIOD_MAX).0;
                let age_max = Period(config.age_max);
                let age_max = self.or(raw.keys_age_max.take(), age_max, Period(kept_for)..=KEYS_AGE_MAX).0;
                Some(DocumentConfig { kept_for, age_max, ..config }.into())
            }
            (None, None, Some(secret)) => {
                let keys = JwtKeys::from_secret(secret.get_ref()).map_err(|error| self.refuse(secret, error));
                Some(keys.ok()?.into())
            }
            _ => {
                self.refuse_at(span, "a token is checked with one of `keys_file`, `keys_url` and `secret`");
                None
            }
        }
    }

    fn algorithms(&mut self, raw: &Spanned<Vec<Spanned<String>>>, keys: &JwtKeySource) -> Vec<JwtAlgorithm> {
        let mut algorithms = Vec::new();
        self.refuse_empty(
            raw,
            "tokens are signed by at least one algorithm",
            "leave it out for those that the keys are for",
        );
        for name in raw.get_ref() {
            match JwtAlgorithm::from_str(name.get_ref()) {
                Ok(algorithm) if keys.may_be_for(algorithm) => algorithms.push(algorithm),
                Ok(_) => self.refuse(name, "there is no key for this algorithm"),
                Err(_) => self.refuse_with(
                    name,
                    "unknown algorithm",
                    "possible: `RS256`, `PS256`, `ES256`, `EdDSA`, `HS256`, …",
                ),
            }
        }
        algorithms
    }

    fn token_types(&mut self, raw: &Spanned<Vec<Spanned<String>>>) -> Vec<String> {
        self.refuse_empty(
            raw,
            "`types` has no type, so no token would be accepted",
            "leave it out for the default",
        );
        for name in raw.get_ref() {
            let text = name.get_ref();
            // RFC 6838 §4.2.
            let is_name =
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+/".contains(&byte));
            if text.is_empty() || !is_name {
                self.refuse_with(name, "this is not the type of a token", "possible: `at+jwt`, `JWT`, …");
            }
        }
        raw.get_ref().iter().map(|name| name.get_ref().clone()).collect()
    }

    fn rate_limit(&mut self, raw: RawRateLimit) -> RateLimitConfig {
        let requests = self.or(Some(raw.requests), 1, 1..=1_000_000_000);
        let default = RateLimitConfig::per_second(requests);
        RateLimitConfig {
            per: self.or(raw.per, Period(default.per), Period(Duration::from_millis(1))..=PERIOD_MAX).0,
            burst: self.or(raw.burst, default.burst, 1..=1_000_000_000),
            by: self.count_by(raw.by, default.by),
            status: self.refusal_status(raw.status, default.status),
            keys_max: self.or(raw.keys_max, default.keys_max, 8..=100_000_000),
            ..default
        }
    }

    fn concurrency(&mut self, raw: RawConcurrency) -> ConcurrencyConfig {
        let default = ConcurrencyConfig::of_route(self.or(Some(raw.requests_max), 1, 1..=1_000_000));
        ConcurrencyConfig {
            by: self.count_by(raw.by, default.by),
            status: self.refusal_status(raw.status, default.status),
            ..default
        }
    }

    fn count_by(&mut self, raw: Option<TextOrTable<RawCountBy>>, default: CountBy) -> CountBy {
        match raw.map(|TextOrTable(by)| by) {
            None => default,
            Some(RawCountBy::Named(RawCountByName::Address)) => CountBy::Address,
            Some(RawCountBy::Named(RawCountByName::Route)) => CountBy::Route,
            Some(RawCountBy::Header(RawCountByHeader { header })) => {
                self.own_field(Some(header)).map_or(default, CountBy::Header)
            }
        }
    }

    fn refusal_status(&mut self, raw: Option<Spanned<u16>>, default: StatusCode) -> StatusCode {
        let code = self.or(raw, default.as_u16(), 400..=599);
        StatusCode::new(code).unwrap_or(default)
    }

    /// The name of a field that a policy writes: none that gateways write, or would leave out.
    fn told_field(&mut self, raw: Option<Spanned<String>>) -> Option<String> {
        let before = self.failures.len();
        if let Some(name) = &raw
            && FieldRewrite::default().remove(name.get_ref()) == Err(InvalidRewrite::FieldOfGateway)
            && !is_framing(name.get_ref())
        {
            self.refuse(name, "this field is the gateway's: take another name");
        }
        if self.failures.len() == before { self.own_field(raw) } else { None }
    }

    /// The name of a field.
    fn own_field(&mut self, raw: Option<Spanned<String>>) -> Option<String> {
        let name = raw?;
        if let Err(error) = FieldName::new(name.get_ref().as_bytes()) {
            self.refuse(&name, error);
        } else if is_framing(name.get_ref()) {
            self.refuse(&name, "this field is about the connection or the content: take another name");
        }
        Some(name.into_inner())
    }

    fn realm(&mut self, raw: Option<Spanned<String>>) -> Option<String> {
        let realm = raw?;
        if let Err(error) = FieldValue::new(realm.get_ref().as_bytes()) {
            self.refuse(&realm, error);
        }
        Some(realm.into_inner())
    }

    /// Names and what belongs to them, from the config and from a file. `command` tells how to make the latter.
    fn names<T: FromStr<Err: fmt::Display>>(
        &mut self,
        raw: BTreeMap<Spanned<String>, Spanned<String>>,
        file: Option<Spanned<PathBuf>>,
        command: &str,
    ) -> Option<Vec<(String, T)>> {
        let before = self.failures.len();
        let mut all = Vec::new();
        for (name, value) in raw {
            if !is_user_name(name.get_ref()) {
                self.refuse(&name, "this is no name: it is told as the value of a field");
            }
            match value.get_ref().parse() {
                Ok(value) => all.push((name.into_inner(), value)),
                Err(error) => self.refuse_with(&value, error, &format!("`{command}")),
            }
        }
        if let Some(path) = file {
            let text = self.text_of_file(&path)?;
            match lines_of(&text, T::from_str) {
                Ok(lines) => all.extend(lines),
                Err(InvalidLine { line, error: Some(error) }) => {
                    self.refuse_with(
                        &path,
                        format!("line {line} of this file: {error}"),
                        &format!("`{command}"),
                    );
                }
                Err(InvalidLine { line, error: None }) => {
                    self.refuse(&path, format!("line {line} of this file is not `NAME:VALUE`"));
                }
            }
        }
        (self.failures.len() == before).then_some(all)
    }

    fn text_of_file(&mut self, path: &Spanned<PathBuf>) -> Option<String> {
        let place = self.beside_config(path.get_ref());
        let text = std::fs::read_to_string(&place);
        text.map_err(|error| self.refuse(path, format!("`{}` cannot be read: {error}", place.display()))).ok()
    }
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
