//! The policies `rate_limit`, `concurrency` and `quota`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess};
use thruway_gateway::{
    ConcurrencyConfig, CountBy, DelayConfig, OnStoreFailure, QuotaConfig, QuotaPeriod, RateLimitConfig,
    SharedLimit,
};
use thruway_server::StatusCode;

use crate::config::policies::headers::resolve_own_field;
use crate::config::resolver::{PERIOD_MAX, Resolver};
use crate::config::values::{FromText, Period, Spanned, TextOrTable};

/// A rate limit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawRateLimit {
    /// Average number of allowed requests in each period of the length `per`.
    pub(in crate::config) requests: Spanned<u32>,
    /// Length of the period for `requests`. Default: 1s.
    pub(in crate::config) per: Option<Spanned<Period>>,
    /// Maximum number of requests that may arrive at once. Default: the value of `requests`.
    pub(in crate::config) burst: Option<Spanned<u32>>,
    /// Property that selects the counter of a request: `address` (of the client), `route`, `user` (verified by an
    /// earlier policy of the route), `all` (one counter), or `{ header = "NAME" }`. Requests with the same value share
    /// a counter. Requests without a user or header are counted by address. Risk of `header`: clients can choose the
    /// value, unless an earlier policy of the route sets the header. Default: `address`.
    pub(in crate::config) by: Option<TextOrTable<RawCountBy>>,
    /// Maximum time that a request above the limit waits until the limit admits it, 1ms to 1h. Requests with the same
    /// counter continue in the order of their arrival. If a request would wait longer, Thruway refuses it at once.
    /// Default: none, Thruway refuses all requests above the limit at once.
    pub(in crate::config) delay_max: Option<Spanned<Period>>,
    /// Maximum number of requests that wait at this policy at the same time, with all counters together, 1 to 1000000.
    /// Thruway refuses further requests at once. Each waiting request occupies a connection of its client. Default:
    /// 1000.
    pub(in crate::config) delayed_requests_max: Option<Spanned<usize>>,
    /// Status of refused requests, 400 to 599. Default: 429.
    pub(in crate::config) status: Option<Spanned<u16>>,
    /// Maximum number of counters in memory, 8 to 100000000. There is one counter for each client address, or
    /// for each value of the header. A counter takes 17 bytes of memory, and 107 bytes with `shared`. Default:
    /// 65536.
    pub(in crate::config) keys_max: Option<Spanned<usize>>,
    /// The limit holds for all gateways with the same `[shared]` store together. Without such a store, it holds for
    /// this process. Default: false.
    pub(in crate::config) shared: Option<bool>,
    /// Behavior of a shared limit while the store fails: `local` (each gateway enforces a part of the limit), `allow`
    /// (no limit) or `deny` (all requests get 503). Risk of `allow`: clients can exceed the limit. Default: `local`.
    pub(in crate::config) on_store_failure: Option<Spanned<RawOnStoreFailure>>,
    /// Part of the limit that each gateway enforces with `on_store_failure = "local"`, in percent, 1 to 100. Default:
    /// 100 divided by the last known number of gateways.
    pub(in crate::config) share: Option<Spanned<u8>>,
}

/// A limit of requests in flight.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawConcurrency {
    /// Maximum number of requests in flight.
    pub(in crate::config) requests_max: Spanned<u32>,
    /// Property that selects the counter of a request, as in `rate_limit`. Default: `route`.
    pub(in crate::config) by: Option<TextOrTable<RawCountBy>>,
    /// Status of refused requests, 400 to 599. Default: 503.
    pub(in crate::config) status: Option<Spanned<u16>>,
    /// The limit holds for all gateways with the same `[shared]` store together. Without such a store, it holds for
    /// this process. Default: false.
    pub(in crate::config) shared: Option<bool>,
    /// Behavior of a shared limit while the store fails: `local` (each gateway enforces a part of the limit), `allow`
    /// (no limit) or `deny` (all requests get 503). Risk of `allow`: clients can exceed the limit. Default: `local`.
    pub(in crate::config) on_store_failure: Option<Spanned<RawOnStoreFailure>>,
    /// Part of the limit that each gateway enforces with `on_store_failure = "local"`, in percent, 1 to 100. Default:
    /// 100 divided by the last known number of gateways.
    pub(in crate::config) share: Option<Spanned<u8>>,
}

