//! The peer listener. It accepts only requests that other replicas of the fleet forward to MCP endpoints.

use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_mcp_sdk::Identity;
use thruway_mcp_sdk::backend::CallerAddress;
use thruway_server::{
    Answer, ContentError, Handler, Limits, Request, RequestContent, Response, RunningServer, Server,
    ServerError, StatusCode, Timeouts,
};

use super::caller::{CALLER, CallerRefusal, ForwardedCaller};
use super::replica::Fleet;
use crate::config::ListenerConfig;

/// The path of all forwarded requests.
pub(super) const PATH: &str = "/mcp";

/// Name of the header that distinguishes the responses of the peer listener from responses of the forwarding engine.
pub(super) const REPLICA: &str = "Thruway-Replica";

/// Starts the peer listener.
///
/// # Errors
/// The address is in use.
pub(super) fn start(
    fleet: &Arc<Fleet>,
    config: &ListenerConfig,
    workers: Option<usize>,
) -> Result<RunningServer, ServerError> {
    let timeouts = Timeouts { idle: IDLE, drain: DRAIN, ..Timeouts::default() };
    let limits =
        Limits { header_section_bytes: HEADER_BYTES_MAX, field_lines: FIELD_LINES_MAX, ..Limits::default() };
    let server = Server::new(PeerHandler(Arc::downgrade(fleet))).listen_on(config.to_listener(&[]));
    let server = workers.into_iter().fold(server, Server::workers);
    server.config(thruway_server::Config { timeouts, limits, ..thruway_server::Config::default() }).start()
}

/// Handles forwarded requests.
struct PeerHandler(Weak<Fleet>);

impl Handler for PeerHandler {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let Some(fleet) = self.0.upgrade() else { return refused(StatusCode::SERVICE_UNAVAILABLE) };
        if request.path() != PATH {
            return refused(StatusCode::NOT_FOUND);
        }
        if fleet.refuses() {
            return refused(StatusCode::SERVICE_UNAVAILABLE);
        }
        let method = request.method();
        let header = request.field(CALLER).and_then(|value| value.as_str());
        let mut caller = match fleet.callers.open(header, fleet.replica(), method.as_str()) {
            Ok(caller) => caller,
            Err(refusal) => return refused(status_of(refusal)),
        };
        let Some(endpoint) = fleet.endpoint(&caller.endpoint) else {
            return refused(StatusCode::NOT_FOUND);
        };
        let identity = caller.take_identity();
        let forwarded = Forwarded { fleet, caller, identity, endpoint };
        if request.has_whole_content() {
            return forwarded.admit(request);
        }
        let mut request = request.take_owned();
        Answer::later(async move {
            let answer = match request.content().collect(forwarded.caller.content_bytes).await {
                Ok(content) => {
                    *request.content() = RequestContent::whole(content);
                    request.forward_to(&forwarded)
                }
                Err(ContentError::TooLarge) => refused(status_of(CallerRefusal::Mismatch)),
                Err(_) => refused(StatusCode::BAD_REQUEST),
            };
            match answer {
                Answer::Now(response) => response,
                Answer::Later(later) => later.await,
            }
        })
    }
}

/// Handles a request with its whole body and a valid header about its caller.
struct Forwarded {
    fleet: Arc<Fleet>,
    caller: ForwardedCaller,
    identity: Option<Arc<Identity>>,
    endpoint: Arc<dyn Handler>,
}

impl Forwarded {
    /// Passes the request to the endpoint, if the header belongs to it.
    fn admit(&self, request: &mut Request<'_>) -> Answer {
        let Self { fleet, caller, identity, endpoint } = self;
        if !caller.is_for(request.field_lines(), request.content()) {
            return refused(status_of(CallerRefusal::Mismatch));
        }
        let extensions = request.extensions_mut();
        extensions.insert(CallerAddress(caller.address));
        if let Some(identity) = identity {
            extensions.insert(identity.clone());
        }
        fleet.counts.count_received();
        let replica = fleet.replica().to_string();
        request.forward_to(endpoint).map(move |response| response.with_field(REPLICA, replica))
    }
}

impl Handler for Forwarded {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.admit(request)
    }
}

/// Returns the status for a request that this replica does not accept, and logs the reason.
fn status_of(refusal: CallerRefusal) -> StatusCode {
    match refusal {
        CallerRefusal::OtherOwner => {
            tracing::debug!("refused a forwarded request, because another replica must handle it");
            StatusCode::MISDIRECTED_REQUEST
        }
        CallerRefusal::Invalid => {
            tracing::warn!(
                "refused a request to the peer listener: it has no valid header `{CALLER}`; compare \
                 `[shared] key` of all replicas"
            );
            StatusCode::FORBIDDEN
        }
        CallerRefusal::Mismatch => {
            tracing::warn!(
                "refused a forwarded request: its header `{CALLER}` is for another request, or it is too old; \
                 compare the clocks of all replicas"
            );
            StatusCode::FORBIDDEN
        }
    }
}

/// Returns a response without the header [`REPLICA`], so that the first replica answers the request itself.
fn refused(status: StatusCode) -> Answer {
    Answer::Now(Response::text(format!("{}\n", status.reason())).with_status(status))
}

/// Maximum idle time of a connection. Longer than the time for which other replicas keep a connection, so that they
/// never send a request on a connection that this listener closes.
const IDLE: Duration = Duration::from_mins(5);

/// Maximum size of a header section: the maximum of `header_bytes` in the config of the first replica, and the encrypted
/// claims and token of the caller.
const HEADER_BYTES_MAX: u32 = (1 << 20) + (128 << 10);

/// Maximum number of headers: the maximum of `headers` in the config of the first replica, and the header about the
/// caller.
const FIELD_LINES_MAX: u32 = 10_001;

/// Maximum duration of the graceful shutdown. The endpoints have ended before.
const DRAIN: Duration = Duration::from_secs(1);
