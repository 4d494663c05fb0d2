//! The tables `split` and `mirror` of routes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{FieldRewrite, MirrorConfig};

use crate::config::Upstreams;
use crate::config::forward::{ForwardTo, MirrorAction, SplitBy};
use crate::config::resolver::Resolver;
use crate::config::rewrite::refuse_rewrite;
use crate::config::upstreams::balance::resolve_hash_by;
use crate::config::upstreams::known_upstream;
use crate::config::values::{Span, Spanned};

/// Upstreams that share the requests of a route.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawSplit {
    /// Relative share of each upstream, 0 to 1000000: `{ NAME = WEIGHT }`.
    pub(in crate::config) upstreams: BTreeMap<Spanned<String>, Spanned<u32>>,
    /// Key that selects the upstream: `client_address`, `path`, `header:NAME` or `cookie:NAME`. Requests
    /// with the same value of the key go to the same upstream. Requests without the key go to a random
    /// upstream. Default: none, the selection is random.
    pub(in crate::config) by: Option<Spanned<String>>,
}

/// An upstream that gets copies of requests. Thruway discards the responses of this upstream.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMirror {
    /// Name of the upstream.
    pub(in crate::config) upstream: Spanned<String>,
    /// Share of requests that Thruway copies, 0 to 1. Default: 1.
    pub(in crate::config) share: Option<Spanned<f64>>,
    /// Maximum number of copies in flight. Thruway copies no further requests while this number of copies
    /// is in flight. Default: 100.
    pub(in crate::config) requests_max: Option<usize>,
    /// Names of headers that Thruway removes from copies. Risk of the default: a copy has all headers of
    /// the request, including `Authorization`, `Cookie` and API keys. Set `["Authorization", "Cookie"]` if
    /// the mirror must not get credentials. Default: none.
    #[serde(default)]
    pub(in crate::config) remove: Vec<Spanned<String>>,
}

pub(in crate::config) fn resolve_split(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawSplit>,
    upstreams: &Upstreams,
) -> Option<ForwardTo> {
    let span = raw.span();
    let RawSplit { upstreams: sides, by } = raw.into_inner();
    check_weights(resolver, &span, sides.values().map(|weight| *weight.get_ref()));
    let sides = sides.into_iter().map(|(name, weight)| {
        let weight = resolver.or(Some(weight), 0, 0..=WEIGHT_MAX);
        known_upstream(resolver, &name, upstreams).map(|name| (name, weight))
    });
    let sides: Option<Vec<_>> = sides.collect();
    let by = by.map(|by| SplitBy { key: resolve_hash_by(resolver, &by), text: by.into_inner() });
    Some(ForwardTo::Split { sides: sides?, by })
}

fn check_weights(resolver: &mut Resolver<'_>, span: &Span, weights: impl Iterator<Item = u32>) {
    if weights.map(u64::from).sum::<u64>() == 0 {
        resolver.refuse_at(span, "`split` needs an upstream with a weight above 0");
    }
}

pub(in crate::config) fn resolve_mirror(
    resolver: &mut Resolver<'_>,
    raw: RawMirror,
    upstreams: &Upstreams,
) -> Option<MirrorAction> {
    let default = MirrorConfig::default();
    let share_millionths =
        raw.share.map_or(default.share_millionths, |share| resolve_share(resolver, &share));
    let requests_max = raw.requests_max.unwrap_or(default.requests_max);
    for name in &raw.remove {
        if let Err(error) = FieldRewrite::default().withhold(name.get_ref()) {
            refuse_rewrite(resolver, name, error, "");
        }
    }
    let removed = raw.remove.into_iter().map(Spanned::into_inner).collect();
    let upstream = known_upstream(resolver, &raw.upstream, upstreams)?;
    Some(MirrorAction { upstream, config: MirrorConfig { share_millionths, requests_max }, removed })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a weight must be from 0 to 1000000"
)]
fn resolve_share(resolver: &mut Resolver<'_>, raw: &Spanned<f64>) -> u32 {
    if !(0.0..=1.0).contains(raw.get_ref()) {
        resolver.refuse_with(raw, "the value must be from 0 to 1", "a tenth of all requests is `0.1`");
    }
    (raw.get_ref() * 1_000_000.0).round() as u32
}

const WEIGHT_MAX: u32 = 1_000_000;
