//! Health checks of servers, and ejection of servers that fail.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{CheckConfig, CheckKind, EjectionConfig, StatusRange};
use thruway_server::FieldValue;

use crate::config::resolver::{Resolver, SOME_PERIOD, is_path_byte};
use crate::config::values::{Period, Spanned};

/// Health checks of the servers of an upstream.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawCheck {
    /// Path that a check requests with `GET`. Default: none, so a check succeeds if the server accepts a
    /// connection.
    pub(in crate::config) path: Option<Spanned<String>>,
    /// Value of the header `Host` in checks. Default: the address of the server.
    pub(in crate::config) host: Option<Spanned<String>>,
    /// Statuses of a healthy server, such as `204` or `200-399`. Default: `200-399`.
    pub(in crate::config) statuses: Option<Spanned<Vec<Spanned<String>>>>,
    /// Text that the first 64 KiB of the response body must contain. Default: none.
    pub(in crate::config) body: Option<String>,
    /// Time between two checks. Default: 5s.
    pub(in crate::config) interval: Option<Spanned<Period>>,
    /// Maximum duration of a check. Default: 2s.
    pub(in crate::config) timeout: Option<Spanned<Period>>,
    /// Number of consecutive successful checks after which a server is up, 1 to 1000. Default: 2.
    pub(in crate::config) rise: Option<Spanned<u32>>,
    /// Number of consecutive failed checks after which a server is down, 1 to 1000. Default: 3.
    pub(in crate::config) fall: Option<Spanned<u32>>,
}

/// Ejection: a server that has failed gets no requests for some time.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawEjection {
    /// Number of consecutive failures that eject a server. Failures do not expire: only a successful request
    /// resets their number. 0 disables ejection. Default: 5.
    pub(in crate::config) failures: Option<u32>,
    /// Statuses that count as failures, such as `503` or `500-599`. Default: none.
    pub(in crate::config) statuses: Option<Vec<Spanned<String>>>,
    /// Duration of the first ejection. Each further ejection lasts twice as long as the previous ejection, up
    /// to `time_max`. If the server has been healthy for `time_max`, its next ejection has this duration
    /// again. Default: 10s.
    pub(in crate::config) time: Option<Spanned<Period>>,
    /// Maximum duration of an ejection. Default: 1m.
    pub(in crate::config) time_max: Option<Spanned<Period>>,
    /// Maximum share of servers that are ejected or down, in percent, 0 to 100. Thruway rounds the share down
    /// to a whole number of servers: 70 percent of 4 servers are 2 servers. Thruway ejects no further server
    /// if this number is reached. Even with 0, Thruway may eject one server. Even with 100, Thruway never
    /// ejects all servers. Default: 70.
    pub(in crate::config) percent_max: Option<Spanned<u32>>,
}

pub(in crate::config) fn resolve_check(resolver: &mut Resolver<'_>, raw: Spanned<RawCheck>) -> CheckConfig {
    let span = raw.span();
    let raw = raw.into_inner();
    let is_about_http = raw.host.is_some() || raw.statuses.is_some() || raw.body.is_some();
    if raw.path.is_none() && is_about_http {
        resolver.refuse_at(&span, "`host`, `statuses` and `body` require `path`");
    }
    if let Some(statuses) = &raw.statuses {
        let hint = "remove the key to use the default, `200-399`";
        resolver.refuse_empty(statuses, "`statuses` is empty", hint);
    }
    let statuses = raw
        .statuses
        .map_or_else(|| vec![CheckKind::STATUSES], |statuses| resolve_statuses(resolver, statuses.get_ref()));
    if raw.body.as_deref() == Some("") {
        resolver.refuse_at(&span, "`body` is empty, so the check would accept any response body");
    }
    let host = raw.host.map(|host| check_host(resolver, host));
    let kind = raw.path.map_or(CheckKind::Tcp, |path| {
        let path = resolve_target(resolver, path);
        CheckKind::Http { path, host, statuses, content: raw.body }
    });
    let default = CheckConfig::new(kind);
    CheckConfig {
        interval: resolver.or(raw.interval, Period(default.interval), SOME_PERIOD).0,
        timeout: resolver.or(raw.timeout, Period(default.timeout), SOME_PERIOD).0,
        rise: resolver.or(raw.rise, default.rise, 1..=1_000),
        fall: resolver.or(raw.fall, default.fall, 1..=1_000),
        ..default
    }
}

/// Checks the path of a health check. The path may contain a query.
fn resolve_target(resolver: &mut Resolver<'_>, raw: Spanned<String>) -> String {
    let (path, query) = raw.get_ref().split_once('?').unwrap_or((raw.get_ref(), ""));
    let is_valid = path.starts_with('/') && path.chars().all(is_path_byte);
    if !is_valid || !query.chars().all(|byte| is_path_byte(byte) || "/?".contains(byte)) {
        resolver.refuse_with(&raw, "invalid path", "a path begins with `/` and is percent-encoded");
    }
    raw.into_inner()
}

fn check_host(resolver: &mut Resolver<'_>, raw: Spanned<String>) -> String {
    if raw.get_ref().is_empty() || FieldValue::new(raw.get_ref().as_bytes()).is_err() {
        resolver.refuse(&raw, "invalid host");
    }
    raw.into_inner()
}

pub(in crate::config) fn resolve_ejection(resolver: &mut Resolver<'_>, raw: RawEjection) -> EjectionConfig {
    let default = EjectionConfig::default();
    let said = raw.time_max.as_ref().or(raw.time.as_ref()).map(|said| said.span());
    let config = EjectionConfig {
        failures: raw.failures.unwrap_or(default.failures),
        statuses: raw.statuses.map_or(default.statuses, |statuses| resolve_statuses(resolver, &statuses)),
        time: resolver.or(raw.time, Period(default.time), SOME_PERIOD).0,
        time_max: resolver.or(raw.time_max, Period(default.time_max), SOME_PERIOD).0,
        percent_max: resolver.or(raw.percent_max, default.percent_max, 0..=100),
    };
    if let Some(span) = said.filter(|_| config.time > config.time_max) {
        let (time, time_max) = (Period(config.time), Period(config.time_max));
        let message = format!("`time` ({time}) is longer than `time_max` ({time_max})");
        let failure = resolver.source.failure(span, message);
        resolver.failures.push(failure.with_hint("set `time_max` to at least the value of `time`"));
    }
    config
}

pub(in crate::config) fn resolve_statuses(
    resolver: &mut Resolver<'_>,
    raw: &[Spanned<String>],
) -> Vec<StatusRange> {
    let parsed = raw.iter().map(|text| (text, text.get_ref().parse()));
    parsed.filter_map(|(text, range)| range.map_err(|error| resolver.refuse(text, error)).ok()).collect()
}
