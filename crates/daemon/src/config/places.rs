//! Where upstreams and policies stand in the file: for what is said of them when all of it is known.

use std::collections::BTreeMap;

use super::Span;
use super::raw::Raw;

/// Where upstreams, their servers and policies stand, by names.
#[derive(Default)]
pub(super) struct Places {
    pub(super) upstreams: BTreeMap<String, UpstreamPlaces>,
    pub(super) policies: BTreeMap<String, Span>,
}

/// Where an upstream stands, and its servers in their order.
pub(super) struct UpstreamPlaces {
    pub(super) span: Span,
    pub(super) servers: Vec<Span>,
}

impl Places {
    pub(super) fn of(raw: &Raw) -> Self {
        let upstreams = raw.upstreams.iter().map(|(name, upstream)| {
            let servers = upstream.get_ref().servers.iter().map(|server| server.span()).collect();
            (name.clone(), UpstreamPlaces { span: upstream.span(), servers })
        });
        let policies = raw.policies.iter().map(|(name, policy)| (name.clone(), policy.span()));
        Self { upstreams: upstreams.collect(), policies: policies.collect() }
    }
}
