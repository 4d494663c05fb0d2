//! How long upstreams are waited for, how much of a response is taken, and which connections wait for the next request.

use std::ops::RangeInclusive;
use std::time::Duration;

use thruway_client::{Config, PoolConfig, Timeouts};
use thruway_gateway::{ForwardTimeouts, UpstreamConfig};
use thruway_server::Limits;

use crate::config::raw::{Period, RawPool, RawRoute, RawUpstream};
use crate::config::resolver::{ANY_PERIOD, HEAD_BYTES_MAX, Resolver, SOME_PERIOD, refuse_without_upstream};
use crate::config::spanned::Spanned;

/// Timeouts and limits of exchanges, of which `raw` loses what it says.
pub(super) fn resolve_exchange(
    resolver: &mut Resolver<'_>,
    raw: &mut RawUpstream,
    default: &UpstreamConfig,
) -> Config {
    let Config { limits, timeouts } = default.exchange;
    let mut or = |period: &mut Option<_>, default| resolver.or(period.take(), Period(default), SOME_PERIOD).0;
    let timeouts = Timeouts {
        head: or(&mut raw.head_timeout, timeouts.head),
        content_idle: or(&mut raw.content_idle_timeout, timeouts.content_idle),
        write_stall: or(&mut raw.write_stall_timeout, timeouts.write_stall),
        total: resolve_some_period(resolver, raw.total_timeout.take()),
        ..timeouts
    };
    let (bytes, lines) = (raw.response_header_section_bytes.take(), raw.response_field_lines.take());
    let limits = Limits {
        header_section_bytes: resolver.or(bytes, limits.header_section_bytes, 64..=HEAD_BYTES_MAX),
        field_lines: resolver.or(lines, limits.field_lines, 1..=10_000),
        ..limits
    };
    Config { limits, timeouts }
}

pub(super) fn resolve_pool(resolver: &mut Resolver<'_>, raw: RawPool, default: PoolConfig) -> PoolConfig {
    PoolConfig {
        idle_per_address_max: resolver.or(raw.per_server_max, default.idle_per_address_max, POOLED),
        idle_max: resolver.or(raw.connections_max, default.idle_max, POOLED),
        idle: resolver.or(raw.idle_timeout, Period(default.idle), ANY_PERIOD).0,
    }
}

/// What a route says otherwise than its upstream. What cannot be waited for is refused.
pub(super) fn resolve_forward_timeouts(resolver: &mut Resolver<'_>, raw: &mut RawRoute) -> ForwardTimeouts {
    let is_forwarded = raw.upstream.is_some() || raw.split.is_some();
    let mut take = |period: &mut Option<Spanned<Period>>| {
        if !is_forwarded {
            refuse_without_upstream(resolver, period.as_ref());
        }
        resolve_some_period(resolver, period.take())
    };
    ForwardTimeouts {
        head: take(&mut raw.head_timeout),
        content_idle: take(&mut raw.content_idle_timeout),
        event_stream_idle: take(&mut raw.event_stream_idle_timeout),
        total: take(&mut raw.total_timeout),
    }
}

fn resolve_some_period(resolver: &mut Resolver<'_>, raw: Option<Spanned<Period>>) -> Option<Duration> {
    raw.map(|period| resolver.or(Some(period), Period(Duration::ZERO), SOME_PERIOD).0)
}

/// So many wait; none, if that is 0.
const POOLED: RangeInclusive<usize> = 0..=1_000_000;
