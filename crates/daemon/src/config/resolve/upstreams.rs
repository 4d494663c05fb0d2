//! Upstreams, and the routes that lead to them.

use std::collections::BTreeMap;

use thruway_client::UpstreamAddr;
use thruway_client::http2::Http2Config;
use thruway_gateway::{
    Balance, CheckConfig, CheckKind, EjectionConfig, HashBy, InvalidServerAddr, ProxyVersion, QueueConfig,
    ResolverConfig, RetryBudget, ServerAddr, ServerConfig, StatusRange, Sticky, UpstreamConfig,
};
use thruway_server::{FieldName, FieldValue};

use super::super::raw::{
    Period, RawBalance, RawBalanceName, RawCheck, RawEjection, RawHash, RawProxyVersion, RawQueue,
    RawResolver, RawResolverName, RawRetryBudget, RawServer, RawSticky, RawUpstream, RawUpstreamHttp2,
    RawUpstreamTlsOrNot, TextOrTable,
};
use super::super::spanned::Spanned;
use super::super::{Http2, Span, Upstreams};
use super::timeouts::{resolve_exchange, resolve_pool};
use super::tls::resolve_upstream_tls;
use crate::config::resolver::{ANY_PERIOD, Resolver, SOME_PERIOD, is_path_octet};

pub(super) fn resolve_upstreams(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<String, Spanned<RawUpstream>>,
) -> Upstreams {
    raw.into_iter()
        .map(|(name, upstream)| (name.clone(), resolve_upstream(resolver, name, upstream)))
        .collect()
}

fn resolve_upstream(resolver: &mut Resolver<'_>, name: String, raw: Spanned<RawUpstream>) -> UpstreamConfig {
    let span = raw.span();
    let mut raw = raw.into_inner();
    if raw.servers.is_empty() {
        resolver.refuse_at(&span, "an upstream has at least one server");
    }
    resolver.check_name(&name, &span, "an upstream");
    let http2 = resolve_upstream_http2(resolver, &mut raw);
    let default = UpstreamConfig::new(name, []);
    let requests_max = raw.server_requests_max.unwrap_or_default();
    let event_stream_idle = Period(default.event_stream_idle);
    UpstreamConfig {
        exchange: resolve_exchange(resolver, &mut raw, &default),
        event_stream_idle: resolver.or(raw.event_stream_idle_timeout, event_stream_idle, SOME_PERIOD).0,
        pool: resolve_pool(resolver, raw.pool, default.pool),
        servers: resolve_upstream_servers(resolver, raw.servers, requests_max, &span),
        resolver: raw.resolver.map_or(default.resolver, |raw| resolve_resolver(resolver, raw.0)),
        resolve_interval: resolver.or(raw.resolve_interval, Period(default.resolve_interval), SOME_PERIOD).0,
        balance: raw.balance.map_or(default.balance, |balance| resolve_balance(resolver, balance)),
        sticky: raw.sticky.map(|sticky| resolve_sticky(resolver, sticky)),
        check: raw.check.map(|check| resolve_check(resolver, check)),
        ejection: resolve_ejection(resolver, raw.ejection),
        slow_start: resolver.or(raw.slow_start, Period(default.slow_start), ANY_PERIOD).0,
        proxy_protocol: raw.proxy_protocol.map(proxy_version),
        http2: (http2 != Http2::No).then(Http2Config::default),
        negotiates_http2: http2 == Http2::Too,
        tls: raw.tls.and_then(|tls| resolve_upstream_tls(resolver, tls, http2)),
        connect_timeout: resolver.or(raw.connect_timeout, Period(default.connect_timeout), SOME_PERIOD).0,
        tunnel_idle: resolver.or(raw.tunnel_idle_timeout, Period(default.tunnel_idle), SOME_PERIOD).0,
        requests_max: raw.requests_max.unwrap_or(default.requests_max),
        connections_max: resolver.or(raw.connections_max, default.connections_max, 0..=10_000_000),
        queue: resolve_queue(resolver, raw.queue),
        retries_max: resolver.or(raw.retries_max, default.retries_max, 0..=100),
        retry_budget: resolve_retry_budget(resolver, raw.retry_budget),
        replay_bytes_max: resolver.or(raw.replay_bytes_max, default.replay_bytes_max, 0..=REPLAY_BYTES_MAX),
        ..default
    }
}

