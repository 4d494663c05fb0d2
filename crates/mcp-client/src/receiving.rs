//! Delivers messages of the server to callers, handlers and requesters. Also answers the requests of the
//! server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::json_rpc::{
    self, Error, ErrorCode, Message, Request, split_batch, write_error, write_result,
};
use thruway_mcp::schema::{
    ElicitAction, ElicitRequest, ElicitRequestParams, ElicitRequestURLParams, InputRequest, InputResponse,
    RequestId, methods,
};

use super::conversation::Conversation;
use super::error::McpClientError;
use super::handlers::{self, Direction};
use super::incoming::QUESTIONS_MAX;
use super::invalid_lines::{BYTE_ORDER_MARK, InvalidLines, LineIntent, meant};
use super::requester::{RawAnswer, Unsent, WaitBudget};

impl Conversation {
    /// Handles a message from a stream that all requests share. Waits for a client of a bridge that reads
    /// slowly, as long as `budget` allows.
    ///
    /// # Errors
    /// Fails if the bytes are not a valid message.
    pub(super) async fn handle_bytes(
        self: &Arc<Self>,
        bytes: &[u8],
        budget: &mut WaitBudget,
    ) -> Result<(), McpClientError> {
        self.incoming.handlers.trace(Direction::Received, bytes);
        if let Ok(message) = json_rpc::parse(bytes) {
            if let Some(unsent) = self.handle_message(&message, None) {
                budget.deliver(unsent).await;
            }
            return Ok(());
        }
        for message in self.batch(bytes)? {
            let message = json_rpc::parse(message.get().as_bytes());
            let message = message.map_err(|_| McpClientError::MessageInvalid)?;
            if let Some(unsent) = self.handle_message(&message, None) {
                budget.deliver(unsent).await;
            }
        }
        Ok(())
    }

    /// Returns a full wait budget for one stream of the server.
    pub(super) fn wait_budget(&self) -> WaitBudget {
        WaitBudget::new(self.incoming.handlers.is_shared)
    }

