//! The section `upstreams`: servers, connections and forwarding.

pub(in crate::config) mod balance;
pub(in crate::config) mod health;
mod retries;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_client::http2::Http2Config;
use thruway_client::{Config, PoolConfig, Timeouts, UpstreamAddr};
use thruway_gateway::{
    ForwardConfig, ForwardedFields, InvalidServerAddr, ProxyVersion, QueueConfig, ResolverConfig, ServerAddr,
    ServerConfig, UpstreamConfig,
};
use thruway_server::Limits;

use crate::config::resolver::{ANY_PERIOD, HEAD_BYTES_MAX, Resolver, SOME_PERIOD, resolve_some_period};
use crate::config::rewrite::{RawForwarded, RawHost, resolve_host_rewrite};
use crate::config::tls::{RawUpstreamTlsOrNot, resolve_upstream_tls};
use crate::config::upstreams::balance::{RawBalance, RawSticky, resolve_balance, resolve_sticky};
use crate::config::upstreams::health::{RawCheck, RawEjection, resolve_check, resolve_ejection};
use crate::config::upstreams::retries::{RawRetryBudget, resolve_retry_budget, resolve_retry_statuses};
use crate::config::values::{FromText, Period, Span, Spanned, TextOrTable};
use crate::config::{Http2, Upstreams};

