//! Timeouts of a forwarded request. A route can override the timeouts of its upstream.

use std::time::Duration;

use thruway_client::Timeouts;
use thruway_server::Response;

use crate::UpstreamConfig;

/// Timeouts of a route. Each timeout that is set overrides a timeout of the upstream.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ForwardTimeouts {
    /// Overrides [`Timeouts::head`].
    pub head: Option<Duration>,
    /// Overrides [`Timeouts::content_idle`].
    pub content_idle: Option<Duration>,
    /// Overrides [`UpstreamConfig::event_stream_idle`].
    pub event_stream_idle: Option<Duration>,
    /// Overrides [`Timeouts::total`].
    pub total: Option<Duration>,
}

impl ForwardTimeouts {
    /// Returns the timeouts of one exchange. `left` is the remaining time of the whole request, or `None`
    /// without a total timeout.
    pub(super) fn of_exchange(self, upstream: &UpstreamConfig, left: Option<Duration>) -> Timeouts {
        let timeouts = upstream.exchange.timeouts;
        Timeouts {
            head: self.head.unwrap_or(timeouts.head),
            content_idle: self.content_idle.unwrap_or(timeouts.content_idle),
            total: left,
            ..timeouts
        }
    }

    /// Returns the maximum time without a byte in an event stream. Long pauses are normal there.
    pub(super) fn of_event_stream(self, upstream: &UpstreamConfig) -> Duration {
        self.event_stream_idle.unwrap_or(upstream.event_stream_idle)
    }

    /// Returns the total timeout of the request, or `None` if the time is not limited.
    pub(super) fn total(self, upstream: &UpstreamConfig) -> Option<Duration> {
        self.total.or(upstream.exchange.timeouts.total)
    }
}

/// Returns `true` if `response` is an event stream (`text/event-stream`).
pub(super) fn is_event_stream(response: &Response) -> bool {
    let value = response.field("content-type");
    let media_type = value.and_then(|value| value.as_bytes().split(|byte| *byte == b';').next());
    media_type.is_some_and(|media_type| media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_stream_is_recognized_by_media_type() {
        for (value, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream ; charset=utf-8", true),
            ("text/event-streams", false),
            ("text/plain; a=text/event-stream", false),
        ] {
            let response = Response::new(thruway_server::StatusCode::OK).with_field("Content-Type", value);
            assert_eq!(is_event_stream(&response), expected, "{value}");
        }
    }
}
