//! A request on its way to an upstream and back.
//!
//! ```text
//! Forward ── OutgoingRequest ──▶ attempt: select, acquire or connect ──▶ Relay ──▶ Response
//!               (head, and the        │ failed, and may be sent again       │ whole, as a stream, or a tunnel
//!                content as far as    └──▶ attempt at another server
//!                it is kept)
//! ```

mod fields;
mod forwarded;
mod request;
mod request_body;
mod timeline;
mod request_id;
mod timeouts;
mod attempt;
mod relay;
mod response;
mod tunnel;

// what is changed, and what is sent elsewhere too
mod rewrite;
mod mirror;

use std::sync::Arc;
use std::time::Duration;

use thruway_message::Method;
use thruway_server::{Answer, FieldValue, Handler, Request, Response, StatusCode};

use crate::meter::Awaited;
use crate::upstream::{RequestKey, Upstream};
use crate::{Failure, RouteMeter};

pub(crate) use fields::read_alike;
pub use mirror::{Mirror, MirrorConfig, MirrorCounts};
pub use rewrite::{FieldRewrite, InvalidRewrite, PathRewrite, Rewrite};
pub use timeouts::ForwardTimeouts;

use attempt::Forwarding;
use request::{OutgoingRequest, Unsendable};
use request_body::RequestBody;
use request_id::RequestId;
use rewrite::ResponseRewrite;

/// Forwards every request to an upstream.
#[derive(Clone, Debug)]
pub struct Forward {
    upstream: Arc<Upstream>,
    config: Arc<ForwardConfig>,
    meter: Option<Arc<RouteMeter>>,
    is_timed: bool,
    is_recorded: bool,
    mirror: Option<Arc<Mirror>>,
}

/// What is done with requests on their way.
#[derive(Clone, Debug)]
pub struct ForwardConfig {
    /// Which fields tell the upstream about the client. Default [`ForwardedFields::XForwarded`].
    pub forwarded: ForwardedFields,
    /// Whether `X-Forwarded-Port` is said beside the other fields of that kind: the port that the client has asked. Default no.
    pub forwarded_port: bool,
    /// What `Host` says. Default what the client said.
    pub host: HostRewrite,
    /// Whether `Via` says that there is a gateway (RFC 9110 §7.6.3). Default yes.
    pub via: bool,
    /// What else is changed. Default nothing.
    pub rewrite: Rewrite,
    /// How long to wait for what, where that is not as the upstream says.
    pub timeouts: ForwardTimeouts,
}

/// Which fields tell the upstream about the client. What the client says itself in them is not passed on; to what [trusted
/// proxies](thruway_server::TrustedProxies) say in them is added.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ForwardedFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// All of these.
    Both,
    /// None.
    None,
}

/// What `Host` says to the upstream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum HostRewrite {
    /// What the client said.
    #[default]
    Preserve,
    /// What the config calls the server: its address, or its name and port.
    Server,
    /// This.
    Fixed(String),
}

impl Default for ForwardConfig {
    fn default() -> Self {
        Self {
            forwarded: ForwardedFields::default(),
            forwarded_port: false,
            host: HostRewrite::default(),
            via: true,
            rewrite: Rewrite::default(),
            timeouts: ForwardTimeouts::default(),
        }
    }
}

impl Forward {
    /// Forwards to `upstream`.
    pub fn new(upstream: Arc<Upstream>) -> Self {
        Self::with_config(upstream, ForwardConfig::default())
    }

    /// The same, with something changed on the way.
    ///
    /// # Panics
    /// A fixed host cannot be the value of a field.
    pub fn with_config(upstream: Arc<Upstream>, config: ForwardConfig) -> Self {
        if let HostRewrite::Fixed(host) = &config.host {
            assert!(FieldValue::new(host.as_bytes()).is_ok(), "`{}` is no host", host.escape_debug());
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

    /// Has `meter` count the requests: their response times end with the head of the response.
    #[must_use]
    pub fn measured_by(self, meter: Arc<RouteMeter>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// Whether the upstream and its servers count how long responses take: [`Upstream::response_counts`],
    /// [`ServerStatus`](crate::ServerStatus). Default no.
    #[must_use]
    pub fn timed(self, is_timed: bool) -> Self {
        Self { is_timed, ..self }
    }

    /// Has `mirror` send copies of some requests elsewhere.
    #[must_use]
    pub fn mirrored_by(self, mirror: Arc<Mirror>) -> Self {
        Self { mirror: Some(mirror), ..self }
    }

    /// Whether responses tell how their requests were [forwarded](thruway_server::Forwarded): for access logs that say so. Default
    /// no.
    #[must_use]
    pub fn recorded(self, is_recorded: bool) -> Self {
        Self { is_recorded, ..self }
    }
}

impl Forward {
    /// The answer to a request that goes nowhere, changed as the config says of all.
    #[cold]
    fn refused(&self, request: &Request<'_>, mut response: Response) -> Answer {
        if let Some(rewrite) = ResponseRewrite::of(&self.config, request, &RequestId::default()) {
            rewrite.apply(&mut response);
        }
        if let Some(meter) = &self.meter {
            meter.record(request.worker().index(), response.status(), Duration::ZERO);
        }
        Answer::Now(response)
    }
}

/// What is answered to a request whose path would lead elsewhere than the route does.
#[cold]
fn answer_of_no_path() -> Response {
    Response::text("the path has `.` or `..` in it\n").with_status(StatusCode::BAD_REQUEST)
}

/// What is answered to a request that goes no further: what the gateway itself can do (RFC 9110 §7.6.2).
#[cold]
fn answer_of_the_last(method: Method<'_>) -> Response {
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
        if request::max_forwards(request) == Some(0) {
            return self.refused(request, answer_of_the_last(request.method()));
        }
        let key = RequestKey::new(self.upstream.config(), request);
        let id = RequestId::default();
        let outgoing = match OutgoingRequest::new(request, &self.config, &id) {
            Ok(outgoing) => outgoing,
            Err(Unsendable::Loop) => return self.refused(request, Failure::Loop.to_response()),
            Err(Unsendable::Path) => return self.refused(request, answer_of_no_path()),
        };
        if let Some(mirror) = &self.mirror {
            mirror.copy(request, &id);
        }
        let body = (!request.has_whole_content()).then(|| {
            let kept_bytes_max = self.upstream.config().replay_bytes_max;
            Box::new(RequestBody::new(request.take_content(), kept_bytes_max, self.config.clone()))
        });
        let upstream = self.upstream.clone();
        let recorded = self.is_recorded.then_some(id);
        let timeouts = self.config.timeouts;
        let worker = request.worker().clone();
        let awaited = self.meter.clone().map(|meter| Awaited::new(meter, &worker));
        let began = || awaited.as_ref().map_or_else(|| worker.clock().now_exact(), Awaited::began);
        let timed = self.is_timed.then(began);
        let mut forwarding = Forwarding {
            worker,
            upstream,
            key,
            request: outgoing,
            body,
            recorded,
            timeouts,
            until: None,
            timed,
        };
        Answer::later(async move {
            let response = attempt::forward(&mut forwarding).await;
            if let Some(awaited) = awaited {
                awaited.answered(response.status());
            }
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UpstreamConfig;

    #[test]
    #[should_panic(expected = "is no host")]
    fn a_host_that_would_split_the_request_is_an_error_of_the_program() {
        let upstream = Arc::new(Upstream::new(UpstreamConfig::new("a", [])));
        let host = HostRewrite::Fixed("a\r\nX-Injected: b".to_owned());
        let _ = Forward::with_config(upstream, ForwardConfig { host, ..ForwardConfig::default() });
    }
}
