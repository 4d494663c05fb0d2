//! Streamable HTTP: each message is a POST request. The response contains the answer, or an event stream
//! that ends with the answer.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::{Bytes, BytesMut};
use thruway_client::{Client, ClientError, Destination, Request, Response, Timeouts};
use thruway_mcp::content_types::ACCEPTED_BY_CLIENTS;
use thruway_mcp::json_rpc::{self, Id, Message};
use thruway_message::{FieldLinesBuf, Method, StatusCode};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::conversation::Conversation;
use super::super::error::McpClientError;
use super::super::handlers::Direction;
use super::super::incoming::outcome;
use super::super::reading::{Read, Wanted};
use super::credentials::{Credentials, without_fragment};
use super::http_events::{Kind, framing_invalid, kind_of, take_batch};
use super::transport::{Endpoint, Http, Outgoing, Purpose, Received};

impl Http {
    pub(crate) fn new(
        client: Client,
        url: &str,
        fields: Vec<(String, String)>,
        credentials: Credentials,
    ) -> Self {
        let url = without_fragment(url);
        let endpoint = Endpoint::new(url, &fields);
        Self { client, url: url.into(), fields, endpoint, stream: ArcSwapOption::empty(), credentials }
    }

    /// Returns the time at which the last login ended, or the current time while a login is in progress.
    /// Timeouts do not include the time of a login.
    pub(super) fn waited_until(&self) -> Option<Instant> {
        self.credentials.waited_until()
    }

    pub(super) async fn exchange<R: Wanted>(
        &self,
        conversation: &Arc<Conversation>,
        id: i64,
        mut outgoing: Outgoing,
    ) -> Result<Received<R>, McpClientError> {
        let response = self.post(&mut outgoing).await?;
        let session_id = response.field("mcp-session-id").and_then(|id| id.as_str()).map(str::to_owned);
        let answer = match kind_of(&response) {
            Kind::Json => answer(conversation, id, response, &outgoing).await?,
            Kind::Events if response.status().is_success() => {
                Read::Raw(Box::pin(self.answer_in_events(conversation, id, response, &outgoing)).await?)
            }
            Kind::JsonLines if response.status().is_success() => return Err(framing_invalid(conversation)),
            Kind::Events | Kind::JsonLines | Kind::Other => {
                return Err(refusal(response.status(), &outgoing));
            }
        };
        Ok(Received { answer, session_id })
    }

    /// Sends a notification or an answer.
    pub(super) async fn send(&self, mut outgoing: Outgoing) -> Result<(), McpClientError> {
        let response = self.post(&mut outgoing).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(McpClientError::Status(status));
        }
        // Reads the body, so that the client can reuse the connection.
        let _ = response.collect(REFUSAL_BYTES_MAX).await;
        Ok(())
    }

    pub(super) async fn end_session(&self, field_lines: FieldLinesBuf) -> Result<(), McpClientError> {
        let timeouts = Timeouts { total: Some(CLOSE_TIMEOUT), ..Timeouts::default() };
        let request = self.client.request_to(Method::Delete, &self.endpoint()?.any);
        let request = request.field_lines(&field_lines).timeouts(timeouts);
        let request = self.credentials.sign_once(Method::Delete, &self.url, request).await?;
        // The status is ignored. The server may refuse the request (405), or may have ended the session
        // already (404). The client does not start a login (401) just to end a session.
        request.send().await?;
        Ok(())
    }

    /// Starts a task that reads the messages that the server sends outside of responses.
    pub(super) fn listen(
        self: &Arc<Self>,
        conversation: &Arc<Conversation>,
        field_lines: FieldLinesBuf,
    ) -> AbortHandle {
        let listening = self.clone().listen_on(Arc::downgrade(conversation), field_lines);
        conversation.spawn(listening).abort_handle()
    }

    async fn post(&self, outgoing: &mut Outgoing) -> Result<Response, McpClientError> {
        let idle = if outgoing.purpose == Purpose::Subscribe { SUBSCRIPTION_SILENCE } else { FOR_EVER };
        let timeouts = Timeouts { head: FOR_EVER, content_idle: idle, ..Timeouts::default() };
        let content = Bytes::from(std::mem::take(&mut outgoing.bytes));
        let destination = &self.endpoint()?.post;
        let request = || {
            self.client
                .request_to(Method::Post, destination)
                .field_lines(&outgoing.field_lines)
                .content(content.clone())
                .idempotent(outgoing.purpose != Purpose::Act)
                .timeouts(timeouts)
        };
        self.send_request(Method::Post, &self.url, request).await
    }

    /// Sends a request to `url`. If the server demands another token, obtains a token and sends the request
    /// again.
    pub(super) async fn send_request<'c>(
        &'c self,
        method: Method<'static>,
        url: &str,
        request: impl Fn() -> Request<'c>,
    ) -> Result<Response, McpClientError> {
        self.credentials.send(method, url, request).await
    }

    /// Requests an event stream. If `last_event_id` is not empty, the stream continues after that event.
    pub(super) async fn get(
        &self,
        field_lines: &FieldLinesBuf,
        last_event_id: &str,
    ) -> Result<Response, McpClientError> {
        let timeouts = Timeouts { content_idle: SUBSCRIPTION_SILENCE, ..Timeouts::default() };
        let destination = &self.endpoint()?.any;
        let request = || {
            let request = self.client.request_to(Method::Get, destination).field_lines(field_lines);
            let request = request.field("Accept", "text/event-stream").timeouts(timeouts);
            if last_event_id.is_empty() { request } else { request.field("Last-Event-ID", last_event_id) }
        };
        self.send_request(Method::Get, &self.url, request).await
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    fn endpoint(&self) -> Result<&Endpoint, McpClientError> {
        self.endpoint.as_ref().map_err(|error| error.clone().into())
    }

    /// Returns a destination for messages at another URL of the same server.
    pub(super) fn destination(&self, url: &str) -> Result<Destination, ClientError> {
        destination(url, &self.fields)?.field("Content-Type", "application/json")
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }
}

