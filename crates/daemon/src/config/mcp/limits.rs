//! The tables `[[mcp.endpoints.NAME.limits]]`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::{CallLimit, CallRate, LimitBy};

use crate::config::mcp::patterns::check_name_pattern;
use crate::config::resolver::{PERIOD_MAX, Resolver};
use crate::config::values::{Period, Spanned};

/// A limit for the tool calls of each caller. A caller is the user that a policy of the route has verified. Without
/// such a policy, callers are grouped by client address. IPv6 addresses with the same first 64 bits count as one
/// caller. A call must be within all limits of the endpoint. Otherwise, the client gets an error with the time until
/// the next attempt in `data.retryAfterMs`. If it uses revision 2026-07-28 or later, the status is 429.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMcpLimit {
    /// Patterns for the names of tools that clients use. `*` matches any text. Default: all tools.
    pub(in crate::config) tools: Option<Spanned<Vec<Spanned<String>>>>,
    /// Maximum rate of calls, such as `{ requests = 10, per = "1m" }`. Default: no limit.
    pub(in crate::config) rate: Option<RawMcpRate>,
    /// Maximum number of calls in flight, 1 to 1000000. Default: no limit.
    pub(in crate::config) concurrent: Option<Spanned<u32>>,
    /// Calls that share a counter: all calls of a `caller`, or, with `caller_and_tool`, the calls of a caller to the
    /// same tool. Default: `caller`.
    #[serde(default)]
    pub(in crate::config) by: RawLimitBy,
}

/// A maximum rate of calls.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMcpRate {
    /// Average number of allowed calls in each period of the length `per`.
    pub(in crate::config) requests: Spanned<u32>,
    /// Length of the period for `requests`. Default: 1s.
    pub(in crate::config) per: Option<Spanned<Period>>,
    /// Maximum number of calls that may arrive at once. Default: the value of `requests`.
    pub(in crate::config) burst: Option<Spanned<u32>>,
}

/// Calls that share a counter.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum RawLimitBy {
    #[default]
    Caller,
    CallerAndTool,
}

pub(super) fn resolve_limits(resolver: &mut Resolver<'_>, raw: Vec<Spanned<RawMcpLimit>>) -> Vec<CallLimit> {
    raw.into_iter().map(|limit| resolve_limit(resolver, limit)).collect()
}

fn resolve_limit(resolver: &mut Resolver<'_>, raw: Spanned<RawMcpLimit>) -> CallLimit {
    let span = raw.span();
    let RawMcpLimit { tools, rate, concurrent, by } = raw.into_inner();
    if rate.is_none() && concurrent.is_none() {
        let failure = resolver.source.failure(span, "the limit limits nothing");
        resolver.failures.push(failure.with_hint("add `rate = { requests = 10 }` or `concurrent = 10`"));
    }
    if let Some(tools) = &tools {
        resolver.refuse_empty(tools, "the limit applies to no tool", "remove the key to limit all tools");
        for pattern in tools.get_ref() {
            check_name_pattern(resolver, pattern, "tools");
        }
    }
    let default = CallLimit::default();
    let texts = |tools: Spanned<Vec<Spanned<String>>>| {
        tools.into_inner().into_iter().map(Spanned::into_inner).collect()
    };
    CallLimit {
        tools: tools.map_or(default.tools, texts),
        rate: rate.map(|rate| resolve_rate(resolver, rate)),
        concurrent: concurrent.map(|calls| resolver.or(Some(calls), 1, 1..=1_000_000)),
        by: match by {
            RawLimitBy::Caller => LimitBy::Caller,
            RawLimitBy::CallerAndTool => LimitBy::CallerAndTool,
        },
    }
}

fn resolve_rate(resolver: &mut Resolver<'_>, raw: RawMcpRate) -> CallRate {
    let calls = resolver.or(Some(raw.requests), 1, 1..=1_000_000_000);
    let (second, shortest) = (Period(Duration::from_secs(1)), Period(Duration::from_millis(1)));
    CallRate {
        calls,
        per: resolver.or(raw.per, second, shortest..=PERIOD_MAX).0,
        burst: resolver.or(raw.burst, calls, 1..=1_000_000_000),
    }
}
