//! Upstreams as the file says them.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::super::spanned::Spanned;
use super::{FromText, Period, RawForwarded, RawHost, RawUpstreamTlsOrNot, TextOrTable};

/// Servers that answer the same requests. Defaults are those of `thruway_gateway::UpstreamConfig`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawUpstream {
    /// At least one.
    pub(in super::super) servers: Vec<Spanned<TextOrTable<RawServer>>>,
    /// Who is asked for the addresses of names: `system`, `dns`, or `{ nameservers = ["IP:PORT"] }`. Default `system`.
    pub(in super::super) resolver: Option<TextOrTable<RawResolver>>,
    /// After how long names of servers are resolved again where nobody says for how long an answer holds.
    pub(in super::super) resolve_interval: Option<Spanned<Period>>,
    /// `round_robin`, `least_connections`, `random_of_two`, `peak_ewma`, or `{ hash = "…" }`. Default `round_robin`.
    pub(in super::super) balance: Option<Spanned<TextOrTable<RawBalance>>>,
    /// Brings a client to the same server again. Default not.
    pub(in super::super) sticky: Option<RawSticky>,
    /// How many requests each server may be answering at a time; 0 for any number, which is the default.
    pub(in super::super) server_requests_max: Option<usize>,
    /// How many requests all servers together may be answering at a time; 0 for any number, which is the default.
    pub(in super::super) requests_max: Option<usize>,
    /// How many connections there may be to all servers together, idle ones included, of which each worker has its share, at least one; 0 for any
    /// number, which is the default.
    pub(in super::super) connections_max: Option<Spanned<usize>>,
    /// What requests do for which no server has room.
    #[serde(default)]
    pub(in super::super) queue: RawQueue,
    /// How many requests may be sent again, of all.
    #[serde(default)]
    pub(in super::super) retry_budget: RawRetryBudget,
    /// How servers are asked how they are. Default not.
    pub(in super::super) check: Option<Spanned<RawCheck>>,
    /// When a server that fails gets no more requests.
    #[serde(default)]
    pub(in super::super) ejection: RawEjection,
    /// Has `/ready` of the admin listener answer 503 while no server of this upstream is healthy. Default
    /// false.
    pub(in super::super) required_for_ready: Option<bool>,
    /// For how long a server that has come back gets less than its share.
    pub(in super::super) slow_start: Option<Spanned<Period>>,
    /// `v1` or `v2`: connections begin with a header of the PROXY protocol, which tells the server who the client is. Default none.
    pub(in super::super) proxy_protocol: Option<RawProxyVersion>,
    /// Whether its servers speak HTTP/2: with `tls` that is negotiated, without they are taken to know it. `auto`, with `tls`: each server chooses
    /// between HTTP/2 and HTTP/1.1. Default no: HTTP/1.1.
    pub(in super::super) http2: Option<Spanned<RawUpstreamHttp2>>,
    /// How TLS is spoken with the servers: `true`, or a table. Default not.
    pub(in super::super) tls: Option<Spanned<RawUpstreamTlsOrNot>>,
    /// For a server to accept a connection, and as long again for the handshake of TLS.
    pub(in super::super) connect_timeout: Option<Spanned<Period>>,
    /// From the end of a request to the head of its response; then another server is asked if that is safe, or the answer is 504.
    pub(in super::super) head_timeout: Option<Spanned<Period>>,
    /// For the next octet of a response's content; then it is broken off.
    pub(in super::super) content_idle_timeout: Option<Spanned<Period>>,
    /// The same for streams of events (`text/event-stream`), which say nothing against their server by being silent.
    pub(in super::super) event_stream_idle_timeout: Option<Spanned<Period>>,
    /// For a server to take the next octet of a request.
    pub(in super::super) write_stall_timeout: Option<Spanned<Period>>,
    /// For a request and its response as a whole: to wait for a server, to connect, and to be sent again included. Default none.
    pub(in super::super) total_timeout: Option<Spanned<Period>>,
    /// Octets of a response's header section; more is answered 502.
    pub(in super::super) response_header_section_bytes: Option<Spanned<u32>>,
    /// Field lines in a response's header or trailer section; more is answered 502.
    pub(in super::super) response_field_lines: Option<Spanned<u32>>,
    /// Which connections wait for the next request.
    #[serde(default)]
    pub(in super::super) pool: RawPool,
    /// For an octet in either direction of a connection that has become a tunnel, as those of web sockets; then it is closed.
    pub(in super::super) tunnel_idle_timeout: Option<Spanned<Period>>,
    /// What `Host` says: `preserve` (what the client said), `server` (what `servers` calls it), or `{ fixed = "…" }`. Default `preserve`.
    pub(in super::super) host: Option<Spanned<TextOrTable<RawHost>>>,
    /// Which fields tell of the client: `x-forwarded`, `forwarded`, `both` or `none`. Default `x-forwarded`.
    pub(in super::super) forwarded: Option<RawForwarded>,
    /// Whether `X-Forwarded-Port` is one of them: the port that the client has asked. Default false.
    pub(in super::super) forwarded_port: Option<Spanned<bool>>,
    /// Adds `Via`, which tells servers that there is a gateway. Default true. Without it, a loop over several
    /// gateways is found only if another of them adds it.
    pub(in super::super) via: Option<bool>,
    /// How many more servers are tried when a request fails and may be sent again.
    pub(in super::super) retries_max: Option<Spanned<u32>>,
    /// Octets of content that are kept until the response begins, so that the request may be sent again.
    pub(in super::super) replay_bytes_max: Option<Spanned<usize>>,
}

