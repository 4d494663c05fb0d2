//! Upstreams of streams, of which something is said that only requests have.

use std::collections::BTreeMap;

use super::Resolver;
use crate::config::forward::{ForwardAction, ForwardTo};
use crate::config::raw::RawUpstream;
use crate::config::spanned::Spanned;
use crate::config::{Action, ListenerConfig, Route, Span};

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

impl Resolver<'_> {
    /// Refuses what is said in vain. To be called when there is nothing else wrong: otherwise not all routes may be here.
    pub(super) fn check_usage(
        &mut self,
        said: Vec<AboutRequests>,
        listeners: &[ListenerConfig],
        routes: &[Route],
    ) {
        for AboutRequests { upstream, span, keys } in said {
            let is_of_streams = listeners.iter().filter_map(|listener| listener.tcp.as_ref());
            let has_streams = is_of_streams.map(|tcp| &tcp.upstream).any(|name| *name == upstream);
            if has_streams && !routes.iter().any(|route| goes_to(route, &upstream)) {
                let message =
                    format!("`{}` is about requests, and this upstream has only streams", keys.join("`, `"));
                let failure = self.source.failure(span, message);
                self.failures
                    .push(failure.with_hint("listeners with `tcp` forward octets as they are: leave it out"));
            }
        }
    }
}

/// Whether requests of `route`, or copies of them, are for this upstream.
fn goes_to(route: &Route, upstream: &str) -> bool {
    let Action::Forward(action) = &route.action else { return false };
    let ForwardAction { to, mirror, .. } = &**action;
    let is_there = match to {
        ForwardTo::Upstream(name) => name == upstream,
        ForwardTo::Split { sides, .. } => sides.iter().any(|(name, _)| name == upstream),
    };
    is_there || mirror.as_ref().is_some_and(|mirror| mirror.upstream == upstream)
}
