//! Event streams: the stream that ends with an answer, and the legacy stream for messages outside of
//! responses. The client can resume both kinds of stream if their events have ids.

use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_client::{ClientError, Events, Response};
use thruway_mcp::content_types::is_media_type;
use thruway_mcp::json_rpc::{self, Id, Message};
use thruway_message::{FieldLinesBuf, StatusCode};
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use super::super::conversation::Conversation;
use super::super::error::McpClientError;
use super::super::handlers::Direction;
use super::super::incoming::outcome;
use super::super::invalid_lines::InvalidLines;
use super::super::reading::Answer;
use super::super::requester::WaitBudget;
use super::transport::{Http, Outgoing};

impl Http {
    /// Reads the events of `response` and returns the answer to request `id`. If the stream breaks, resumes
    /// the stream if possible.
    pub(super) async fn answer_in_events(
        &self,
        conversation: &Arc<Conversation>,
        id: i64,
        response: Response,
        outgoing: &Outgoing,
    ) -> Result<Answer, McpClientError> {
        let mut events = events_of(conversation, response);
        let mut last_event_id = String::new();
        let mut budget = conversation.wait_budget();
        loop {
            // Yields regularly on a stream that never pauses, so that other tasks can run and timeouts can
            // expire.
            consume_budget().await;
            let reason = match events.next().await {
                Some(Ok(event)) if event.data.is_empty() => continue,
                Some(Ok(event)) => match take(conversation, id, event.data.as_bytes(), &mut budget).await? {
                    Some(answer) => return Ok(answer),
                    None => continue,
                },
                Some(Err(ClientError::EventsInvalid)) => return Err(framing_invalid(conversation)),
                Some(Err(error)) => error.into(),
                None => McpClientError::Closed,
            };
            if !events.last_event_id().is_empty() {
                events.last_event_id().clone_into(&mut last_event_id);
            }
            if !outgoing.is_resumable || last_event_id.is_empty() || reason == McpClientError::MessageTooLarge
            {
                return Err(reason);
            }
            let pause = pause(&events);
            if reason == McpClientError::Closed
                && let Some(requester) = conversation.incoming.requester(Some(id))
            {
                requester.disconnect(pause);
            }
            sleep(pause).await;
            events = self.resume(conversation, &outgoing.field_lines, &last_event_id).await?;
        }
    }

    /// Opens a stream that continues a broken stream after the event `last_event_id`.
    async fn resume(
        &self,
        conversation: &Arc<Conversation>,
        field_lines: &FieldLinesBuf,
        last_event_id: &str,
    ) -> Result<Events, McpClientError> {
        let response = opened_stream(self.get(field_lines, last_event_id).await?)?;
        Ok(events_of(conversation, response))
    }

