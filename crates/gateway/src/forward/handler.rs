//! The handler that forwards requests. When called, the handler prepares the request to the upstream. It
//! returns a future, which sends the request and waits for the response.

use std::sync::Arc;
use std::time::Duration;

use thruway_message::Method;
use thruway_server::{Answer, FieldValue, Handler, Request, Response, StatusCode};

use super::buffered::forward_buffered;
use super::config::{ForwardConfig, HostRewrite};
use super::forwarding::{Forwarding, TimedRequest};
use super::future::ForwardFuture;
use super::mirror::Mirror;
use super::request::{OutgoingRequest, Unsendable};
use super::request_body::RequestBody;
use super::request_id::RequestId;
use super::rewrite::ResponseRewrite;
use super::timeline::Timeline;
use crate::meter::{PendingRequest, method_attribute};
use crate::upstream::{RequestKey, Upstream};
use crate::{Failure, RouteMeter, ServerAttributes};

/// A handler that forwards every request to one upstream.
#[derive(Clone, Debug)]
pub struct Forward {
    upstream: Arc<Upstream>,
    config: Arc<ForwardConfig>,
    meter: Option<Arc<RouteMeter>>,
    is_timed: bool,
    is_recorded: bool,
    mirror: Option<Arc<Mirror>>,
}

impl Forward {
    /// Returns a handler that forwards to `upstream`, with default settings.
    pub fn new(upstream: Arc<Upstream>) -> Self {
        Self::with_config(upstream, ForwardConfig::default())
    }

    /// Returns a handler that forwards to `upstream`, with the settings in `config`.
    ///
    /// # Panics
    /// Panics if `config` has a fixed host that is not a valid header value.
    pub fn with_config(upstream: Arc<Upstream>, config: ForwardConfig) -> Self {
        if let HostRewrite::Fixed(host) = &config.host {
            assert!(
                FieldValue::new(host.as_bytes()).is_ok(),
                "`{}` is not a valid host",
                host.escape_debug()
            );
        }
        Self {
            upstream,
            config: Arc::new(config),
            meter: None,
            is_timed: false,
            is_recorded: false,
            mirror: None,
        }
    }

    /// Sets the meter that counts requests and their durations. The duration of a request ends when the head
    /// of its response is available.
    #[must_use]
    pub fn measured_by(self, meter: Arc<RouteMeter>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// Sets whether the gateway records response times of the upstream and of its servers.
    /// [`Upstream::response_counts`] and [`ServerStatus`](crate::ServerStatus) return these times. Default
    /// `false`.
    #[must_use]
    pub fn timed(self, is_timed: bool) -> Self {
        Self { is_timed, ..self }
    }

    /// Sets the mirror that gets copies of some requests.
    #[must_use]
    pub fn mirrored_by(self, mirror: Arc<Mirror>) -> Self {
        Self { mirror: Some(mirror), ..self }
    }

    /// Sets whether access logs contain [details about forwarding](thruway_server::Forwarded), such as the
    /// server and the durations. Default `false`.
    #[must_use]
    pub fn recorded(self, is_recorded: bool) -> Self {
        Self { is_recorded, ..self }
    }
}

impl Forward {
    /// Applies the configured changes to `response`, counts the request, and returns the response without
    /// forwarding the request.
    #[cold]
    fn refused(&self, request: &Request<'_>, mut response: Response) -> Answer {
        if let Some(rewrite) = ResponseRewrite::of(&self.config, request, &RequestId::default()) {
            rewrite.apply(&mut response);
        }
        if let Some(meter) = &self.meter {
            let attributes = ServerAttributes::of(request, response.status());
            meter.record(request.worker().index(), attributes, Duration::ZERO);
        }
        Answer::Now(response)
    }
}

/// Returns the error response to a request with `.` or `..` in its path. With these segments, the request
/// could leave the path prefix that the path rewrite of the route sets.
#[cold]
fn dot_segment_response() -> Response {
    Response::text("the path has `.` or `..` in it\n").with_status(StatusCode::BAD_REQUEST)
}

/// Returns the response to an OPTIONS or TRACE request with `Max-Forwards: 0`. The gateway must not forward
/// such a request (RFC 9110 §7.6.2). The response lists the methods that the gateway supports.
#[cold]
fn max_forwards_response(method: Method<'_>) -> Response {
    let status = match method {
        Method::Options => StatusCode::NO_CONTENT,
        _ => StatusCode::METHOD_NOT_ALLOWED,
    };
    Response::new(status).with_field("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
}

impl Handler for Forward {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        if request.method() == Method::Connect {
            return self.refused(request, Failure::ConnectRefused.to_response());
        }
        let key = RequestKey::new(self.upstream.config(), request);
        let id = RequestId::default();
        let outgoing = match OutgoingRequest::new(request, &self.config, &id) {
            Ok(outgoing) => outgoing,
            Err(Unsendable::Loop) => return self.refused(request, Failure::Loop.to_response()),
            Err(Unsendable::Path) => return self.refused(request, dot_segment_response()),
            Err(Unsendable::LastServer) => {
                return self.refused(request, max_forwards_response(request.method()));
            }
        };
        if let Some(mirror) = &self.mirror {
            mirror.copy(request, &id);
        }
        let body = (!request.has_whole_content()).then(|| {
            let kept_bytes_max = self.upstream.config().replay_bytes_max;
            // A body that is read before the request is sent must be kept.
            let kept_bytes_max = self.config.request_buffer_bytes_max.unwrap_or(kept_bytes_max);
            Box::new(RequestBody::new(request.take_content(), kept_bytes_max, self.config.clone()))
        });
        let upstream = self.upstream.clone();
        let worker = request.worker().clone();
        let has_times = self.is_recorded || request.trace().is_some();
        let timeline = has_times.then(|| Timeline::new(request, &upstream, id, self.is_recorded));
        let pending = self.meter.clone().map(|meter| match &timeline {
            // The timeline has just read the clock, or knows that the request has just arrived.
            Some(timeline) => PendingRequest::since(meter, request, timeline.since()),
            None => PendingRequest::new(meter, request),
        });
        let began = || pending.as_ref().map_or_else(|| worker.clock().now_exact(), PendingRequest::began);
        let timed = self
            .is_timed
            .then(|| TimedRequest { arrived: began(), method: method_attribute(request.method()) });
        let forwarding = Forwarding {
            worker,
            upstream,
            key,
            request: outgoing,
            body,
            timeline,
            timeouts: self.config.timeouts,
            until: None,
            timed,
            pending,
        };
        if forwarding.body.is_some()
            && let Some(bytes_max) = self.config.request_buffer_bytes_max
        {
            return Answer::later(forward_buffered(forwarding, bytes_max));
        }
        Answer::later(ForwardFuture::new(forwarding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UpstreamConfig;

    #[test]
    #[should_panic(expected = "is not a valid host")]
    fn host_with_line_break_panics() {
        let upstream = Arc::new(Upstream::new(UpstreamConfig::new("a", [])));
        let host = HostRewrite::Fixed("a\r\nX-Injected: b".to_owned());
        let _ = Forward::with_config(upstream, ForwardConfig { host, ..ForwardConfig::default() });
    }
}