/// A group of servers that serve the same content.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawUpstream {
    /// Servers, at least one: `IP:PORT`, `NAME:PORT`, `unix:PATH`, or a table with an `address`.
    pub(in crate::config) servers: Vec<Spanned<TextOrTable<RawServer>>>,
    /// Resolver for the names of servers: `system`, `dns`, or `{ nameservers = ["IP:PORT"] }`. Default:
    /// `system`.
    pub(in crate::config) resolver: Option<TextOrTable<RawResolver>>,
    /// Time after which Thruway resolves the names of servers again. If the resolver reports a time to live
    /// (TTL) for a name, Thruway uses the TTL instead. Default: 30s.
    pub(in crate::config) resolve_interval: Option<Spanned<Period>>,
    /// Balancing method: `round_robin`, `least_connections`, `random_of_two`, `peak_ewma`, or `{ hash = "…"
    /// }`. Default: `round_robin`.
    pub(in crate::config) balance: Option<Spanned<TextOrTable<RawBalance>>>,
    /// Cookie that sends a client to the same server again. Default: none.
    pub(in crate::config) sticky: Option<RawSticky>,
    /// Maximum number of requests in flight for each server. 0 means no limit. Default: 0.
    pub(in crate::config) server_requests_max: Option<usize>,
    /// Maximum number of requests in flight for the upstream. 0 means no limit. Default: 0.
    pub(in crate::config) requests_max: Option<usize>,
    /// Maximum number of connections to all servers of the upstream, including idle connections. Thruway
    /// divides this number among the workers, but each worker may open at least one connection. 0 means no
    /// limit. Default: 0.
    pub(in crate::config) connections_max: Option<Spanned<usize>>,
    /// Queue for requests that wait because the upstream has reached a limit.
    #[serde(default)]
    pub(in crate::config) queue: RawQueue,
    /// Limit for the number of retries with another server, in relation to the number of requests.
    #[serde(default)]
    pub(in crate::config) retry_budget: RawRetryBudget,
    /// Health checks of the servers. Default: none.
    pub(in crate::config) check: Option<Spanned<RawCheck>>,
    /// Ejection of servers that fail.
    #[serde(default)]
    pub(in crate::config) ejection: RawEjection,
    /// With `true`, `/ready` of the admin listener responds 503 while no server of this upstream is healthy.
    /// Risk: if several gateways use the same upstream and it fails, a load balancer in front of the gateways
    /// stops using all gateways at once. Default: false.
    pub(in crate::config) required_for_ready: Option<bool>,
    /// Time in which the share of requests to a recovered server grows to its normal value. `0s` disables
    /// slow start. Default: 0s.
    pub(in crate::config) slow_start: Option<Spanned<Period>>,
    /// Version of the PROXY protocol: `v1` or `v2`. Thruway sends a PROXY header with the client address at
    /// the start of each connection to a server. Thruway reuses the connection only for requests of the same
    /// client connection. Default: none.
    pub(in crate::config) proxy_protocol: Option<RawProxyVersion>,
    /// With `true`, Thruway uses only HTTP/2 with the servers. If the upstream has no `tls`, its servers must
    /// accept HTTP/2 without negotiation. With `"auto"`, each server chooses between HTTP/2 and HTTP/1.1;
    /// this value requires `tls`. Default: false.
    pub(in crate::config) http2: Option<Spanned<RawUpstreamHttp2>>,
    /// TLS to the servers: `true`, or a table. Risk of the default: anyone on the network path can read and
    /// change all traffic. Default: false.
    pub(in crate::config) tls: Option<Spanned<RawUpstreamTlsOrNot>>,
    /// Maximum time to connect to a server. The TLS handshake after that has a separate time limit with the
    /// same value. Default: 5s.
    pub(in crate::config) connect_timeout: Option<Spanned<Period>>,
    /// Maximum time from the end of a request to the headers of its response. After this time, another
    /// server gets the request if a retry is safe. Otherwise, the client gets 504. Default: 1m.
    pub(in crate::config) response_header_timeout: Option<Spanned<Period>>,
    /// Maximum pause within a response body. After a longer pause, Thruway cuts off the response. The timeout
    /// counts as a failure of the server, which can lead to its ejection. Default: 1m.
    pub(in crate::config) body_idle_timeout: Option<Spanned<Period>>,
    /// Maximum pause within a `text/event-stream` response. After a longer pause, Thruway cuts off the
    /// response. The timeout does not count as a failure of the server. Default: 1h.
    pub(in crate::config) event_stream_idle_timeout: Option<Spanned<Period>>,
    /// Maximum time in which a server does not read the request. After this time, another server gets the
    /// request if a retry is safe. Otherwise, the client gets 504. Default: 30s.
    pub(in crate::config) write_stall_timeout: Option<Spanned<Period>>,
    /// Maximum time of a whole request, including queue, connect, retries and response body. After this
    /// time, Thruway cuts off a response that has begun. If no response has begun, the client gets 504.
    /// Default: none.
    pub(in crate::config) total_timeout: Option<Spanned<Period>>,
    /// Maximum size of the response headers in bytes, 64 to 1048576. If the headers are larger, the client
    /// gets 502. Default: 32768.
    pub(in crate::config) response_header_bytes: Option<Spanned<u32>>,
    /// Maximum number of header lines of a response, 1 to 10000. If the response has more lines, the client
    /// gets 502. The same limit applies to trailers. Default: 128.
    pub(in crate::config) response_headers: Option<Spanned<u32>>,
    /// Idle connections that each worker keeps.
    #[serde(default)]
    pub(in crate::config) pool: RawPool,
    /// Maximum time in which no byte passes through a tunnel, such as a WebSocket. After this time, Thruway
    /// closes the tunnel. Default: 1h.
    pub(in crate::config) tunnel_idle_timeout: Option<Spanned<Period>>,
    /// `Host` of forwarded requests: `preserve` (the host of the client's request), `server` (the name in
    /// `servers`), or `{ fixed = "…" }`. Default: `preserve`.
    pub(in crate::config) host: Option<Spanned<TextOrTable<RawHost>>>,
    /// Headers that describe the client to the servers: `x-forwarded`, `forwarded`, `both` or `none`. Risk
    /// of `none`: Thruway does not remove such headers from client requests, so clients can send a false
    /// address. Default: `x-forwarded`.
    pub(in crate::config) forwarded: Option<RawForwarded>,
    /// With `true`, Thruway adds the header `X-Forwarded-Port` with the port that the client used. Default:
    /// false.
    pub(in crate::config) forwarded_port: Option<Spanned<bool>>,
    /// With `true`, Thruway adds the header `Via` to requests, which shows that a request came through a
    /// gateway. If requests travel in a loop through several gateways, Thruway detects this only if one of
    /// the gateways adds `Via`. Default: true.
    pub(in crate::config) via: Option<bool>,
    /// Maximum number of retries with other servers for a failed request, 0 to 100. If the request has failed
    /// at all servers, Thruway tries a server again. Thruway retries a request only if a retry is safe. A
    /// retry after a failure on a reused connection goes to the same server and does not count. Default: 2.
    pub(in crate::config) retries_max: Option<Spanned<u32>>,
    /// Statuses of responses, from 400 to 599, after which Thruway sends an idempotent request to another
    /// server: `502` or `502-504`. Thruway discards the response. If no retry is allowed, the client gets the
    /// response unchanged. Risk: with `429` or `503`, an overloaded upstream gets more requests, up to
    /// `retry_budget`. Default: none.
    pub(in crate::config) retry_statuses: Option<Spanned<Vec<Spanned<String>>>>,
    /// Maximum number of bytes of a request body that Thruway keeps for a retry, 0 to 16777216. Thruway frees
    /// these bytes when the response begins. Default: 65536.
    pub(in crate::config) replay_bytes_max: Option<Spanned<usize>>,
}