    /// Reads messages outside of responses, and opens the stream again when the stream breaks. Returns when
    /// the server refuses the stream or ends the session, after a permanent error, or when the client is
    /// dropped.
    pub(super) async fn listen_on(self: Arc<Self>, weak: Weak<Conversation>, field_lines: FieldLinesBuf) {
        let mut last_event_id = String::new();
        let mut pause = PAUSE;
        let mut was_open = false;
        let mut has_missed = false;
        loop {
            let opened = self.get(&field_lines, &last_event_id).await;
            let Some(conversation) = weak.upgrade() else { return };
            match opened.and_then(opened_stream) {
                Ok(response) => {
                    was_open = true;
                    if std::mem::take(&mut has_missed) {
                        conversation
                            .incoming
                            .queues()
                            .iter()
                            .for_each(|queue| conversation.report_everything_changed(queue));
                    }
                    let mut events = events_of(&conversation, response);
                    drop(conversation);
                    read_on(&weak, &mut events).await;
                    if !events.last_event_id().is_empty() {
                        events.last_event_id().clone_into(&mut last_event_id);
                    }
                    pause = self::pause(&events);
                }
                // A server that is temporarily unavailable has not refused the stream.
                Err(error) if !was_open && may_come(&error) => drop(conversation),
                // A server that does not offer this stream may return any error status.
                Err(McpClientError::Status(_)) if !was_open => return,
                Err(McpClientError::Status(StatusCode::NOT_FOUND)) => {
                    return conversation.renew(&field_lines);
                }
                // The server may have forgotten only the event id, while the session is still valid.
                Err(McpClientError::Status(StatusCode::BAD_REQUEST)) if !last_event_id.is_empty() => {
                    last_event_id.clear();
                    has_missed = true;
                }
                Err(McpClientError::Status(StatusCode::BAD_REQUEST)) => {
                    self.leave(&field_lines).await;
                    return conversation.renew(&field_lines);
                }
                Err(error) if !error.is_temporary() => {
                    return conversation.incoming.end_subscriptions(&error);
                }
                Err(_) => drop(conversation),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl Http {
    /// Ends a session that no longer works, although the server has not reported its end. In all revisions
    /// with sessions, a server reports the end of a session with 404. A client should end a session that it
    /// no longer needs (MCP revision 2025-11-25, section session management).
    async fn leave(&self, field_lines: &FieldLinesBuf) {
        if field_lines.field("Mcp-Session-Id").is_some() {
            // Errors are ignored, because they mean that the server has already ended the session.
            let _ = self.end_session(field_lines.clone()).await;
        }
    }
}

/// `true` if a server that answered with this error may later open an event stream for the client. A server
/// that returns 501 does not support the method GET.
fn may_come(error: &McpClientError) -> bool {
    error.is_temporary() && *error != McpClientError::Status(StatusCode::NOT_IMPLEMENTED)
}

/// Returns the response if it is an event stream.
fn opened_stream(response: Response) -> Result<Response, McpClientError> {
    if kind_of(&response) == Kind::Events && response.status().is_success() {
        Ok(response)
    } else {
        Err(McpClientError::Status(response.status()))
    }
}

/// Handles messages outside of responses until the stream breaks.
async fn read_on(conversation: &Weak<Conversation>, events: &mut Events) {
    let mut invalid_events = InvalidLines::default();
    let Some(mut budget) = conversation.upgrade().map(|conversation| conversation.wait_budget()) else {
        return;
    };
    while let Some(event) = events.next().await {
        consume_budget().await;
        let Some(conversation) = conversation.upgrade() else { return };
        match event {
            // An event without data contains no message, only an event id.
            Ok(event) => {
                conversation.handle_line(event.data.as_bytes(), &mut invalid_events, &mut budget).await;
            }
            Err(ClientError::EventsInvalid) => {
                framing_invalid(&conversation);
                return;
            }
            Err(_) => return,
        }
    }
}

pub(super) fn events_of(conversation: &Conversation, response: Response) -> Events {
    response.events().event_bytes_max(conversation.options.message_bytes_max).refuse_json_lines()
}

/// Handles one event. Returns the answer to request `id` if the event is this answer.
async fn take(
    conversation: &Arc<Conversation>,
    id: i64,
    bytes: &[u8],
    budget: &mut WaitBudget,
) -> Result<Option<Answer>, McpClientError> {
    conversation.incoming.handlers.trace(Direction::Received, bytes);
    match json_rpc::parse(bytes) {
        Ok(message) => take_one(conversation, id, &message, budget).await,
        Err(_) => take_batch(conversation, id, bytes, budget).await,
    }
}

/// Handles a batch. Returns the answer to request `id` if the batch contains this answer.
pub(super) async fn take_batch(
    conversation: &Arc<Conversation>,
    id: i64,
    bytes: &[u8],
    budget: &mut WaitBudget,
) -> Result<Option<Answer>, McpClientError> {
    let mut answer = None;
    for message in conversation.batch(bytes)? {
        let message =
            json_rpc::parse(message.get().as_bytes()).map_err(|_| McpClientError::MessageInvalid)?;
        answer = take_one(conversation, id, &message, budget).await?.or(answer);
    }
    Ok(answer)
}

async fn take_one(
    conversation: &Arc<Conversation>,
    id: i64,
    message: &Message<'_>,
    budget: &mut WaitBudget,
) -> Result<Option<Answer>, McpClientError> {
    match message {
        Message::Response(response) => match response.id {
            Some(Id::Integer(answered)) if answered == id => outcome(response).map(Some),
            None => outcome(response).map(Some),
            _ => Err(McpClientError::MessageInvalid),
        },
        message => {
            if let Some(unsent) = conversation.handle_message(message, Some(id)) {
                // If the client that sent this request reads slowly, that client delays only its own call.
                // Therefore only the timeout of the call limits the wait. The server may also send messages
                // for other clients on this stream. If one of the other clients reads slowly, the wait is
                // limited, because that client must not delay this call.
                let requester = conversation.incoming.requester(Some(id));
                if requester.is_some_and(|requester| requester.is_reader_of(&unsent)) {
                    unsent.deliver().await;
                } else {
                    budget.deliver(unsent).await;
                }
            }
            Ok(None)
        }
    }
}

/// Returns the pause before the client reopens a stream: the `retry` value of the stream, limited to
/// [`PAUSE_MIN`] and [`PAUSE_MAX`].
fn pause(events: &Events) -> Duration {
    events.retry().unwrap_or(PAUSE).clamp(PAUSE_MIN, PAUSE_MAX)
}

const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The type of a response body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Json,
    Events,
    /// One message per line. No revision of the protocol permits this format.
    JsonLines,
    Other,
}

pub(super) fn kind_of(response: &Response) -> Kind {
    let value = response.field("content-type").map_or(&b""[..], |value| value.as_bytes());
    if is_media_type(value, b"application/json") {
        Kind::Json
    } else if is_media_type(value, b"text/event-stream") {
        Kind::Events
    } else if JSON_LINES.iter().any(|expected| is_media_type(value, expected.as_bytes())) {
        Kind::JsonLines
    } else {
        Kind::Other
    }
}

/// Logs that the server sends JSON lines, and returns the matching error.
pub(super) fn framing_invalid(conversation: &Conversation) -> McpClientError {
    let server = conversation.options.log_name();
    tracing::warn!(
        server,
        "the server sends JSON lines; a response must be one JSON message or an event stream"
    );
    McpClientError::FramingInvalid
}

/// Media types that servers use for JSON lines.
const JSON_LINES: [&str; 5] = [
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "application/jsonlines",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_retries_event_stream_only_after_temporary_errors() {
        let may_come = |status: u16| may_come(&McpClientError::Status(StatusCode::new(status).unwrap()));
        assert!([429, 500, 502, 503, 504].into_iter().all(may_come));
        assert!(![200, 400, 404, 405, 501].into_iter().any(may_come));
    }
}