impl Endpoint {
    fn new(url: &str, fields: &[(String, String)]) -> Result<Self, ClientError> {
        let any = destination(url, fields)?;
        let post = any.clone().field("Content-Type", "application/json")?;
        Ok(Self { any, post: post.field("Accept", ACCEPTED_BY_CLIENTS)? })
    }
}

/// Returns the destination at `url`, which adds the headers `fields` to each request.
fn destination(url: &str, fields: &[(String, String)]) -> Result<Destination, ClientError> {
    fields
        .iter()
        .try_fold(Destination::parse(url)?, |destination, (name, value)| destination.field(name, value))
}

/// Returns the answer to request `id`, if the body of `response` contains this answer.
async fn answer<R: Wanted>(
    conversation: &Arc<Conversation>,
    id: i64,
    response: Response,
    outgoing: &Outgoing,
) -> Result<Read<R>, McpClientError> {
    let status = response.status();
    let content = match outgoing.purpose {
        Purpose::Subscribe => collect_message(conversation, response).await?,
        Purpose::Act | Purpose::Read => response.collect(conversation.options.message_bytes_max).await?,
    };
    conversation.incoming.handlers.trace(Direction::Received, &content);
    if let Some(result) = R::read(&content, id) {
        return Ok(Read::Complete(result));
    }
    let answer = match json_rpc::parse(&content) {
        Ok(Message::Response(response)) if response.id == Some(Id::Integer(id)) => outcome(&response),
        // An answer without an id: the server could not read the id of the request, or rejected the request
        // before it read the id.
        Ok(Message::Response(response))
            if response.id.is_none() && !is_end_of_session(status, outgoing) && !is_passing(status) =>
        {
            outcome(&response)
        }
        _ if status.is_success() => take_batch(conversation, id, &content, &mut conversation.wait_budget())
            .await?
            .ok_or(McpClientError::MessageInvalid),
        _ => Err(refusal(status, outgoing)),
    };
    answer.map(Read::Raw)
}

/// Reads the body of a response that should contain one message. If the first line is a complete
/// notification or request, the server sends JSON lines. Then this function fails, because the body may
/// never end.
async fn collect_message(
    conversation: &Conversation,
    mut response: Response,
) -> Result<Bytes, McpClientError> {
    let bytes_max = conversation.options.message_bytes_max;
    let mut content = BytesMut::new();
    let mut is_first_line = true;
    while let Some(piece) = response.next().await {
        let piece = piece?;
        if content.len() + piece.len() > bytes_max {
            return Err(McpClientError::MessageTooLarge);
        }
        let searched = content.len();
        content.extend_from_slice(&piece);
        let line_end = content[searched..].iter().position(|byte| *byte == b'\n');
        if let Some(line_end) = line_end.filter(|_| is_first_line) {
            is_first_line = false;
            let first_line = json_rpc::parse(&content[..searched + line_end]);
            if matches!(first_line, Ok(Message::Notification(_) | Message::Request(_))) {
                return Err(framing_invalid(conversation));
            }
        }
    }
    Ok(content.freeze())
}

fn refusal(status: StatusCode, outgoing: &Outgoing) -> McpClientError {
    if is_end_of_session(status, outgoing) {
        McpClientError::SessionEnded
    } else {
        McpClientError::Status(status)
    }
}

fn is_end_of_session(status: StatusCode, outgoing: &Outgoing) -> bool {
    outgoing.has_session && status == StatusCode::NOT_FOUND
}

/// `true` if the status indicates a temporary failure of the server or a proxy. Excludes status 500,
/// because the body of such a response may describe why the request failed.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// A timeout that never expires, for HTTP requests whose call has a separate timeout.
const FOR_EVER: Duration = Duration::MAX;

/// Time without any data, even a comment, after which the client considers the stream of a subscription
/// dead. The client then opens the stream again.
const SUBSCRIPTION_SILENCE: Duration = Duration::from_mins(5);

/// Time limit for the request that ends a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of body bytes to read from a response whose body the client does not use.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
