//! How long a request may take: as its upstream says, unless its route says otherwise.

use std::time::Duration;

use thruway_client::Timeouts;
use thruway_server::Response;

use crate::UpstreamConfig;

/// How long to wait for what on a route, where that is not as its upstream says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ForwardTimeouts {
    /// In the place of [`Timeouts::head`].
    pub head: Option<Duration>,
    /// In the place of [`Timeouts::content_idle`].
    pub content_idle: Option<Duration>,
    /// In the place of [`UpstreamConfig::event_stream_idle`].
    pub event_stream_idle: Option<Duration>,
    /// In the place of [`Timeouts::total`].
    pub total: Option<Duration>,
}

impl ForwardTimeouts {
    /// How long one exchange waits, when so much is `left` of the time of the whole request.
    pub(super) fn of_exchange(self, upstream: &UpstreamConfig, left: Option<Duration>) -> Timeouts {
        let timeouts = upstream.exchange.timeouts;
        Timeouts {
            head: self.head.unwrap_or(timeouts.head),
            content_idle: self.content_idle.unwrap_or(timeouts.content_idle),
            total: left,
            ..timeouts
        }
    }

    /// How long a response without an octet is waited for that is a stream of events: such a server may have
    /// nothing to say.
    pub(super) fn of_event_stream(self, upstream: &UpstreamConfig) -> Duration {
        self.event_stream_idle.unwrap_or(upstream.event_stream_idle)
    }

    /// How long the whole request may take.
    pub(super) fn total(self, upstream: &UpstreamConfig) -> Option<Duration> {
        self.total.or(upstream.exchange.timeouts.total)
    }
}

/// Whether the content of `response` is a stream of events.
pub(super) fn is_event_stream(response: &Response) -> bool {
    let value = response.field("content-type");
    let media_type = value.and_then(|value| value.as_bytes().split(|octet| *octet == b';').next());
    media_type.is_some_and(|media_type| media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_events_is_known_by_its_media_type() {
        for (value, is) in [
            ("text/event-stream", true),
            ("Text/Event-Stream ; charset=utf-8", true),
            ("text/event-streams", false),
            ("text/plain; a=text/event-stream", false),
        ] {
            let response = Response::new(thruway_server::StatusCode::OK).with_field("Content-Type", value);
            assert_eq!(is_event_stream(&response), is, "{value}");
        }
    }
}
