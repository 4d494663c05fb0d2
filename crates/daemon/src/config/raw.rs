//! The config as the file says it. Nothing is looked up and nothing opened here.
//!
//! `examples/serve.toml` shows every key with its default.

mod text_or_table;
mod listeners;
mod rewrite;
mod routes;
mod policies;
mod tls;
mod upstreams;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use super::Failure;
use super::environment;
use super::failure::Source;
use super::filled::Filled;
use super::spanned::Spanned;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::de::{DeTable, Deserializer as TomlDeserializer};

pub(super) use super::acme::RawAcme;
pub(super) use super::compression::RawCompression;
pub(super) use super::proxies::RawProxyFields;
pub(super) use listeners::{RawHttp2, RawListener, RawProxies, RawProxyProtocol, RawTcp};
pub(super) use policies::{
    RawApiKeys, RawBasicAuth, RawCertificates, RawClientCertificate, RawConcurrency, RawCountBy,
    RawCountByHeader, RawCountByName, RawJwt, RawPolicy, RawRateLimit,
};
pub(super) use rewrite::{RawFieldRewrite, RawForwarded, RawHost, RawHostName, RawRewrite};
pub(super) use routes::{
    RawAnswer, RawConnect, RawExpected, RawField, RawFiles, RawMirror, RawRedirect, RawRoute, RawSplit,
};
pub(super) use text_or_table::Period;
pub(super) use text_or_table::{FromText, TextOrTable};
pub(super) use tls::{
    RawCertificate, RawClientCertificates, RawListenerCertificate, RawListenerTls, RawTlsVersion,
    RawUpstreamTls, RawUpstreamTlsOrNot,
};
pub(super) use upstreams::{
    RawBalance, RawBalanceName, RawCheck, RawEjection, RawHash, RawPool, RawProxyVersion, RawQueue,
    RawResolver, RawResolverName, RawRetryBudget, RawServer, RawSticky, RawUpstream, RawUpstreamHttp2,
};

/// A whole file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    /// Worker threads, 1 to 1024. Default one for each core.
    pub(super) workers: Option<Spanned<u64>>,
    /// Connections open at one time; those beyond are answered 503. Default as many as descriptors allow.
    pub(super) connections_max: Option<Spanned<u64>>,
    /// Whether what connections of a worker send in one go is handed to the kernel in one system call (`io_uring`), where it has that. Default
    /// true.
    pub(super) batch_sends: Option<bool>,
    /// Where to listen; at least one.
    #[serde(default)]
    pub(super) listeners: Vec<RawListener>,
    /// From whom certificates are ordered that listeners want to be ordered. Default nobody.
    pub(super) acme: Option<Spanned<RawAcme>>,
    /// Networks of proxies in front that are believed about who asks: `10.0.0.0/8`, an address, or `unix`. Default none.
    #[serde(default)]
    pub(super) trusted_proxies: Vec<Spanned<String>>,
    /// The fields in which they say it: `x-forwarded`, which is the default, or `forwarded`.
    #[serde(default)]
    pub(super) trusted_proxies_write: RawProxyFields,
    /// What is served; at least one.
    #[serde(default)]
    pub(super) routes: Vec<Spanned<RawRoute>>,
    /// What becomes of requests with `%2F` or `%5C` in their path, which some servers take for slashes: `guard`, `reject` or `keep`. Default
    /// `guard`: they are answered 400 if they would then be for a route with a policy that does not stand before theirs.
    #[serde(default)]
    pub(super) encoded_slashes: RawOtherReading,
    /// The same for `;` and what stands behind it in a segment, which some servers pass over.
    #[serde(default)]
    pub(super) path_parameters: RawOtherReading,
    /// Servers that requests are forwarded to, by name.
    #[serde(default)]
    pub(super) upstreams: BTreeMap<String, Spanned<RawUpstream>>,
    /// What is asked of requests before they are answered, by name: routes say the names.
    #[serde(default)]
    pub(super) policies: BTreeMap<String, Spanned<RawPolicy>>,
    /// Where those who operate the server ask and tell it things. Default nowhere.
    pub(super) admin: Option<RawAdmin>,
    /// How responses are compressed on routes that do not say it themselves. Default they are not.
    pub(super) compression: Option<RawCompression>,
    /// A line for each request. Default none.
    pub(super) access_log: Option<RawAccessLog>,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) timeouts: RawTimeouts,
}

