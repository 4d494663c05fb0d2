//! Retries of requests to an upstream: statuses that cause a retry, and the retry budget.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{RetryBudget, StatusRange};

use crate::config::resolver::Resolver;
use crate::config::upstreams::health::resolve_statuses;
use crate::config::values::Spanned;

/// Retry budget of an upstream.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawRetryBudget {
    /// Maximum number of retries with another server within 10 s, in percent of the requests of these 10 s.
    /// The 10 s are a sliding window: the current second and the nine seconds before. Thruway rounds the
    /// maximum down. Any value from 0 to 1000 is possible. Default: 20.
    pub(in crate::config) percent: Option<Spanned<u32>>,
    /// Average number of retries per second, 0 to 1000000, that Thruway allows in addition to `percent`. Ten
    /// times this number may happen at once. Default: 10.
    pub(in crate::config) per_second_min: Option<Spanned<u32>>,
}

/// Resolves the statuses that cause a retry.
pub(super) fn resolve_retry_statuses(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<Vec<Spanned<String>>>>,
) -> Vec<StatusRange> {
    let raw = raw.map(Spanned::into_inner).unwrap_or_default();
    let ranges = resolve_statuses(resolver, &raw);
    let errors = StatusRange::new(400, 599);
    let is_other = |text: &&Spanned<String>| {
        text.get_ref().parse().is_ok_and(|range: StatusRange| !range.is_within(errors))
    };
    if let Some(other) = raw.iter().find(is_other) {
        let message = "only error statuses from 400 to 599 can cause a retry";
        resolver.refuse_with(other, message, "write `502-504` or `503`");
    }
    ranges
}

pub(super) fn resolve_retry_budget(resolver: &mut Resolver<'_>, raw: RawRetryBudget) -> RetryBudget {
    let default = RetryBudget::default();
    RetryBudget {
        percent: resolver.or(raw.percent, default.percent, 0..=1_000),
        per_second_min: resolver.or(raw.per_second_min, default.per_second_min, 0..=1_000_000),
    }
}