/// Versions of HTTP that an upstream uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum RawUpstreamHttp2 {
    No,
    Yes,
    Auto,
}

/// Resolver for the names of servers: a name, or a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::config) enum RawResolver {
    Named(RawResolverName),
    Nameservers(RawNameservers),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum RawResolverName {
    Dns,
    System,
}

/// DNS servers. Thruway queries the DNS servers in the order of the list until one of them responds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawNameservers {
    /// Address of each DNS server: `IP:PORT`.
    pub(in crate::config) nameservers: Spanned<Vec<Spanned<String>>>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum RawProxyVersion {
    V1,
    V2,
}

/// A server of an upstream.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawServer {
    /// Address of the server: `IP:PORT`, `NAME:PORT` or `unix:PATH`. If a name resolves to several
    /// addresses, Thruway uses all of them.
    pub(in crate::config) address: String,
    /// Relative share of requests, 0 to 256. With 0, a server gets only requests with a sticky cookie for
    /// this server. Default: 1.
    pub(in crate::config) weight: Option<Spanned<u32>>,
    /// With `true`, the server gets a request only if all other servers are unavailable, or if the request
    /// has failed at all other servers. Default: false.
    #[serde(default)]
    pub(in crate::config) backup: bool,
    /// Maximum number of requests in flight for this server. Default: `server_requests_max` of the upstream.
    pub(in crate::config) requests_max: Option<usize>,
}

/// Queue for requests that wait until a server has capacity.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawQueue {
    /// Maximum number of waiting requests. Further requests get 503. Default: 1000.
    pub(in crate::config) requests_max: Option<usize>,
    /// Maximum waiting time. After this time, the request gets 503. Default: 5s.
    pub(in crate::config) timeout: Option<Spanned<Period>>,
}

/// Idle connections that each worker keeps for later requests.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawPool {
    /// Maximum number of idle connections to each server, 0 to 1000000. With 0, Thruway opens a new
    /// connection for each request, even with HTTP/2. Default: 1024.
    pub(in crate::config) per_server_max: Option<Spanned<usize>>,
    /// Maximum number of idle connections to all servers, 0 to 1000000. Default: 4096.
    pub(in crate::config) connections_max: Option<Spanned<usize>>,
    /// Maximum idle time of a connection. Set a time that is shorter than the keep-alive timeout of the
    /// servers. Default: 30s.
    pub(in crate::config) idle_timeout: Option<Spanned<Period>>,
}

impl<'de> Deserialize<'de> for RawUpstreamHttp2 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = RawUpstreamHttp2;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or `\"auto\"`")
            }

            fn visit_bool<E: Error>(self, is_wanted: bool) -> Result<RawUpstreamHttp2, E> {
                Ok(if is_wanted { RawUpstreamHttp2::Yes } else { RawUpstreamHttp2::No })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawUpstreamHttp2, E> {
                match text {
                    "auto" => Ok(RawUpstreamHttp2::Auto),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for RawUpstreamHttp2 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "UpstreamHttp2".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "const": "auto" }] })
    }
}

impl FromText for RawServer {
    const EXPECTED: &'static str = "an address or a table with an `address`";

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "string"}, generator.subschema_for::<Self>()]})
    }

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Self { address: text.to_owned(), weight: None, backup: false, requests_max: None })
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(table))
    }
}

