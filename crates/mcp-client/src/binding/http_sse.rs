//! HTTP with SSE, the transport of MCP revision 2024-11-05. One stream carries all messages of the server,
//! and its first event contains the URL for messages of the client.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use thruway_client::{Events, Url};
use thruway_message::{FieldLinesBuf, Method};
use tokio::sync::oneshot;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

use super::super::conversation::Conversation;
use super::super::error::McpClientError;
use super::super::invalid_lines::InvalidLines;
use super::super::reading::{Answer, Read};
use super::http_events::{Kind, events_of, kind_of};
use super::transport::{Http, OpenStream, Outgoing, Received};

impl Http {
    /// Opens the stream of a server that supports only HTTP with SSE. Returns `false` if the server has no
    /// such stream.
    pub(super) async fn open_stream(
        self: &Arc<Self>,
        conversation: &Arc<Conversation>,
    ) -> Result<bool, McpClientError> {
        let response = self.get(&FieldLinesBuf::new(), "").await?;
        if kind_of(&response) != Kind::Events || !response.status().is_success() {
            return Ok(false);
        }
        let mut events = events_of(conversation, response);
        let first = timeout(conversation.options.timeout, events.next()).await;
        let first = first.map_err(|_| McpClientError::TimedOut)?;
        let Some(Ok(event)) =
            first.filter(|first| first.as_ref().is_ok_and(|event| event.event == "endpoint"))
        else {
            return Ok(false);
        };
        let url = message_url(self.url(), &event.data).ok_or(McpClientError::MessageInvalid)?;
        let destination = self.destination(&url)?;
        let reading = read(Arc::downgrade(self), Arc::downgrade(conversation), events);
        let reading = conversation.spawn(reading).abort_handle();
        self.stream.store(Some(Arc::new(OpenStream { url: url.into(), destination, reading })));
        Ok(true)
    }

    /// Sends a request. The task that reads the stream passes the answer to `answer`.
    pub(super) async fn exchange_on<R>(
        &self,
        stream: &OpenStream,
        outgoing: Outgoing,
        answer: oneshot::Receiver<Result<Answer, McpClientError>>,
    ) -> Result<Received<R>, McpClientError> {
        self.send_on(stream, outgoing).await?;
        let answer = answer.await.map_err(|_| McpClientError::Closed)??;
        Ok(Received { answer: Read::Raw(answer), session_id: None })
    }

    pub(super) async fn send_on(
        &self,
        stream: &OpenStream,
        outgoing: Outgoing,
    ) -> Result<(), McpClientError> {
        let content = Bytes::from(outgoing.bytes);
        let request = || {
            let request = self.client().request_to(Method::Post, &stream.destination);
            request.field_lines(&outgoing.field_lines).content(content.clone())
        };
        let response = self.send_request(Method::Post, &stream.url, request).await?;
        let status = response.status();
        // Reads the body, so that the client can reuse the connection.
        let _ = response.collect(ACKNOWLEDGEMENT_BYTES_MAX).await;
        if status.is_success() { Ok(()) } else { Err(McpClientError::Status(status)) }
    }
}

async fn read(http: Weak<Http>, conversation: Weak<Conversation>, mut events: Events) {
    let mut invalid_events = InvalidLines::default();
    let Some(mut budget) = conversation.upgrade().map(|conversation| conversation.wait_budget()) else {
        return;
    };
    let error = loop {
        match events.next().await {
            Some(Ok(event)) => {
                consume_budget().await;
                let Some(conversation) = conversation.upgrade() else { return };
                conversation.handle_line(event.data.as_bytes(), &mut invalid_events, &mut budget).await;
            }
            Some(Err(error)) => break Some(McpClientError::from(error)),
            None => break None,
        }
    };
    if let (Some(http), Some(conversation)) = (http.upgrade(), conversation.upgrade()) {
        match error {
            Some(McpClientError::MessageTooLarge) => {
                conversation.incoming.fail_all(&McpClientError::AnswerLost);
            }
            Some(error @ McpClientError::FramingInvalid) => conversation.incoming.fail_all(&error),
            _ => {}
        }
        http.stream.store(None);
        conversation.lose();
    }
}

/// Returns the URL for messages of the client. Rejects a URL with another origin, so that the client sends
/// messages and credentials only to this server.
fn message_url(url: &str, endpoint: &str) -> Option<String> {
    let url = Url::for_request(url).ok()?;
    let endpoint = url.join(endpoint).ok().filter(|endpoint| endpoint.has_origin_of(&url))?;
    Some(endpoint.to_string())
}

/// Maximum number of body bytes to read from an acknowledgment.
const ACKNOWLEDGEMENT_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_url_must_have_the_origin_of_the_stream() {
        let url = |endpoint: &str| message_url("http://a.example:1/sse?x=1", endpoint);
        let expected = Some("http://a.example:1/message?id=7".to_owned());
        assert_eq!(url("/message?id=7"), expected);
        assert_eq!(url("http://a.example:1/message?id=7"), expected);
        for other in [
            "http://b.example/message",
            "//b.example/message",
            "http://a.example:12/",
            "message",
            "",
            "https://a.example:1/",
        ] {
            assert_eq!(url(other), None, "{other}");
        }
    }
}