    /// Splits a JSON-RPC batch into its messages. Only one protocol revision permits batches.
    ///
    /// # Errors
    /// Fails if the bytes are not a batch, or if the negotiated revision has no batches.
    pub(super) fn batch<'o>(&self, bytes: &'o [u8]) -> Result<Vec<&'o RawValue>, McpClientError> {
        let has_batches = self.current().is_some_and(|negotiated| negotiated.revision().has_batches());
        let batch = if has_batches { split_batch(bytes) } else { None };
        batch.and_then(Result::ok).ok_or(McpClientError::MessageInvalid)
    }

    /// Handles a message that arrived with the answer to request `of`, or outside of any answer if `of` is
    /// `None`. If a client of a bridge must first read earlier messages, returns the message. The caller
    /// must deliver the returned message before it reads the next message.
    pub(super) fn handle_message(self: &Arc<Self>, message: &Message<'_>, of: Option<i64>) -> Option<Unsent> {
        match message {
            Message::Response(response) => self.incoming.deliver(response),
            Message::Notification(notification) => {
                if notification.method == methods::NOTIFICATIONS_TOOLS_LIST_CHANGED {
                    self.param_headers.invalidate();
                }
                return self.incoming.handle_notification(notification, of, &self.cache);
            }
            Message::Request(request) => self.handle_request(request, of),
        }
        None
    }

    /// Handles a line or an event that should be a message. Logs an invalid line, and fails the calls that
    /// the line was probably meant to answer. Skips a byte order mark (RFC 8259 §8.1).
    ///
    /// Waits for a client of a bridge that reads slowly, as long as `budget` allows.
    pub(super) async fn handle_line(
        self: &Arc<Self>,
        line: &[u8],
        invalid: &mut InvalidLines,
        budget: &mut WaitBudget,
    ) {
        let message = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        if message.len() < line.len() && !std::mem::replace(&mut invalid.has_byte_order_mark, true) {
            tracing::warn!(
                server = self.options.log_name(),
                "the server sends byte order marks, which JSON-RPC does not allow; the client skips them"
            );
        }
        if message.trim_ascii().is_empty() {
            return;
        }
        if self.handle_bytes(message, budget).await.is_ok() {
            invalid.in_a_row = 0;
            return;
        }
        invalid.note(message, self.options.log_name());
        match meant(message) {
            LineIntent::Answer(id) => self.incoming.fail(id, McpClientError::LineInvalid),
            LineIntent::AnyMessage => self.incoming.fail_all(&McpClientError::LineInvalid),
            LineIntent::Other => {}
        }
    }

    /// Answers a request that the server has sent. Ignores the request in the modern era, which has no
    /// requests from servers.
    pub(super) fn handle_request(self: &Arc<Self>, request: &Request<'_>, of: Option<i64>) {
        if !self.is_legacy() {
            return;
        }
        // This limits the number of pending answers if a server sends requests but does not read the
        // answers.
        let Some(responding) = self.incoming.respond() else { return };
        let id = request.id.to_owned();
        if request.method == methods::PING {
            let conversation = self.clone();
            self.spawn(async move {
                conversation.respond(&id, Ok(empty_object())).await;
                drop(responding);
            });
            return;
        }
        let answering = self.answering(request, of);
        let questioned = self.incoming.question();
        let given_up = self.incoming.given_up(&id);
        // The handler may never answer. The reference is weak, so that such a handler does not keep the
        // connection open.
        let conversation = Arc::downgrade(self);
        self.spawn(async move {
            let answered = match answering {
                Ok(answering) => tokio::select! {
                    answered = answering => answered,
                    // The server has canceled its request and expects no answer. Returning drops the future
                    // of the handler.
                    _ = given_up => return,
                },
                Err(error) => Err(error),
            };
            drop(questioned);
            if let Some(conversation) = conversation.upgrade() {
                conversation.respond(&id, answered).await;
            }
            drop(responding);
        });
    }

    /// Refuses a request of the server that is too large to read. Without this answer, the server would
    /// wait until its own timeout.
    pub(super) fn refuse_too_large(self: &Arc<Self>, id: RequestId) {
        let Some(responding) = self.incoming.respond().filter(|_| self.is_legacy()) else { return };
        let conversation = self.clone();
        self.spawn(async move {
            let error =
                Error::new(ErrorCode::INVALID_REQUEST, "the request is larger than the client allows");
            conversation.respond(&id, Err(error)).await;
            drop(responding);
        });
    }

    /// Returns the future that answers an elicitation, sampling or roots request of the server. If the
    /// request belongs to a requester, that requester answers. If the requester is unknown, the default
    /// requester answers. Without a default requester, the handler of the client answers.
    fn answering(
        self: &Arc<Self>,
        request: &Request<'_>,
        of: Option<i64>,
    ) -> Result<Pin<Box<dyn Future<Output = RawAnswer> + Send>>, Error> {
        if self.incoming.questions.load(Ordering::Relaxed) >= QUESTIONS_MAX {
            return Err(Error::internal(
                "the client is already answering the maximum number of elicitation, sampling and roots \
                 requests; try again later",
            ));
        }
        if let Some(requester) = self.incoming.requester(of) {
            let forgotten = self.incoming.forgotten(of, requester.key());
            let asking = requester.ask(&request.method, request.params);
            return Ok(Box::pin(async move {
                tokio::select! {
                    answered = asking => answered,
                    () = forgotten => Err(Error::internal("the call to which this request belongs has ended")),
                }
            }));
        }
        if let Some(requester) = &self.incoming.handlers.requester {
            return Ok(requester.ask(&request.method, request.params));
        }
        let question = handlers::question(request)?;
        let conversation = self.clone();
        Ok(Box::pin(async move {
            let answer = conversation.incoming.handlers.answer(question).await?;
            to_raw_value(&answer).map_err(|_| Error::internal("cannot serialize the answer"))
        }))
    }

    async fn respond(self: &Arc<Self>, id: &RequestId, answered: RawAnswer) {
        let mut bytes = Vec::new();
        match answered {
            Ok(result) => write_result(&mut bytes, &id.into(), |output| {
                output.extend_from_slice(result.get().as_bytes());
                Ok(())
            }),
            Err(error) => write_error(&mut bytes, Some(&id.into()), &error),
        }
        // If the send fails, the server has exited, or its request times out.
        let _ = self.send(bytes).await;
    }

    /// Asks the user to visit the web pages that `error` names, one after another. Returns `true` if
    /// `error` names web pages and the user accepted all of them.
    pub(super) async fn has_visited(&self, error: &Error) -> bool {
        let Some(pages) = required_pages(error) else { return false };
        for page in pages {
            let question = InputRequest::Elicit(ElicitRequest { params: ElicitRequestParams::Url(page) });
            match self.incoming.handlers.answer(question).await {
                Ok(InputResponse::Elicit(result)) if result.action == ElicitAction::Accept => {}
                _ => return false,
            }
        }
        true
    }
}

/// Returns the empty JSON object `{}`.
///
/// # Panics
/// Never panics, because the text is valid JSON.
pub fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("an object")
}

/// The data of a `URLElicitationRequiredError`.
#[derive(Deserialize)]
struct Required {
    elicitations: Vec<ElicitRequestURLParams>,
}

/// Returns the web pages that `error` names. Returns `None` if `error` is not a `URLElicitationRequiredError`
/// (MCP revision 2025-11-25).
pub fn required_pages(error: &Error) -> Option<Vec<ElicitRequestURLParams>> {
    if error.code != ErrorCode::URL_ELICITATION_REQUIRED {
        return None;
    }
    let Required { elicitations } = Required::deserialize(error.data.as_ref()?).ok()?;
    (1..=PAGES_MAX).contains(&elicitations.len()).then_some(elicitations)
}

/// Maximum number of web pages that the user must visit for one request.
const PAGES_MAX: usize = 16;