/// A maximum number of requests in each hour, day or month.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawQuota {
    /// Maximum number of requests in each window. Refused requests do not count.
    pub(in crate::config) requests: Spanned<u32>,
    /// The windows: `hour`, `day` or `month`. Windows begin at full hours, days or months in UTC. Default: `day`.
    pub(in crate::config) per: Option<Spanned<RawQuotaPeriod>>,
    /// Property that selects the counter of a request, as in `rate_limit`. Default: `user`.
    pub(in crate::config) by: Option<TextOrTable<RawCountBy>>,
    /// Status of refused requests, 400 to 599. Default: 429.
    pub(in crate::config) status: Option<Spanned<u16>>,
    /// Maximum number of counters in memory, 8 to 100000000. A counter takes 25 bytes of memory, and 115 bytes with
    /// `shared`. Default: 65536.
    pub(in crate::config) keys_max: Option<Spanned<usize>>,
    /// The limit holds for all gateways with the same `[shared]` store together. Without such a store, it holds for
    /// this process. Default: false.
    pub(in crate::config) shared: Option<bool>,
    /// Behavior of a shared limit while the store fails: `local` (each gateway enforces a part of the limit), `allow`
    /// (no limit) or `deny` (all requests get 503). Risk of `allow`: clients can exceed the limit. Default: `local`.
    pub(in crate::config) on_store_failure: Option<Spanned<RawOnStoreFailure>>,
    /// Part of the limit that each gateway enforces with `on_store_failure = "local"`, in percent, 1 to 100. Default:
    /// 100 divided by the last known number of gateways.
    pub(in crate::config) share: Option<Spanned<u8>>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum RawQuotaPeriod {
    Hour,
    Day,
    Month,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum RawOnStoreFailure {
    Local,
    Allow,
    Deny,
}

/// Property by which requests are counted: a name, or a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::config) enum RawCountBy {
    Named(RawCountByName),
    Header(RawCountByHeader),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum RawCountByName {
    Address,
    All,
    Route,
    User,
}

/// Requests with the same value of a header share a counter.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawCountByHeader {
    /// Name of the header.
    pub(in crate::config) header: Spanned<String>,
}

impl FromText for RawCountBy {
    const EXPECTED: &'static str = "`address`, `all`, `route`, `user` or a table with `header`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        RawCountByName::deserialize(text.into_deserializer()).map(Self::Named)
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        RawCountByHeader::deserialize(MapAccessDeserializer::new(table)).map(Self::Header)
    }
}

pub(in crate::config) fn resolve_rate_limit(
    resolver: &mut Resolver<'_>,
    raw: RawRateLimit,
) -> RateLimitConfig {
    let requests = resolver.or(Some(raw.requests), 1, 1..=1_000_000_000);
    let default = RateLimitConfig::per_second(requests);
    let delay = resolve_delay(resolver, raw.delay_max, raw.delayed_requests_max, raw.shared == Some(true));
    RateLimitConfig {
        per: resolver.or(raw.per, Period(default.per), Period(Duration::from_millis(1))..=PERIOD_MAX).0,
        burst: resolver.or(raw.burst, default.burst, 1..=1_000_000_000),
        by: resolve_count_by(resolver, raw.by, default.by),
        status: resolve_refusal_status(resolver, raw.status, default.status),
        keys_max: resolver.or(raw.keys_max, default.keys_max, 8..=100_000_000),
        shared: resolve_shared(resolver, raw.shared, raw.on_store_failure, raw.share),
        delay,
        ..default
    }
}

