//! The key `response_rules` of routes and listeners: changes to the headers of responses. The key `bandwidth` of routes:
//! the rate of response bodies.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{ResponseRule, ResponseRules, RoutePaths, StatusRange};
use thruway_server::layers::{Bandwidth, MediaType};

use super::resolver::Resolver;
use super::rewrite::{RawFieldRewrite, resolve_field_rewrite};
use super::upstreams::health::resolve_statuses as resolve_status_ranges;
use super::values::Spanned;

/// Changes to the headers of responses. Thruway removes, sets and adds headers, in this order. Values can
/// contain the placeholders of `rewrite.response`, except `{request_id}`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawResponseRule {
    /// Headers to set: `{ NAME = "value" }`. The new value replaces all previous values of the header.
    /// Default: none.
    #[serde(default)]
    set: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Headers to add: `{ NAME = "value" }`. Thruway keeps the previous values of the header. Default: none.
    #[serde(default)]
    add: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Names of headers to remove. Default: none.
    #[serde(default)]
    remove: Vec<Spanned<String>>,
    /// Media types of the responses to change: `text/html`, `image/*` or `*+json`. Responses without
    /// `Content-Type`, such as 304, have no type. Default: all responses.
    types: Option<Spanned<Vec<Spanned<String>>>>,
    /// Statuses of the responses to change, such as `200` or `400-599`. Default: all.
    statuses: Option<Spanned<Vec<Spanned<String>>>>,
}

/// Resolves the rules of a listener, or of a route with these paths.
pub(super) fn resolve_response_rules(
    resolver: &mut Resolver<'_>,
    raw: Vec<Spanned<RawResponseRule>>,
    paths: RoutePaths<'_>,
) -> Option<Arc<ResponseRules>> {
    let rules: Vec<_> = raw.into_iter().map(|rule| resolve_rule(resolver, rule, paths)).collect();
    (!rules.is_empty()).then(|| Arc::new(ResponseRules::new(rules)))
}

fn resolve_rule(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawResponseRule>,
    paths: RoutePaths<'_>,
) -> ResponseRule {
    let span = raw.span();
    let refuse = |resolver: &mut Resolver<'_>, message: &str, hint: &str| {
        let failure = resolver.source.failure(span.clone(), message);
        resolver.failures.push(failure.with_hint(hint));
    };
    let RawResponseRule { set, add, remove, types, statuses } = raw.into_inner();
    if set.is_empty() && add.is_empty() && remove.is_empty() {
        refuse(resolver, "this rule changes no header", "add `set`, `add` or `remove`");
    }
    let fields = resolve_field_rewrite(resolver, &RawFieldRewrite { set, add, remove }, paths);
    if fields.uses_request_id() {
        let message = "`{request_id}` is not available here, because only forwarded requests have an id";
        refuse(resolver, message, "use `rewrite.response` of a route with `split` or `upstream`");
    }
    ResponseRule {
        fields,
        statuses: resolve_statuses(resolver, statuses.as_ref()),
        types: resolve_types(resolver, types.as_ref()),
    }
}

fn resolve_statuses(
    resolver: &mut Resolver<'_>,
    raw: Option<&Spanned<Vec<Spanned<String>>>>,
) -> Vec<StatusRange> {
    let Some(raw) = raw else { return Vec::new() };
    resolver.refuse_empty(raw, "`statuses` is empty", "remove `statuses` to change all responses");
    resolve_status_ranges(resolver, raw.get_ref())
}

fn resolve_types(resolver: &mut Resolver<'_>, raw: Option<&Spanned<Vec<Spanned<String>>>>) -> Vec<MediaType> {
    let Some(raw) = raw else { return Vec::new() };
    resolver.refuse_empty(raw, "`types` is empty", "remove `types` to change all responses");
    let mut parse = |text: &Spanned<String>| match MediaType::parse(text.get_ref()) {
        Ok(media_type) => Some(media_type),
        Err(error) => {
            resolver.refuse_with(text, error, "write `text/html`, `image/*` or `*+json`");
            None
        }
    };
    raw.get_ref().iter().filter_map(&mut parse).collect()
}

/// The rate at which Thruway sends the body of each response.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBandwidth {
    /// Maximum number of bytes per second of each response, 1024 to 1000000000000. Responses of the same client do not
    /// share the rate. Combine this key with a `concurrency` policy to limit a client.
    bytes_per_second: Spanned<u64>,
    /// Number of bytes at the start of each body that Thruway sends without a limit, 0 to 1000000000000. Default: 0.
    after_bytes: Option<Spanned<u64>>,
}

pub(super) fn resolve_bandwidth(resolver: &mut Resolver<'_>, raw: RawBandwidth) -> Bandwidth {
    let RawBandwidth { bytes_per_second, after_bytes } = raw;
    let min = Bandwidth::BYTES_PER_SECOND_MIN;
    let bytes_per_second = resolver.or(Some(bytes_per_second), min, min..=BYTES_MAX);
    Bandwidth::new(bytes_per_second).after(resolver.or(after_bytes, 0, 0..=BYTES_MAX))
}

const BYTES_MAX: u64 = 1_000_000_000_000;
