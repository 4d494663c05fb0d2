//! Balancing between the servers of an upstream, and sticky sessions.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess};
use thruway_gateway::{Balance, HashBy, Sticky};
use thruway_server::FieldName;

use crate::config::resolver::Resolver;
use crate::config::values::{FromText, Spanned, TextOrTable};

/// A balancing method: a name, or a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::config) enum RawBalance {
    Named(RawBalanceName),
    Hash(RawHash),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum RawBalanceName {
    RoundRobin,
    LeastConnections,
    RandomOfTwo,
    PeakEwma,
}

/// Balancing by a hash: requests with the same key go to the same server.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawHash {
    /// Key of the hash: `client_address`, `path`, `header:NAME` or `cookie:NAME`. The hash selects a server
    /// by its resolved address (IP and port), not by its name. Each address of a name is a separate server.
    pub(in crate::config) hash: Spanned<String>,
    /// Maximum number of requests in flight at a server, in percent of its fair share. The fair share is the
    /// part of the requests in flight at all servers that corresponds to the `weight` of the server. Thruway
    /// rounds the maximum up to a whole number. The value must be from 100 to 100000. If a server has reached
    /// the maximum, another server gets the request. Default: 125.
    pub(in crate::config) load_max_percent: Option<Spanned<u32>>,
}

/// Sticky sessions: a cookie sends a client to the same server again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawSticky {
    /// Name of the cookie. The value of the cookie is a hash of the server's resolved address (IP and port),
    /// not of its name. Each address of a name is a separate server. If the address of a server changes, its
    /// clients get another server and a new cookie.
    pub(in crate::config) cookie: Spanned<String>,
    /// Secret with which Thruway computes the values of the cookie. It must not be empty. Gateways with the
    /// same secret accept each other's cookies. A new secret makes all previous cookies invalid. Thruway
    /// hides the secret in error messages. Default: a random secret, so cookies are valid only until the
    /// process ends.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) secret: Option<Spanned<String>>,
}

impl FromText for RawBalance {
    const EXPECTED: &'static str = "a name or a table with `hash`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        RawBalanceName::deserialize(text.into_deserializer()).map(Self::Named)
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        RawHash::deserialize(MapAccessDeserializer::new(table)).map(Self::Hash)
    }
}

pub(in crate::config) fn resolve_balance(
    resolver: &mut Resolver<'_>,
    raw: Spanned<TextOrTable<RawBalance>>,
) -> Balance {
    match raw.into_inner().0 {
        RawBalance::Named(RawBalanceName::RoundRobin) => Balance::RoundRobin,
        RawBalance::Named(RawBalanceName::LeastConnections) => Balance::LeastConnections,
        RawBalance::Named(RawBalanceName::RandomOfTwo) => Balance::RandomOfTwo,
        RawBalance::Named(RawBalanceName::PeakEwma) => Balance::PeakEwma,
        RawBalance::Hash(RawHash { hash, load_max_percent }) => Balance::Hash {
            by: resolve_hash_by(resolver, &hash),
            load_max_percent: resolver.or(load_max_percent, 125, 100..=100_000),
        },
    }
}

pub(in crate::config) fn resolve_hash_by(resolver: &mut Resolver<'_>, raw: &Spanned<String>) -> HashBy {
    match raw.get_ref().split_once(':') {
        None if raw.get_ref() == "client_address" => return HashBy::ClientAddress,
        None if raw.get_ref() == "path" => return HashBy::Path,
        Some(("cookie", name)) if is_token(name) => return HashBy::Cookie(name.to_owned()),
        Some(("header", name)) if is_token(name) => return HashBy::Field(name.to_owned()),
        _ => {}
    }
    let message = format!("`{}` is an unknown hash key", raw.get_ref().escape_debug());
    resolver.refuse_with(raw, message, "possible: `client_address`, `path`, `header:NAME`, `cookie:NAME`");
    HashBy::Path
}

pub(in crate::config) fn resolve_sticky(
    resolver: &mut Resolver<'_>,
    RawSticky { cookie, secret }: RawSticky,
) -> Sticky {
    if !is_token(cookie.get_ref()) {
        let message = format!("`{}` is not a valid cookie name", cookie.get_ref().escape_debug());
        resolver.refuse(&cookie, message);
    }
    if let Some(secret) = secret.as_ref().filter(|secret| secret.get_ref().is_empty()) {
        let hint = "remove the key to use a random secret";
        resolver.refuse_with(secret, "the secret is empty, so clients can forge cookies", hint);
    }
    Sticky { cookie: cookie.into_inner(), secret: secret.map(Spanned::into_inner) }
}

/// Returns `true` if `name` is a token. Names of cookies and headers must be tokens (RFC 6265 §4.1.1, RFC
/// 9110 §5.1).
fn is_token(name: &str) -> bool {
    FieldName::new(name.as_bytes()).is_ok()
}
