//! Routes as the file says them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Period, RawCompression, RawRewrite};
use crate::config::spanned::Spanned;

/// Which requests, and what happens to them: one of the paths, and exactly one action.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("allOf" = one_of_each(&[&PATHS, &ACTIONS])))]
pub(in super::super) struct RawRoute {
    /// `example.com`, or `*.example.com` for all hosts below; without a port. Default any.
    pub(in super::super) host: Option<Spanned<String>>,
    /// This path and all below it.
    pub(in super::super) path: Option<Spanned<String>>,
    /// This path only.
    pub(in super::super) path_exact: Option<Spanned<String>>,
    /// The paths of this shape: `/users/{id}`, `/static/{*rest}`.
    pub(in super::super) path_pattern: Option<Spanned<String>>,
    /// The methods; `GET` includes `HEAD`. Default all.
    pub(in super::super) methods: Option<Spanned<Vec<Spanned<String>>>>,
    /// Header fields that must be there: `{ NAME = "value" }`, or `{ NAME = true }` for any value.
    #[serde(default)]
    pub(in super::super) headers: BTreeMap<Spanned<String>, Spanned<RawExpected>>,
    /// Parameters of the query that must be there, as `headers`.
    #[serde(default)]
    pub(in super::super) query: BTreeMap<Spanned<String>, Spanned<RawExpected>>,
    /// Policies that a request must pass first, in this order. Default none.
    #[serde(default)]
    pub(in super::super) policies: Vec<Spanned<String>>,
    /// How responses are compressed: `true`, `false`, or a table. Default as the whole server says it.
    pub(in super::super) compression: Option<RawCompression>,
    /// Action: the same answer for everybody.
    pub(in super::super) answer: Option<RawAnswer>,
    /// Action: tunnels to where clients name, for CONNECT.
    pub(in super::super) connect: Option<Spanned<RawConnect>>,
    /// Action: the endpoints of the demo.
    pub(in super::super) demo: Option<bool>,
    /// Action: a directory of files.
    pub(in super::super) files: Option<RawFiles>,
    /// Action: the MCP endpoint of the demo.
    pub(in super::super) mcp: Option<bool>,
    /// Action: another place to ask at.
    pub(in super::super) redirect: Option<RawRedirect>,
    /// Action: upstreams that share the requests, as for canaries.
    pub(in super::super) split: Option<Spanned<RawSplit>>,
    /// Action: the name of an upstream that answers.
    pub(in super::super) upstream: Option<Spanned<String>>,
    /// With `split` or `upstream`: what is changed on the way. Default nothing.
    pub(in super::super) rewrite: Option<Spanned<RawRewrite>>,
    /// With `split` or `upstream`: where copies of requests are sent. Default nowhere.
    pub(in super::super) mirror: Option<Spanned<RawMirror>>,
    /// With `split` or `upstream`, in the place of what the upstream says.
    pub(in super::super) head_timeout: Option<Spanned<Period>>,
    /// With `split` or `upstream`, in the place of what the upstream says.
    pub(in super::super) content_idle_timeout: Option<Spanned<Period>>,
    /// With `split` or `upstream`, in the place of what the upstream says.
    pub(in super::super) event_stream_idle_timeout: Option<Spanned<Period>>,
    /// With `split` or `upstream`, in the place of what the upstream says.
    pub(in super::super) total_timeout: Option<Spanned<Period>>,
}