/// Whether servers speak HTTP/2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum RawUpstreamHttp2 {
    No,
    Yes,
    Auto,
}

/// Who is asked for the addresses of names: one of two, or a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in super::super) enum RawResolver {
    Named(RawResolverName),
    Nameservers(RawNameservers),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum RawResolverName {
    Dns,
    System,
}

/// Servers of names, asked in turn until one answers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawNameservers {
    /// `IP:PORT` of each.
    pub(in super::super) nameservers: Spanned<Vec<Spanned<String>>>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum RawProxyVersion {
    V1,
    V2,
}

/// One server: its address, or a table.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawServer {
    /// `IP:PORT`, `NAME:PORT` or `unix:PATH`.
    pub(in super::super) address: String,
    /// How many requests it gets, in relation to the others. Default 1.
    pub(in super::super) weight: Option<Spanned<u32>>,
    /// Whether it gets requests only if no other may. Default no.
    #[serde(default)]
    pub(in super::super) backup: bool,
    /// How many requests it may be answering at a time. Default as for the others.
    pub(in super::super) requests_max: Option<usize>,
}

/// How the next server is found: a name, or a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in super::super) enum RawBalance {
    Named(RawBalanceName),
    Hash(RawHash),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum RawBalanceName {
    RoundRobin,
    LeastConnections,
    RandomOfTwo,
    PeakEwma,
}

/// Requests with the same key go to the same server.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawHash {
    /// `client_address`, `path`, `field:NAME` or `cookie:NAME`.
    pub(in super::super) hash: Spanned<String>,
    /// Hundredths of its share that a server may have to do with.
    pub(in super::super) load_max_percent: Option<Spanned<u32>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawSticky {
    /// The name of the cookie.
    pub(in super::super) cookie: Spanned<String>,
    /// What its values are made with. Default made at the start.
    #[schemars(extend("writeOnly" = true))]
    pub(in super::super) secret: Option<Spanned<String>>,
}

/// What requests do for which no server has room. Defaults are those of `thruway_gateway::QueueConfig`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawQueue {
    /// How many wait; those beyond are answered 503.
    pub(in super::super) length_max: Option<usize>,
    /// For how long; then they are answered 503.
    pub(in super::super) timeout: Option<Spanned<Period>>,
}

/// Which connections wait for the next request, in each worker. Defaults are those of `thruway_gateway::UpstreamConfig`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawPool {
    /// How many to one server; 0 for none: then each request has a connection of its own, also over HTTP/2.
    /// Default 1024.
    pub(in super::super) per_server_max: Option<Spanned<usize>>,
    /// How many in all.
    pub(in super::super) connections_max: Option<Spanned<usize>>,
    /// For how long; then they are closed.
    pub(in super::super) idle_timeout: Option<Spanned<Period>>,
}

/// How many requests may be sent again. Defaults are those of `thruway_gateway::RetryBudget`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawRetryBudget {
    /// Of a hundred requests of the last ten seconds.
    pub(in super::super) percent: Option<Spanned<u32>>,
    /// And so many a second besides.
    pub(in super::super) per_second_min: Option<Spanned<u32>>,
}

/// How servers are asked how they are. Defaults are those of `thruway_gateway::CheckConfig`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawCheck {
    /// What is asked for with `GET`. Without it, only whether a connection is accepted.
    pub(in super::super) path: Option<Spanned<String>>,
    /// What `Host` says. Default the server's address.
    pub(in super::super) host: Option<Spanned<String>>,
    /// Statuses that are good: `204`, `200-399`.
    pub(in super::super) statuses: Option<Spanned<Vec<Spanned<String>>>>,
    /// Text that must be in the content. Default none.
    pub(in super::super) content: Option<String>,
    /// From one time to the next.
    pub(in super::super) interval: Option<Spanned<Period>>,
    /// For an answer.
    pub(in super::super) timeout: Option<Spanned<Period>>,
    /// Good answers in a row that bring a server back.
    pub(in super::super) rise: Option<Spanned<u32>>,
    /// Bad answers in a row that take it out.
    pub(in super::super) fall: Option<Spanned<u32>>,
}

/// When a server that fails gets no more requests. Defaults are those of `thruway_gateway::EjectionConfig`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawEjection {
    /// Failures in a row; 0 for never.
    pub(in super::super) failures: Option<u32>,
    /// Statuses that are failures: `503`, `500-599`.
    pub(in super::super) statuses: Option<Vec<Spanned<String>>>,
    /// For how long, the first time.
    pub(in super::super) time: Option<Spanned<Period>>,
    /// For how long at most.
    pub(in super::super) time_max: Option<Spanned<Period>>,
    /// How many of a hundred servers at the same time.
    pub(in super::super) percent_max: Option<Spanned<u32>>,
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

impl FromText for RawBalance {
    const EXPECTED: &'static str = "a name or a table with `hash`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        RawBalanceName::deserialize(text.into_deserializer()).map(Self::Named)
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        RawHash::deserialize(MapAccessDeserializer::new(table)).map(Self::Hash)
    }
}