/// What becomes of a path that servers may read otherwise.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawOtherReading {
    #[default]
    Guard,
    Keep,
    Reject,
}

/// Where those who operate the server ask and tell it things.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdmin {
    /// `IP:PORT` of this machine, or `unix:PATH`.
    pub(super) address: Spanned<String>,
    /// Whether the address may be one that other machines reach. Whoever reaches it may do everything. Default false.
    #[serde(default)]
    pub(super) allow_remote: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAccessLog {
    /// `common`, `combined` or `json`. Default `combined`.
    #[serde(default)]
    pub(super) format: RawFormat,
    /// A file, or `-` for the standard output, which is the default. Relative to the directory of the config.
    pub(super) path: Option<Spanned<PathBuf>>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawFormat {
    Common,
    #[default]
    Combined,
    Json,
}

/// How much is taken on. Defaults are those of `thruway_server::Limits` and `thruway_server::Config`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    /// Octets of a request target; more is answered 414.
    pub(super) request_target_bytes: Option<Spanned<u32>>,
    /// Octets of a header section; more is answered 431.
    pub(super) header_section_bytes: Option<Spanned<u32>>,
    /// Field lines in a header or trailer section; more is answered 431.
    pub(super) field_lines: Option<Spanned<u32>>,
    /// Octets of content; more is answered 413.
    pub(super) content_bytes: Option<u64>,
    /// Octets that chunks may take beyond their data; more is answered 400.
    pub(super) chunk_extension_bytes: Option<Spanned<u32>>,
    /// Octets of a trailer section; more is answered 431.
    pub(super) trailer_section_bytes: Option<Spanned<u32>>,
    /// Requests on one connection; 0 for no limit.
    pub(super) requests_per_connection: Option<u64>,
    /// Requests of one connection that are answered at the same time.
    pub(super) pipelined_requests: Option<Spanned<usize>>,
    /// Octets of answers that wait for a client to read them.
    pub(super) output_bytes: Option<Spanned<usize>>,
    /// Octets of content read ahead of who takes them.
    pub(super) content_window_bytes: Option<Spanned<usize>>,
    /// Octets of content nobody wants that are read all the same, to keep the connection.
    pub(super) discard_bytes: Option<u64>,
    /// Streams of a connection of HTTP/2 at a time; those beyond are refused, and may be sent again.
    pub(super) concurrent_streams: Option<Spanned<u32>>,
    /// Octets of content that a client may send on a stream of HTTP/2 before it is read.
    pub(super) stream_window_bytes: Option<Spanned<u32>>,
}

/// How long is waited for what: `10s`, `1m 30s`, `500ms`. Defaults are those of `thruway_server::Timeouts`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTimeouts {
    /// For the header section of a request that has begun.
    pub(super) header_section: Option<Spanned<Period>>,
    /// Maximum time that a client may fall behind with a request body.
    pub(super) content: Option<Spanned<Period>>,
    /// Minimum rate of a request body, in bytes per second. A slower body falls behind.
    pub(super) content_rate_min: Option<NonZeroU64>,
    /// For the next request.
    pub(super) idle: Option<Spanned<Period>>,
    /// For an answer to a client that has closed its sending side: then it is taken for gone.
    pub(super) half_closed: Option<Spanned<Period>>,
    /// For a client that does not read.
    pub(super) write_stall: Option<Spanned<Period>>,
    /// For a client to read the last answer and close.
    pub(super) linger: Option<Spanned<Period>>,
    /// For all connections to end, once the server is asked to.
    pub(super) drain: Option<Spanned<Period>>,
}

/// Reads the text of a config, and fills in what comes from the environment.
pub(super) fn parse(source: &Source) -> Result<Raw, Failure> {
    let mut table = DeTable::parse(&source.text).map_err(|error| refusal(source, &error))?;
    let filled = source.keep_filled(environment::fill_in(table.get_mut(), source)?);
    read(table, filled, source)
}

/// Reads a table in which texts were filled in: they stay texts until something else is asked for.
fn read<'f>(
    mut table: toml::Spanned<DeTable<'f>>,
    filled: &'f Filled,
    source: &Source,
) -> Result<Raw, Failure> {
    loop {
        let error = match Raw::deserialize(TomlDeserializer::from(table.clone())) {
            Ok(raw) => return Ok(raw),
            Err(error) => error,
        };
        let place = error.span().unwrap_or_default();
        if filled.retype(table.get_mut(), &place) {
            continue;
        }
        let is_of_other_type = filled.is_at(&place) && error.message().starts_with("invalid type");
        let failure = refusal(source, &error);
        return Err(if is_of_other_type { failure.with_hint(FILLED_HINT) } else { failure });
    }
}

