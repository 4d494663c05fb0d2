//! The section `policies`. Larger policies are in separate modules.

pub(in crate::config) mod client_certificate;
pub(in crate::config) mod headers;
mod forward_auth;
mod jwt;
mod limits;
mod oidc;
mod users;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{AddressesConfig, PolicyConfig};
use thruway_server::Networks;

use crate::config::Upstreams;
use crate::config::policies::client_certificate::{RawClientCertificate, resolve_client_certificate};
use crate::config::policies::forward_auth::{RawForwardAuth, resolve_forward_auth};
use crate::config::policies::jwt::{RawJwt, resolve_jwt};
use crate::config::policies::limits::{
    RawConcurrency, RawQuota, RawRateLimit, resolve_concurrency, resolve_quota, resolve_rate_limit,
};
use crate::config::policies::oidc::{RawOidc, resolve_oidc};
use crate::config::policies::users::{RawApiKeys, RawBasicAuth, resolve_api_keys, resolve_basic_auth};
use crate::config::resolver::Resolver;
use crate::config::server::resolve_networks;
use crate::config::values::{Span, Spanned};

/// A policy. Each policy has exactly one of these keys, which determines its kind. Only `allow` and `deny`
/// may occur together.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawPolicy {
    /// Client addresses that may send requests: `10.0.0.0/8`, `2001:db8::/32`, `127.0.0.1`, or `unix` for
    /// clients of Unix sockets. Requests from other addresses get 403.
    pub(in crate::config) allow: Option<Spanned<Vec<Spanned<String>>>>,
    /// Client addresses whose requests get 403, even if `allow` contains the address.
    pub(in crate::config) deny: Option<Spanned<Vec<Spanned<String>>>>,
    /// Users with a password (HTTP Basic). Requests without a valid password get 401.
    pub(in crate::config) basic_auth: Option<RawBasicAuth>,
    /// API keys. Requests without a valid API key get 401.
    pub(in crate::config) api_keys: Option<Spanned<RawApiKeys>>,
    /// External authorization: a server decides about each request. If the server cannot be reached, requests
    /// get 502, 503 or 504.
    pub(in crate::config) forward_auth: Option<RawForwardAuth>,
    /// JSON Web Tokens in `Authorization: Bearer`. Requests without a valid token get 401.
    pub(in crate::config) jwt: Option<Spanned<RawJwt>>,
    /// Login of browsers at an OpenID provider. Pages without a session are redirected to the provider, and
    /// other requests without a session get 401.
    pub(in crate::config) oidc: Option<RawOidc>,
    /// Client certificates, on listeners with `client_certificates`. With `true`, the policy accepts all
    /// certificates that the listener trusts. With a table, it accepts only the certificates that match the
    /// table. Clients without an accepted certificate get 403.
    pub(in crate::config) client_certificate: Option<RawClientCertificate>,
    /// Limit for the rate of requests. Requests above the limit get 429.
    pub(in crate::config) rate_limit: Option<RawRateLimit>,
    /// Limit for the number of requests in flight. Requests above the limit get 503.
    pub(in crate::config) concurrency: Option<RawConcurrency>,
    /// Maximum number of requests in each hour, day or month. Requests above the maximum get 429.
    pub(in crate::config) quota: Option<RawQuota>,
    /// Maximum size of a request body in bytes. Larger requests get 413.
    pub(in crate::config) body_bytes_max: Option<u64>,
}

/// Policies by name. An invalid policy is `None`, so that routes can refer to its name without a second
/// error.
pub(in crate::config) type ResolvedPolicies = BTreeMap<String, Option<PolicyConfig>>;

pub(in crate::config) fn resolve_policies(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<String, Spanned<RawPolicy>>,
    upstreams: &Upstreams,
) -> ResolvedPolicies {
    let policy = |(name, policy): (String, Spanned<RawPolicy>)| {
        resolver.check_name(&name, &policy.span(), "a policy");
        (name, resolve_policy(resolver, policy, upstreams))
    };
    raw.into_iter().map(policy).collect()
}