impl FromText for RawResolver {
    const EXPECTED: &'static str = "`system`, `dns` or a table with `nameservers`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        RawResolverName::deserialize(text.into_deserializer()).map(Self::Named)
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        RawNameservers::deserialize(MapAccessDeserializer::new(table)).map(Self::Nameservers)
    }
}

pub(in crate::config) fn resolve_upstreams(
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
        resolver.refuse_at(&span, "`servers` is empty");
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
        retry_statuses: resolve_retry_statuses(resolver, raw.retry_statuses.take()),
        retry_budget: resolve_retry_budget(resolver, raw.retry_budget),
        replay_bytes_max: resolver.or(raw.replay_bytes_max, default.replay_bytes_max, 0..=REPLAY_BYTES_MAX),
        ..default
    }
}

/// Returns the versions of HTTP for the servers. Refuses `"auto"` without `tls`, because servers choose the
/// version during TLS negotiation.
fn resolve_upstream_http2(resolver: &mut Resolver<'_>, raw: &mut RawUpstream) -> Http2 {
    let Some(http2) = raw.http2.take() else { return Http2::No };
    let is_plain = raw.tls.as_ref().is_none_or(|tls| matches!(tls.get_ref(), RawUpstreamTlsOrNot::No));
    match http2.get_ref() {
        RawUpstreamHttp2::No => return Http2::No,
        RawUpstreamHttp2::Auto if is_plain => {
            let hint = "add `tls`, or write `http2 = true` if all servers support HTTP/2";
            resolver.refuse_with(&http2, "servers can negotiate HTTP/2 only with `tls`", hint);
        }
        RawUpstreamHttp2::Auto | RawUpstreamHttp2::Yes => {}
    }
    if raw.proxy_protocol.is_some() {
        let hint = "HTTP/2 connections serve several clients: remove `http2` or `proxy_protocol`";
        resolver.refuse_with(
            &http2,
            "`proxy_protocol` names one client for each connection, so it requires HTTP/1.1",
            hint,
        );
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
        "`nameservers` is empty",
        "write `\"dns\"` for the DNS servers of the system",
    );
    let parsed = raw.get_ref().iter().filter_map(|text| {
        let address = text.get_ref().parse().ok();
        if address.is_none() {
            let message = format!("`{}` is not the address of a DNS server", text.get_ref().escape_debug());
            resolver.refuse_with(text, message, "write `IP:PORT`, as `127.0.0.1:53` or `[::1]:53`");
        }
        address
    });
    ResolverConfig::Dns(parsed.collect())
}

