//! What is said in vain: of upstreams of streams what only requests have, and upstreams and policies that nothing uses.

use std::collections::BTreeMap;

use crate::config::raw::RawUpstream;
use crate::config::resolver::Resolver;
use crate::config::spanned::Spanned;
use crate::config::usage::{forwards_to, goes_to};
use crate::config::{ListenerConfig, Route, Span};

/// What is said of an upstream and makes a difference to requests only.
pub(super) struct AboutRequests {
    upstream: String,
    span: Span,
    keys: Vec<&'static str>,
}

impl AboutRequests {
    /// Of all upstreams of which there is something of that kind.
    pub(super) fn of(upstreams: &BTreeMap<String, Spanned<RawUpstream>>) -> Vec<Self> {
        let said = upstreams.iter().map(|(name, raw)| {
            let (span, raw) = (raw.span(), raw.get_ref());
            let keys = [
                ("host", raw.host.is_some()),
                ("forwarded", raw.forwarded.is_some()),
                ("forwarded_port", raw.forwarded_port.is_some()),
                ("via", raw.via.is_some()),
                ("ejection.statuses", raw.ejection.statuses.is_some()),
                ("head_timeout", raw.head_timeout.is_some()),
                ("content_idle_timeout", raw.content_idle_timeout.is_some()),
                ("event_stream_idle_timeout", raw.event_stream_idle_timeout.is_some()),
                ("write_stall_timeout", raw.write_stall_timeout.is_some()),
                ("total_timeout", raw.total_timeout.is_some()),
                ("replay_bytes_max", raw.replay_bytes_max.is_some()),
            ];
            let keys = keys.into_iter().filter_map(|(key, is_said)| is_said.then_some(key)).collect();
            Self { upstream: name.clone(), span, keys }
        });
        said.filter(|about| !about.keys.is_empty()).collect()
    }
}

/// Refuses what is said in vain. To be called when there is nothing else wrong: otherwise not all routes may be here.
pub(super) fn check_usage(
    resolver: &mut Resolver<'_>,
    said: Vec<AboutRequests>,
    listeners: &[ListenerConfig],
    routes: &[Route],
) {
    for AboutRequests { upstream, span, keys } in said {
        let has_streams = listeners.iter().any(|listener| forwards_to(listener, &upstream));
        if has_streams && !routes.iter().any(|route| goes_to(route, &upstream)) {
            let message =
                format!("`{}` is about requests, and this upstream has only streams", keys.join("`, `"));
            let failure = resolver.source.failure(span, message);
            resolver
                .failures
                .push(failure.with_hint("listeners with `tcp` forward octets as they are: leave it out"));
        }
    }
}