/// Resolves the delay of requests above a rate limit. Refuses it for a shared limit, because the gateways do not know
/// how many requests wait at the other gateways.
fn resolve_delay(
    resolver: &mut Resolver<'_>,
    time_max: Option<Spanned<Period>>,
    requests_max: Option<Spanned<usize>>,
    is_shared: bool,
) -> Option<DelayConfig> {
    if let (Some(delay), true) = (&time_max, is_shared) {
        let hint = "remove `delay_max` or `shared`";
        resolver.refuse_with(delay, "a shared limit cannot delay requests", hint);
    }
    if let (Some(requests), None) = (&requests_max, &time_max) {
        resolver.refuse_with(requests, "without `delay_max`, no request waits", "add `delay_max = \"1s\"`");
    }
    let requests_max = resolver.or(requests_max, DelayConfig::REQUESTS_MAX, 1..=1_000_000);
    let bounds = Period(Duration::from_millis(1))..=Period(Duration::from_hours(1));
    let time_max = time_max.map(|time| resolver.or(Some(time), Period(Duration::from_secs(1)), bounds).0)?;
    Some(DelayConfig { requests_max, ..DelayConfig::up_to(time_max) })
}

pub(in crate::config) fn resolve_concurrency(
    resolver: &mut Resolver<'_>,
    raw: RawConcurrency,
) -> ConcurrencyConfig {
    let default = ConcurrencyConfig::of_route(resolver.or(Some(raw.requests_max), 1, 1..=1_000_000));
    ConcurrencyConfig {
        by: resolve_count_by(resolver, raw.by, default.by),
        status: resolve_refusal_status(resolver, raw.status, default.status),
        shared: resolve_shared(resolver, raw.shared, raw.on_store_failure, raw.share),
        ..default
    }
}

pub(in crate::config) fn resolve_quota(resolver: &mut Resolver<'_>, raw: RawQuota) -> QuotaConfig {
    let per = match raw.per.map(Spanned::into_inner) {
        Some(RawQuotaPeriod::Hour) => QuotaPeriod::Hour,
        Some(RawQuotaPeriod::Day) | None => QuotaPeriod::Day,
        Some(RawQuotaPeriod::Month) => QuotaPeriod::Month,
    };
    let default = QuotaConfig::of_user(resolver.or(Some(raw.requests), 1, 1..=1_000_000_000), per);
    QuotaConfig {
        by: resolve_count_by(resolver, raw.by, default.by),
        status: resolve_refusal_status(resolver, raw.status, default.status),
        keys_max: resolver.or(raw.keys_max, default.keys_max, 8..=100_000_000),
        shared: resolve_shared(resolver, raw.shared, raw.on_store_failure, raw.share),
        ..default
    }
}

/// Resolves the settings of a shared limit. Refuses settings that have no effect.
fn resolve_shared(
    resolver: &mut Resolver<'_>,
    shared: Option<bool>,
    on_store_failure: Option<Spanned<RawOnStoreFailure>>,
    share: Option<Spanned<u8>>,
) -> Option<SharedLimit> {
    let is_shared = shared.unwrap_or(false);
    if let Some(failure) = on_store_failure.as_ref().filter(|_| !is_shared) {
        resolver.refuse_with(failure, "only a shared limit uses the store", "add `shared = true`");
    }
    let failure = on_store_failure.map_or(RawOnStoreFailure::Local, Spanned::into_inner);
    let is_local = is_shared && matches!(failure, RawOnStoreFailure::Local);
    if let Some(share) = share.as_ref().filter(|_| !is_local) {
        let message = "only a shared limit with `on_store_failure = \"local\"` uses a share";
        resolver.refuse_with(share, message, "remove `share`");
    }
    let share = share.map(|share| resolver.or(Some(share), 100, 1..=100));
    let on_store_failure = match failure {
        RawOnStoreFailure::Local => OnStoreFailure::Local { share },
        RawOnStoreFailure::Allow => OnStoreFailure::Allow,
        RawOnStoreFailure::Deny => OnStoreFailure::Deny,
    };
    is_shared.then_some(SharedLimit { on_store_failure })
}

fn resolve_count_by(
    resolver: &mut Resolver<'_>,
    raw: Option<TextOrTable<RawCountBy>>,
    default: CountBy,
) -> CountBy {
    match raw.map(|TextOrTable(by)| by) {
        None => default,
        Some(RawCountBy::Named(RawCountByName::Address)) => CountBy::Address,
        Some(RawCountBy::Named(RawCountByName::All)) => CountBy::All,
        Some(RawCountBy::Named(RawCountByName::Route)) => CountBy::Route,
        Some(RawCountBy::Named(RawCountByName::User)) => CountBy::User,
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