/// Resolves the servers of an upstream. Refuses repeated addresses, because cookies, metrics and the admin
/// listener identify servers by address.
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
            .push(failure.with_hint(
                "a server with weight 0 gets only requests with a sticky cookie: give at least one server a weight above 0",
            ));
    }
    for raw in raw {
        let span = raw.span();
        let Some(server) = resolve_upstream_server(resolver, raw, requests_max) else { continue };
        if servers.iter().any(|other| other.address == server.address) {
            let message = format!("the upstream lists the server `{}` twice", server.address);
            let hint = "use `weight` to send more requests to a server";
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
            Some(UpstreamAddr::unix(resolver.relative_to_config(path)).into())
        }
        Ok(ServerAddr::Address(address)) if address.tcp().is_some_and(|address| address.port() == 0) => {
            let failure = resolver.source.failure(span.clone(), "port 0 is not a valid server port");
            resolver.failures.push(failure.with_hint("write the port of the server"));
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

fn resolve_queue(resolver: &mut Resolver<'_>, raw: RawQueue) -> QueueConfig {
    let default = QueueConfig::default();
    QueueConfig {
        length_max: raw.requests_max.unwrap_or(default.length_max),
        timeout: resolver.or(raw.timeout, Period(default.timeout), SOME_PERIOD).0,
    }
}

/// Returns `name` if there is an upstream with this name. Refuses an unknown name.
pub(in crate::config) fn known_upstream(
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

/// Refuses an unknown upstream.
pub(in crate::config) fn refuse_upstream(
    resolver: &mut Resolver<'_>,
    name: &str,
    span: &Span,
    upstreams: &Upstreams,
) {
    let failure =
        resolver.source.failure(span.clone(), format!("there is no upstream `{}`", name.escape_debug()));
    let known: Vec<_> = upstreams.keys().map(|name| format!("`{name}`")).collect();
    resolver.failures.push(match &known[..] {
        [] => failure.with_hint("add one: `[upstreams.NAME]` and below it `servers = [\"IP:PORT\"]`"),
        known => failure.with_hint(format!("the config has {}", known.join(", "))),
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

/// Maximum of `replay_bytes_max`: 16 MiB. The gateway may keep this number of bytes in memory for each
/// request in flight.
const REPLAY_BYTES_MAX: usize = 16 << 20;

/// Takes the limits and timeouts for requests to the servers out of `raw`, and returns them.
pub(in crate::config) fn resolve_exchange(
    resolver: &mut Resolver<'_>,
    raw: &mut RawUpstream,
    default: &UpstreamConfig,
) -> Config {
    let Config { limits, timeouts } = default.exchange;
    let mut or = |period: &mut Option<_>, default| resolver.or(period.take(), Period(default), SOME_PERIOD).0;
    let timeouts = Timeouts {
        head: or(&mut raw.response_header_timeout, timeouts.head),
        content_idle: or(&mut raw.body_idle_timeout, timeouts.content_idle),
        write_stall: or(&mut raw.write_stall_timeout, timeouts.write_stall),
        total: resolve_some_period(resolver, raw.total_timeout.take()),
        ..timeouts
    };
    let (bytes, lines) = (raw.response_header_bytes.take(), raw.response_headers.take());
    let limits = Limits {
        header_section_bytes: resolver.or(bytes, limits.header_section_bytes, 64..=HEAD_BYTES_MAX),
        field_lines: resolver.or(lines, limits.field_lines, 1..=10_000),
        ..limits
    };
    Config { limits, timeouts }
}

pub(in crate::config) fn resolve_pool(
    resolver: &mut Resolver<'_>,
    raw: RawPool,
    default: PoolConfig,
) -> PoolConfig {
    PoolConfig {
        idle_per_address_max: resolver.or(raw.per_server_max, default.idle_per_address_max, POOLED),
        idle_max: resolver.or(raw.connections_max, default.idle_max, POOLED),
        idle: resolver.or(raw.idle_timeout, Period(default.idle), ANY_PERIOD).0,
    }
}

/// Allowed number of idle connections. 0 disables keep-alive.
const POOLED: RangeInclusive<usize> = 0..=1_000_000;

/// Returns the settings of each upstream for `Host`, `Via` and forwarding headers.
pub(in crate::config) fn resolve_forwards(
    resolver: &mut Resolver<'_>,
    upstreams: &BTreeMap<String, Spanned<RawUpstream>>,
) -> BTreeMap<String, ForwardConfig> {
    upstreams
        .iter()
        .map(|(name, raw)| (name.clone(), resolve_forward_config(resolver, raw.get_ref())))
        .collect()
}

fn resolve_forward_config(resolver: &mut Resolver<'_>, raw: &RawUpstream) -> ForwardConfig {
    let default = ForwardConfig::default();
    let forwarded_port = raw.forwarded_port.as_ref().filter(|is_set| *is_set.get_ref());
    if let Some(port) = forwarded_port
        && matches!(raw.forwarded, Some(RawForwarded::Forwarded | RawForwarded::None))
    {
        let hint = "write `forwarded = \"x-forwarded\"` or `\"both\"`, or remove the key";
        resolver.refuse_with(port, "`X-Forwarded-Port` requires the other `X-Forwarded` headers", hint);
    }
    ForwardConfig {
        forwarded: raw.forwarded.map_or(default.forwarded, |fields| match fields {
            RawForwarded::XForwarded => ForwardedFields::XForwarded,
            RawForwarded::Forwarded => ForwardedFields::Forwarded,
            RawForwarded::Both => ForwardedFields::Both,
            RawForwarded::None => ForwardedFields::None,
        }),
        forwarded_port: forwarded_port.is_some(),
        host: raw.host.as_ref().map_or(default.host, |host| resolve_host_rewrite(resolver, host)),
        via: raw.via.unwrap_or(default.via),
        ..default
    }
}