fn refusal(source: &Source, error: &toml::de::Error) -> Failure {
    let span = error.span().unwrap_or(0..0);
    if let Some(unknown) = Unknown::from_message(error.message()) {
        return source.failure(span, unknown.message()).with_hint(unknown.hint());
    }
    let message = without_value(error.message(), source.hides(&span));
    let failure = source.failure(span, without_types(&message));
    match hint_about_type(error.message()) {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// What was probably meant by a value of another type.
fn hint_about_type(message: &str) -> Option<&'static str> {
    let (found, expected) = message.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    match (found.split(' ').next()?, expected.split(' ').next()?) {
        ("map", "a") if expected.starts_with("a sequence") => {
            Some("of these there may be several: write `[[…]]`")
        }
        ("integer" | "floating", "a") => Some("texts and durations stand in quotes: `\"30s\"`"),
        ("string", "u16" | "u32" | "u64" | "usize") => {
            Some("numbers stand without quotes and without a unit")
        }
        _ => None,
    }
}

/// A text that stands where something else belongs may be a secret, and so may be what is hidden: the excerpt shows what may be shown.
fn without_value(message: &str, is_hidden: bool) -> Cow<'_, str> {
    if is_hidden
        && let Some((found, expected)) = message.split_once(", expected ")
        && let Some((kind, _)) = found.split_once(" `")
    {
        return format!("{kind}, expected {expected}").into();
    }
    let found = ["invalid type: string ", "invalid value: string "]
        .iter()
        .find(|start| message.starts_with(*start))
        .zip(message.rfind(", expected "));
    match found {
        Some((start, end)) if start.len() <= end => format!("{}{}", start.trim_end(), &message[end..]).into(),
        _ => message.into(),
    }
}

/// Returns `message` in the words of TOML: the names of Rust's types mean nothing to the author of a config.
fn without_types(message: &str) -> Cow<'_, str> {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.into() };
    let found = found.replace("invalid type: map", "invalid type: table");
    let found = found.replace("invalid type: sequence", "invalid type: array");
    format!("{found}, expected {}", in_words_of_toml(expected)).into()
}

/// Returns the name of a type of serde as an author of a config knows it.
fn in_words_of_toml(expected: &str) -> &str {
    let is_struct = ["struct ", "a map", "map"].iter().any(|start| expected.starts_with(start));
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 on",
        "a nonzero u64" => "a whole number from 1 on",
        "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "path string" => "a path",
        "a sequence" => "an array",
        _ if is_struct => "a table",
        _ if expected.contains("enum") || expected.contains("variant") => "a string",
        _ => expected,
    }
}

/// A key or a value that is not one of those expected.
struct Unknown<'m> {
    what: &'static str,
    name: &'m str,
    expected: Vec<&'m str>,
}

impl<'m> Unknown<'m> {
    /// Reads what serde says: ``unknown field `adress`, expected `address` or …``.
    fn from_message(message: &'m str) -> Option<Self> {
        let (what, rest) = match message.strip_prefix("unknown field ") {
            Some(rest) => ("key", rest),
            None => ("value", message.strip_prefix("unknown variant ")?),
        };
        let mut quoted = rest.split('`').skip(1).step_by(2);
        Some(Self { what, name: quoted.next()?, expected: quoted.collect() })
    }

    fn message(&self) -> String {
        format!("unknown {} `{}`", self.what, self.name)
    }

    /// The name that was probably meant, or else all there are.
    fn hint(&self) -> String {
        let meant = self
            .expected
            .iter()
            .map(|name| (strsim::jaro_winkler(self.name, name), name))
            .filter(|(likeness, _)| *likeness > LIKENESS_MIN)
            .max_by(|(one, _), (other, _)| one.total_cmp(other));
        match meant {
            Some((_, name)) => format!("did you mean `{name}`?"),
            None => format!("possible here: `{}`", self.expected.join("`, `")),
        }
    }
}

/// Where a value of another type was filled in.
const FILLED_HINT: &str =
    "this is what the environment says: numbers stand there without a unit, and `true` or `false`";

/// One letter more, less or exchanged in a short name.
const LIKENESS_MIN: f64 = 0.8;