/// What must be there.
pub(in super::super) enum RawExpected {
    /// With any value: `true`.
    Any,
    /// With this value.
    Value(String),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawRedirect {
    /// `https://…`, `http://…` or `/…`, with the places `{host}`, `{path}`, `{query}` and `{rest}`.
    pub(in super::super) to: Spanned<String>,
    /// 301, 302, 303, 307 or 308. Default 308.
    pub(in super::super) status: Option<Spanned<u16>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawAnswer {
    /// 200 to 599. Default 200.
    pub(in super::super) status: Option<Spanned<u16>>,
    /// Default `text/plain; charset=utf-8` where there is content.
    pub(in super::super) content_type: Option<Spanned<String>>,
    /// Default none.
    pub(in super::super) content: Option<Spanned<String>>,
    /// More field lines: `{ name = "…", value = "…" }`. Those that the server writes itself are refused.
    #[serde(default)]
    pub(in super::super) fields: Vec<RawField>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawField {
    pub(in super::super) name: Spanned<String>,
    pub(in super::super) value: Spanned<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawFiles {
    /// The directory; relative to that of the config.
    pub(in super::super) root: PathBuf,
    /// What is served for a directory. Default `index.html`.
    pub(in super::super) index: Option<Spanned<String>>,
    /// Whether `.br`, `.zst` and `.gz` beside a file are sent to those who take them. Default true.
    pub(in super::super) precompressed: Option<bool>,
    /// Whether files are served whose names begin with a dot. Default false.
    #[serde(default)]
    pub(in super::super) hidden_files: bool,
    /// The value of `Cache-Control`. Default none.
    pub(in super::super) cache_control: Option<Spanned<String>>,
}

impl<'de> Deserialize<'de> for RawExpected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ExpectedVisitor;
        impl Visitor<'_> for ExpectedVisitor {
            type Value = RawExpected;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or `true` for any")
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<RawExpected, E> {
                Ok(RawExpected::Value(value.to_owned()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<RawExpected, E> {
                if value { Ok(RawExpected::Any) } else { Err(E::custom("what is not asked for is left out")) }
            }
        }
        deserializer.deserialize_any(ExpectedVisitor)
    }
}

impl JsonSchema for RawExpected {
    fn schema_name() -> Cow<'static, str> {
        "Expected".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "const": true }] })
    }
}

const PATHS: [&str; 3] = ["path", "path_exact", "path_pattern"];
const ACTIONS: [&str; 8] = ["answer", "connect", "demo", "files", "mcp", "redirect", "split", "upstream"];

/// Upstreams that share the requests of a route.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawSplit {
    /// `{ NAME = WEIGHT }`: how many requests each gets in relation to the others, 0 to 1000000.
    pub(in super::super) upstreams: BTreeMap<Spanned<String>, Spanned<u32>>,
    /// What keeps a client on its side: `client_address`, `path`, `field:NAME` or `cookie:NAME`. Default nothing.
    pub(in super::super) by: Option<Spanned<String>>,
}

/// An upstream that gets copies of requests. Its responses are discarded.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawMirror {
    /// Its name.
    pub(in super::super) upstream: Spanned<String>,
    /// How much of all requests, 0 to 1. Default 1.
    pub(in super::super) share: Option<Spanned<f64>>,
    /// How many copies are under way at a time; no more are made then. Default 100.
    pub(in super::super) requests_max: Option<usize>,
    /// Names of headers that copies do not have. Default none: copies have the headers of the request, with
    /// `Authorization`, `Cookie` and API keys. If the mirror may not see credentials, remove them:
    /// `["Authorization", "Cookie"]`.
    #[serde(default)]
    pub(in super::super) remove: Vec<Spanned<String>>,
}

/// Tunnels that clients ask for with CONNECT. Defaults are those of `thruway_gateway::ConnectConfig`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawConnect {
    /// The hosts that may be named, at least one: `example.com`, `*.example.com`, an address, or `*` for any.
    pub(in super::super) hosts: Spanned<Vec<Spanned<String>>>,
    /// The ports that may be named. Default 443.
    pub(in super::super) ports: Option<Spanned<Vec<Spanned<u16>>>>,
    /// Networks that may be reached although their addresses are not of the whole internet, or are this machine's: `10.1.0.0/16`. Default none.
    #[serde(default)]
    pub(in super::super) private: Vec<Spanned<String>>,
    /// Whether tunnels may lead to listeners of this server too, as far as `private` lets them. Default no.
    #[serde(default)]
    pub(in super::super) own_listeners: bool,
    /// For the name of the host to be resolved and the connection to be accepted.
    pub(in super::super) connect_timeout: Option<Spanned<Period>>,
    /// Without an octet in either direction; then the tunnel is closed.
    pub(in super::super) idle_timeout: Option<Spanned<Period>>,
}

/// Of each of these groups of keys, exactly one must be there.
fn one_of_each(groups: &[&[&str]]) -> Vec<Schema> {
    let one_of = |keys: &&[&str]| {
        let each: Vec<Schema> = keys.iter().map(|key| json_schema!({ "required": [key] })).collect();
        json_schema!({ "oneOf": each })
    };
    groups.iter().map(one_of).collect()
}
