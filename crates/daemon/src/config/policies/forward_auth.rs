//! The key `forward_auth` of policies: external authorization.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::ForwardAuthConfig;

use crate::config::Upstreams;
use crate::config::policies::headers::resolve_user_field;
use crate::config::resolver::{Resolver, SOME_PERIOD, is_path_byte};
use crate::config::upstreams::known_upstream;
use crate::config::values::{Period, Spanned};

/// An authorization server that decides about each request.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawForwardAuth {
    /// Upstream with the authorization servers. Thruway sends a GET request without a body for each request of
    /// a client. This request has the headers of the client, and `X-Forwarded-Method`, `-Uri`, `-Host`,
    /// `-Proto` and `-For`. A response with status 2xx admits the request. The client gets all other responses.
    upstream: Spanned<String>,
    /// Path of the requests to the authorization servers, with an optional query. Default: `/`.
    path: Option<Spanned<String>>,
    /// Headers that Thruway copies from a response with status 2xx to the client's request. Thruway removes
    /// these headers from requests of clients. Default: none.
    #[serde(default)]
    headers: Vec<Spanned<String>>,
    /// Maximum time of a request to the authorization servers, with its retries. After this time, the client
    /// gets 504. Default: 5s.
    timeout: Option<Spanned<Period>>,
}

pub(in crate::config) fn resolve_forward_auth(
    resolver: &mut Resolver<'_>,
    raw: RawForwardAuth,
    upstreams: &Upstreams,
) -> Option<ForwardAuthConfig> {
    let RawForwardAuth { upstream, path, headers, timeout } = raw;
    let before = resolver.failures.len();
    let upstream = known_upstream(resolver, &upstream, upstreams);
    if let Some(path) = &path {
        let text = path.get_ref();
        if !text.starts_with('/')
            || text.starts_with("//")
            || !text.chars().all(|c| c == '?' || is_path_byte(c))
        {
            let message = "a path begins with one slash, and is percent-encoded";
            resolver.refuse_with(path, message, "write `/verify` or `/verify?site=a`");
        }
    }
    let fields: Vec<_> =
        headers.into_iter().filter_map(|name| resolve_user_field(resolver, Some(name))).collect();
    let timeout = resolver.or(timeout, Period(TIMEOUT), SOME_PERIOD).0;
    let path = path.map_or_else(|| "/".to_owned(), Spanned::into_inner);
    (resolver.failures.len() == before).then_some(ForwardAuthConfig {
        upstream: upstream?,
        path,
        fields,
        timeout,
    })
}

const TIMEOUT: Duration = Duration::from_secs(5);
