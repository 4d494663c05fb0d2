//! Which upstreams have a share in the requests of a route, as the file says it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::spanned::Spanned;

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
