//! HTTP endpoints of a bridge that may not have connected to its server yet. Until then, the endpoints
//! respond with status 503.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thruway_demo::mcp::{MESSAGE_PATH, PATH, SSE_PATH};
use thruway_mcp_sdk::json_rpc::{self, Error, Id, Message, write_error};
use thruway_mcp_sdk::{Bridge, McpClientError, McpEndpoint};
use thruway_message::FieldLinesBuf;
use thruway_server::{Answer, Handler, Request, Response, Router, StatusCode};
use tokio::sync::watch;
use tokio::time::sleep;

/// A bridge that may not have connected to its server yet. All clones refer to the same bridge.
#[derive(Clone, Default)]
pub(super) struct LateBridge {
    connected: Arc<OnceLock<Connected>>,
}

struct Connected {
    bridge: Bridge,
    endpoint: McpEndpoint,
    sse_stream: Box<dyn Handler>,
    sse_messages: Box<dyn Handler>,
}

/// HTTP endpoint that forwards requests to a handler of the bridge. Until the bridge has connected, the
/// endpoint responds with status 503.
struct LateEndpoint {
    bridge: LateBridge,
    handler: fn(&Connected) -> &dyn Handler,
}

/// Progress of the first attempt to connect to the server behind the bridge.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum FirstAttempt {
    Running,
    /// The attempt has ended. Either the bridge is connected, or it will try again.
    Over,
    /// The attempt failed, and another attempt would not help.
    Failed(McpClientError),
}

impl LateBridge {
    /// Adds the endpoints for Streamable HTTP and for HTTP with SSE to `router`.
    pub(super) fn mount(&self, router: Router) -> Router {
        router
            .any(PATH, self.endpoint(|connected| &connected.endpoint))
            .get(SSE_PATH, self.endpoint(|connected| &*connected.sse_stream))
            .post(MESSAGE_PATH, self.endpoint(|connected| &*connected.sse_messages))
    }

    fn endpoint(&self, handler: fn(&Connected) -> &dyn Handler) -> LateEndpoint {
        LateEndpoint { bridge: self.clone(), handler }
    }

    /// Returns the bridge, or `None` if the bridge has not connected yet.
    pub(super) fn bridge(&self) -> Option<&Bridge> {
        self.connected.get().map(|connected| &connected.bridge)
    }

    /// Calls `connect` until a call succeeds, with growing pauses between the calls. Then applies `protect`
    /// to the endpoint of the bridge and serves the endpoint. If the first call fails, the function makes a
    /// second call only if `may_repeat` is `true` and the error is temporary. After later errors, the
    /// function always tries again, because the server may still be starting.
    pub(super) async fn connect<F: Future<Output = Result<Bridge, McpClientError>>>(
        self,
        connect: impl Fn() -> F,
        may_repeat: bool,
        protect: impl Fn(McpEndpoint) -> McpEndpoint,
        first_attempt: watch::Sender<FirstAttempt>,
    ) {
        let mut pause = PAUSE_MIN;
        loop {
            let outcome = connect().await;
            // The channel is closed if the first attempt took too long. The listeners are then already open,
            // so the bridge tries again after any error.
            let is_first = !first_attempt.is_closed() && *first_attempt.borrow() == FirstAttempt::Running;
            match outcome {
                Ok(bridge) => {
                    self.put(bridge, protect);
                    if !is_first {
                        tracing::info!("connected to the server behind the bridge");
                    }
                    first_attempt.send_replace(FirstAttempt::Over);
                    return;
                }
                Err(error) if is_first && !(may_repeat && error.is_temporary()) => {
                    first_attempt.send_replace(FirstAttempt::Failed(error));
                    return;
                }
                Err(error) => {
                    tracing::warn!(
                        "cannot connect to the server behind the bridge, trying again in {pause:?}; clients \
                         get 503 meanwhile: {error}"
                    );
                    first_attempt.send_replace(FirstAttempt::Over);
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn put(&self, bridge: Bridge, protect: impl Fn(McpEndpoint) -> McpEndpoint) {
        let endpoint = protect(bridge.endpoint());
        let sse = endpoint.sse_endpoints(MESSAGE_PATH);
        let (sse_stream, sse_messages) = (Box::new(sse.stream()), Box::new(sse.messages()));
        self.connected.get_or_init(|| Connected { bridge, endpoint, sse_stream, sse_messages });
    }
}

impl Handler for LateEndpoint {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match self.bridge.connected.get() {
            Some(connected) => (self.handler)(connected).handle(request),
            None => Answer::Now(unavailable(request)),
        }
    }
}

/// Returns the response to a request that arrives before the bridge has connected. The response contains the
/// id of the JSON-RPC request, if the request has arrived completely.
fn unavailable(request: &Request<'_>) -> Response {
    let content = if request.has_whole_content() { request.content() } else { &[] };
    let id = match json_rpc::parse(content) {
        Ok(Message::Request(request)) => Some(request.id),
        _ => None,
    };
    let error = Error::internal("the bridge is not connected to its server yet: try again later");
    Response::ok(JSON, error_message(id.as_ref(), &error))
        .with_status(StatusCode::SERVICE_UNAVAILABLE)
        .with_field("Retry-After", RETRY_AFTER_SECONDS)
}

fn error_message(id: Option<&Id<'_>>, error: &Error) -> Vec<u8> {
    let mut message = Vec::new();
    write_error(&mut message, id, error);
    message
}

const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

const RETRY_AFTER_SECONDS: &str = "5";

/// Minimum and maximum pause between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