/// Returns the names of a route's policies. Refuses unknown and repeated names.
pub(in crate::config) fn resolve_route_policies(
    resolver: &mut Resolver<'_>,
    raw: Vec<Spanned<String>>,
    policies: &ResolvedPolicies,
) -> Vec<String> {
    for (place, name) in raw.iter().enumerate() {
        if !policies.contains_key(name.get_ref()) {
            refuse_unknown_policy(resolver, name, policies);
        } else if raw[..place].iter().any(|earlier| earlier.get_ref() == name.get_ref()) {
            resolver.refuse_with(name, "the route lists this policy twice", "remove the second entry");
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
        (None, known) => format!("the config has {}", known.join(", ")),
    };
    resolver.refuse_with(name, message, &hint);
}

fn resolve_policy(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawPolicy>,
    upstreams: &Upstreams,
) -> Option<PolicyConfig> {
    let span = raw.span();
    let RawPolicy {
        allow,
        deny,
        basic_auth,
        api_keys,
        forward_auth,
        jwt,
        oidc,
        client_certificate,
        rate_limit,
        concurrency,
        quota,
        body_bytes_max,
    } = raw.into_inner();
    let mut kinds: Vec<Option<PolicyConfig>> = Vec::new();
    if allow.is_some() || deny.is_some() {
        kinds.push(Some(PolicyConfig::Addresses(resolve_addresses(resolver, allow, deny))));
    }
    kinds.extend(basic_auth.map(|raw| resolve_basic_auth(resolver, raw, &span).map(PolicyConfig::BasicAuth)));
    kinds.extend(api_keys.map(|raw| resolve_api_keys(resolver, raw).map(PolicyConfig::ApiKeys)));
    kinds.extend(
        forward_auth.map(|raw| resolve_forward_auth(resolver, raw, upstreams).map(PolicyConfig::ForwardAuth)),
    );
    kinds.extend(jwt.map(|raw| resolve_jwt(resolver, raw).map(PolicyConfig::Jwt)));
    kinds.extend(oidc.map(|raw| resolve_oidc(resolver, raw, &span).map(PolicyConfig::Oidc)));
    kinds.extend(client_certificate.map(|raw| {
        let config = resolve_client_certificate(resolver, raw, &span);
        Some(PolicyConfig::ClientCertificate(config))
    }));
    kinds.extend(rate_limit.map(|raw| Some(PolicyConfig::RateLimit(resolve_rate_limit(resolver, raw)))));
    kinds.extend(concurrency.map(|raw| Some(PolicyConfig::Concurrency(resolve_concurrency(resolver, raw)))));
    kinds.extend(quota.map(|raw| Some(PolicyConfig::Quota(resolve_quota(resolver, raw)))));
    kinds.extend(body_bytes_max.map(|bytes| Some(PolicyConfig::ContentBytesMax(bytes))));
    if kinds.len() == 1 {
        return kinds.pop().flatten();
    }
    let failure = resolver.source.failure(span, KINDS);
    resolver.failures.push(failure.with_hint("split the policy: a route can list several policies"));
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
        resolver.refuse_with(raw, "the list is empty", "remove the key");
    }
    resolve_networks(resolver, raw.get_ref())
}

const KINDS: &str = "a policy needs exactly one kind: `allow` and `deny` (one or both), `basic_auth`, `api_keys`, `forward_auth`, `jwt`, `oidc`, `client_certificate`, \
                     `rate_limit`, `concurrency`, `quota`, `body_bytes_max`";

/// Returns each policy that needs client certificates, with its position.
pub(in crate::config) fn asking_for_certificates(
    raw: &BTreeMap<String, Spanned<RawPolicy>>,
) -> Vec<(String, Span)> {
    let asking = raw.iter().filter(|(_, policy)| policy.get_ref().client_certificate.is_some());
    asking.map(|(name, policy)| (name.clone(), policy.span())).collect()
}