/// Which versions are spoken with the servers. A choice is theirs only where something is negotiated.
fn resolve_upstream_http2(resolver: &mut Resolver<'_>, raw: &mut RawUpstream) -> Http2 {
    let Some(http2) = raw.http2.take() else { return Http2::No };
    let is_plain = raw.tls.as_ref().is_none_or(|tls| matches!(tls.get_ref(), RawUpstreamTlsOrNot::No));
    match http2.get_ref() {
        RawUpstreamHttp2::No => return Http2::No,
        RawUpstreamHttp2::Auto if is_plain => {
            let hint = "with `tls`, each server chooses; without, say `true` if they speak HTTP/2";
            resolver.refuse_with(&http2, "without TLS, no version is negotiated", hint);
        }
        RawUpstreamHttp2::Auto | RawUpstreamHttp2::Yes => {}
    }
    if raw.proxy_protocol.is_some() {
        let hint = "connections of HTTP/2 are shared by clients: take `http2` or `proxy_protocol` away";
        resolver.refuse_with(&http2, "servers that are told the client of a connection speak HTTP/1.1", hint);
    }
    if *http2.get_ref() == RawUpstreamHttp2::Auto { Http2::Too } else { Http2::Only }
}

fn resolve_resolver(resolver: &mut Resolver<'_>, raw: RawResolver) -> ResolverConfig {
    let raw = match raw {
        RawResolver::Named(RawResolverName::Dns) => return ResolverConfig::Dns(Vec::new()),
        RawResolver::Named(RawResolverName::System) => return ResolverConfig::System,
        RawResolver::Nameservers(raw) => raw.nameservers,
    };
    resolver.refuse_empty(
        &raw,
        "there is at least one server of names",
        "`\"dns\"` asks those of the system",
    );
    let parsed = raw.get_ref().iter().filter_map(|text| {
        let address = text.get_ref().parse().ok();
        if address.is_none() {
            let message =
                format!("`{}` is not the address of a server of names", text.get_ref().escape_debug());
            resolver.refuse_with(text, message, "write `IP:PORT`, as `127.0.0.1:53` or `[::1]:53`");
        }
        address
    });
    ResolverConfig::Dns(parsed.collect())
}

/// Servers are told from each other by their addresses, in cookies, metrics and towards those who operate them.
fn resolve_upstream_servers(
    resolver: &mut Resolver<'_>,
    raw: Vec<Spanned<TextOrTable<RawServer>>>,
    requests_max: usize,
    upstream: &Span,
) -> Vec<ServerConfig> {
    let mut servers: Vec<ServerConfig> = Vec::new();
    if !raw.is_empty() && raw.iter().all(has_no_weight) {
        let failure = resolver.source.failure(upstream.clone(), "all servers have the weight 0");
        resolver
            .failures
            .push(failure.with_hint("no client without a sticky cookie would get one: give one a weight"));
    }
    for raw in raw {
        let span = raw.span();
        let Some(server) = resolve_upstream_server(resolver, raw, requests_max) else { continue };
        if servers.iter().any(|other| other.address == server.address) {
            let message = format!("the upstream has the server `{}` already", server.address);
            let hint = "a server gets more requests than others by its `weight`";
            resolver.failures.push(resolver.source.failure(span, message).with_hint(hint));
        }
        servers.push(server);
    }
    servers
}

fn resolve_upstream_server(
    resolver: &mut Resolver<'_>,
    raw: Spanned<TextOrTable<RawServer>>,
    requests_max_of_all: usize,
) -> Option<ServerConfig> {
    let span = raw.span();
    let TextOrTable(RawServer { address, weight, backup, requests_max }) = raw.into_inner();
    let weight = resolver.or(weight, 1, 0..=ServerConfig::WEIGHT_MAX);
    let address = resolve_server_address(resolver, &address, &span)?;
    let requests_max = requests_max.unwrap_or(requests_max_of_all);
    Some(ServerConfig { address, weight, is_backup: backup, requests_max })
}

