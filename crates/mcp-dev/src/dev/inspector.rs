//! The inspector: a page, and the JSON interface that the page uses.
//!
//! A web page in a browser must not call tools. Therefore, each request must name this machine in `Host`, and
//! must not come from another origin. Requests to the JSON interface also need the token in the address of
//! the page. The browser does not send this token on its own, because it is in the fragment of the address.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use thruway_mcp_sdk::McpClientError;
use thruway_server::{
    Answer, BoxError, Event, EventSender, Handler, OwnedRequest, Rejection, Request, Response, Router,
    StatusCode,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::endpoint::is_from_this_origin;
use super::journal::Journal;
use super::page;
use super::served::Served;
use crate::inspect::Inspection;

/// State of the inspector.
pub(super) struct Inspector {
    served: Served,
    journal: Journal,
    token_digest: [u8; 32],
    /// Requests a restart of the server.
    restart: mpsc::Sender<()>,
}

/// A call that the user makes on the page.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum InspectorCall {
    Tool { name: String, arguments: Map<String, Value> },
    Prompt { name: String, arguments: BTreeMap<String, String> },
    Resource { uri: String },
}

/// Refuses requests that may come from other web pages.
struct Guarded {
    inspector: Arc<Inspector>,
    page: fn() -> Response,
    interface: Router,
}

impl Inspector {
    pub(super) fn new(served: Served, journal: Journal, token: &str, restart: mpsc::Sender<()>) -> Self {
        Self { served, journal, token_digest: Sha256::digest(token).into(), restart }
    }

    /// Compares digests, so that the time reveals nothing about the token.
    fn accepts(&self, token: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(token).into();
        digest.ct_eq(&self.token_digest).into()
    }

    /// Returns the state of the server and everything that it offers.
    async fn describe(&self) -> Value {
        let (state, restarts) = self.served.state();
        let inspection = match self.served.serving() {
            Ok(version) => {
                Inspection::collect(&version.client, LIST_LIMIT).await.map_err(|error| error.to_string())
            }
            Err(state) => Err(state.reason()),
        };
        let (inspection, error) = match inspection {
            Ok(inspection) => (inspection.to_json(), None),
            Err(error) => (Value::Null, Some(error)),
        };
        json!({"status": state, "restarts": restarts, "inspection": inspection, "error": error})
    }

    async fn call(&self, call: InspectorCall) -> Value {
        let version = match self.served.serving() {
            Ok(version) => version,
            Err(state) => return json!({"error": state.reason()}),
        };
        let client = &version.client;
        let outcome = match call {
            InspectorCall::Tool { name, arguments } => to_value(client.call_tool(&name, arguments).await),
            InspectorCall::Prompt { name, arguments } => to_value(client.get_prompt(&name, arguments).await),
            InspectorCall::Resource { uri } => to_value(client.read_resource(&uri).await),
        };
        match outcome {
            Ok(result) => json!({"result": result}),
            Err(error) => json!({"error": error.to_string()}),
        }
    }

    /// Sends the journal until the client leaves.
    async fn send_journal(journal: Journal, mut events: EventSender) -> Result<(), BoxError> {
        let (entries, mut later) = journal.follow();
        for entry in entries {
            events.send(event(&*entry)).await;
        }
        loop {
            match later.recv().await {
                Ok(entry) => events.send(event(&*entry)).await,
                Err(RecvError::Lagged(omitted)) => events.send(event(&json!({"omitted": omitted}))).await,
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }
}

fn to_value<T: Serialize>(outcome: Result<T, McpClientError>) -> Result<Value, McpClientError> {
    outcome.and_then(|result| {
        serde_json::to_value(result).map_err(|error| McpClientError::result_invalid(&error))
    })
}

fn event(entry: &impl Serialize) -> Event {
    Event::data(&serde_json::to_string(entry).unwrap_or_default())
}

/// Returns the handler of the page and of the JSON interface.
pub(super) fn guarded(inspector: &Arc<Inspector>) -> impl Handler + use<> {
    let (of_server, of_call, of_restart, of_log) =
        (inspector.clone(), inspector.clone(), inspector.clone(), inspector.clone());
    let interface = Router::new()
        .get("/inspector/server", move |_: OwnedRequest| {
            let inspector = of_server.clone();
            async move { Response::json(&inspector.describe().await) }
        })
        .post("/inspector/call", move |request: OwnedRequest| {
            let inspector = of_call.clone();
            async move { answer_call(&inspector, request).await }
        })
        .post("/inspector/restart", move || {
            // If a request already waits, one restart is enough for both.
            let _ = of_restart.restart.try_send(());
            StatusCode::ACCEPTED
        })
        .get("/inspector/log", move || {
            let journal = of_log.journal.clone();
            Response::events(KEEP_ALIVE_INTERVAL, move |events| Inspector::send_journal(journal, events))
        });
    Guarded { inspector: inspector.clone(), page: page::answer, interface }
}

async fn answer_call(inspector: &Inspector, mut request: OwnedRequest) -> Result<Response, Rejection> {
    let content = request.content().collect(CALL_BYTES_MAX).await?;
    let call = serde_json::from_slice(&content);
    let call =
        call.map_err(|error| Rejection::new(StatusCode::BAD_REQUEST, format!("invalid call: {error}\n")))?;
    Ok(Response::json(&inspector.call(call).await))
}

impl Handler for Guarded {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let refusal =
            |status, text: &'static str| Answer::Now(harden(Response::text(text).with_status(status)));
        if !is_from_this_origin(request) {
            return refusal(StatusCode::FORBIDDEN, "only pages of this server may send requests to it\n");
        }
        if request.path() == "/" {
            return match request.method().as_str() {
                "GET" | "HEAD" => Answer::Now(harden((self.page)())),
                _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "the page supports only GET\n"),
            };
        }
        let token = request.field("authorization").and_then(|value| value.as_str()?.strip_prefix("Bearer "));
        if !token.is_some_and(|token| self.inspector.accepts(token)) {
            return refusal(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: open the address that `thruway mcp dev` prints\n",
            );
        }
        request.forward_to(&self.interface).map(harden)
    }
}

/// Adds headers that stop browsers from guessing the type of a response, and from passing it to other sites.
fn harden(response: Response) -> Response {
    response
        .with_field("X-Content-Type-Options", "nosniff")
        .with_field("Cross-Origin-Resource-Policy", "same-origin")
        .with_field("Cache-Control", "no-store")
}

/// Maximum time to wait for each list of the server.
const LIST_LIMIT: Duration = Duration::from_secs(10);

/// Time after which the server sends a comment on an idle event stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum size of a call from the page, in bytes.
const CALL_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests;