fn resolve_server_address(resolver: &mut Resolver<'_>, text: &str, span: &Span) -> Option<ServerAddr> {
    match text.parse::<ServerAddr>() {
        Ok(ServerAddr::Address(address)) if address.unix_path().is_some() => {
            let path = address.unix_path()?;
            Some(UpstreamAddr::unix(resolver.beside_config(path)).into())
        }
        Ok(ServerAddr::Address(address)) if address.tcp().is_some_and(|address| address.port() == 0) => {
            let failure = resolver.source.failure(span.clone(), "nobody can be reached at port 0");
            resolver.failures.push(failure.with_hint("write the port on which the server listens"));
            None
        }
        Ok(address) => Some(address),
        Err(error) => {
            let failure = resolver.source.failure(span.clone(), error).with_hint(InvalidServerAddr::HINT);
            resolver.failures.push(failure);
            None
        }
    }
}

fn resolve_balance(resolver: &mut Resolver<'_>, raw: Spanned<TextOrTable<RawBalance>>) -> Balance {
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

pub(super) fn resolve_hash_by(resolver: &mut Resolver<'_>, raw: &Spanned<String>) -> HashBy {
    match raw.get_ref().split_once(':') {
        None if raw.get_ref() == "client_address" => return HashBy::ClientAddress,
        None if raw.get_ref() == "path" => return HashBy::Path,
        Some(("cookie", name)) if is_token(name) => return HashBy::Cookie(name.to_owned()),
        Some(("field", name)) if is_token(name) => return HashBy::Field(name.to_owned()),
        _ => {}
    }
    let message = format!("`{}` is nothing to hash", raw.get_ref().escape_debug());
    resolver.refuse_with(raw, message, "possible: `client_address`, `path`, `field:NAME`, `cookie:NAME`");
    HashBy::Path
}

fn resolve_sticky(resolver: &mut Resolver<'_>, RawSticky { cookie, secret }: RawSticky) -> Sticky {
    if !is_token(cookie.get_ref()) {
        let message = format!("`{}` is not the name of a cookie", cookie.get_ref().escape_debug());
        resolver.refuse(&cookie, message);
    }
    if let Some(secret) = secret.as_ref().filter(|secret| secret.get_ref().is_empty()) {
        let hint = "leave it out for one that is made at the start";
        resolver.refuse_with(secret, "an empty secret is known to everybody", hint);
    }
    Sticky { cookie: cookie.into_inner(), secret: secret.map(Spanned::into_inner) }
}

fn resolve_queue(resolver: &mut Resolver<'_>, raw: RawQueue) -> QueueConfig {
    let default = QueueConfig::default();
    QueueConfig {
        length_max: raw.length_max.unwrap_or(default.length_max),
        timeout: resolver.or(raw.timeout, Period(default.timeout), SOME_PERIOD).0,
    }
}

fn resolve_retry_budget(resolver: &mut Resolver<'_>, raw: RawRetryBudget) -> RetryBudget {
    let default = RetryBudget::default();
    RetryBudget {
        percent: resolver.or(raw.percent, default.percent, 0..=1_000),
        per_second_min: resolver.or(raw.per_second_min, default.per_second_min, 0..=1_000_000),
    }
}

fn resolve_check(resolver: &mut Resolver<'_>, raw: Spanned<RawCheck>) -> CheckConfig {
    let span = raw.span();
    let raw = raw.into_inner();
    let is_about_http = raw.host.is_some() || raw.statuses.is_some() || raw.content.is_some();
    if raw.path.is_none() && is_about_http {
        resolver.refuse_at(&span, "a check without a `path` has no `host`, `statuses` or `content`");
    }
    if let Some(statuses) = &raw.statuses {
        let hint = "leave it out for `200-399`";
        resolver.refuse_empty(statuses, "a check has at least one status that is good", hint);
    }
    let statuses = raw
        .statuses
        .map_or_else(|| vec![CheckKind::STATUSES], |statuses| resolve_statuses(resolver, statuses.get_ref()));
    if raw.content.as_deref() == Some("") {
        resolver.refuse_at(&span, "every answer has the empty `content` that this check asks for");
    }
    let host = raw.host.map(|host| check_host(resolver, host));
    let kind = raw.path.map_or(CheckKind::Tcp, |path| {
        let path = resolve_target(resolver, path);
        CheckKind::Http { path, host, statuses, content: raw.content }
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

/// A path, perhaps with a query.
fn resolve_target(resolver: &mut Resolver<'_>, raw: Spanned<String>) -> String {
    let (path, query) = raw.get_ref().split_once('?').unwrap_or((raw.get_ref(), ""));
    let is_valid = path.starts_with('/') && path.chars().all(is_path_octet);
    if !is_valid || !query.chars().all(|octet| is_path_octet(octet) || "/?".contains(octet)) {
        resolver.refuse_with(&raw, "this is no path", "a path begins with `/` and is percent-encoded");
    }
    raw.into_inner()
}

fn check_host(resolver: &mut Resolver<'_>, raw: Spanned<String>) -> String {
    if raw.get_ref().is_empty() || FieldValue::new(raw.get_ref().as_bytes()).is_err() {
        resolver.refuse(&raw, "this is no host");
    }
    raw.into_inner()
}

fn resolve_ejection(resolver: &mut Resolver<'_>, raw: RawEjection) -> EjectionConfig {
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
        let message = format!(
            "a server is out for `time`, {time}, at first, which is more than `time_max`, {time_max}"
        );
        let failure = resolver.source.failure(span, message);
        resolver
            .failures
            .push(failure.with_hint("`time_max` bounds what `time` has grown to: make it the larger one"));
    }
    config
}

fn resolve_statuses(resolver: &mut Resolver<'_>, raw: &[Spanned<String>]) -> Vec<StatusRange> {
    let parsed = raw.iter().map(|text| (text, text.get_ref().parse()));
    parsed.filter_map(|(text, range)| range.map_err(|error| resolver.refuse(text, error)).ok()).collect()
}

/// The name, if there is an upstream that is called so.
pub(super) fn known_upstream(
    resolver: &mut Resolver<'_>,
    name: &Spanned<String>,
    upstreams: &Upstreams,
) -> Option<String> {
    if upstreams.contains_key(name.get_ref()) {
        return Some(name.get_ref().clone());
    }
    refuse_upstream(resolver, name.get_ref(), &name.span(), upstreams);
    None
}

/// There is no upstream of this name.
pub(super) fn refuse_upstream(resolver: &mut Resolver<'_>, name: &str, span: &Span, upstreams: &Upstreams) {
    let failure =
        resolver.source.failure(span.clone(), format!("there is no upstream `{}`", name.escape_debug()));
    let known: Vec<_> = upstreams.keys().map(|name| format!("`{name}`")).collect();
    resolver.failures.push(match &known[..] {
        [] => failure.with_hint("add one: `[upstreams.NAME]` and below it `servers = [\"IP:PORT\"]`"),
        known => failure.with_hint(format!("there are {}", known.join(", "))),
    });
}

const fn proxy_version(raw: RawProxyVersion) -> ProxyVersion {
    match raw {
        RawProxyVersion::V1 => ProxyVersion::V1,
        RawProxyVersion::V2 => ProxyVersion::V2,
    }
}

fn has_no_weight(raw: &Spanned<TextOrTable<RawServer>>) -> bool {
    raw.get_ref().0.weight.as_ref().is_some_and(|weight| *weight.get_ref() == 0)
}

/// Names of cookies and of fields are of the same kind (RFC 6265 §4.1.1, RFC 9110 §5.1).
fn is_token(name: &str) -> bool {
    FieldName::new(name.as_bytes()).is_ok()
}

/// 16 MiB of each upload that is under way is what a gateway can have to remember.
const REPLAY_BYTES_MAX: usize = 16 << 20;
