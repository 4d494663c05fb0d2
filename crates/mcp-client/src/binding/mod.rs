//! Transports. A binding sends and receives messages, and does not interpret them.

mod stream;
mod child;
mod credentials;
mod http;
mod http_events;
mod http_sse;
mod transport;

use std::sync::Arc;

use thruway_message::FieldLinesBuf;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::conversation::Conversation;
use super::error::McpClientError;
use super::reading::{Answer, Read, Wanted};

pub(super) use credentials::Credentials;
pub(super) use transport::{Binding, Http, OnStderr, Origin, Outgoing, Purpose, Received, Stream, StreamIo};

impl Binding {
    /// Returns `true` if the transport is a stream of lines and not HTTP.
    pub(super) const fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// `true` if the answers to all requests arrive on one stream that the requests share.
    pub(super) fn has_common_stream(&self) -> bool {
        match self {
            Self::Http(http) => http.stream.load().is_some(),
            Self::Stream(_) => true,
        }
    }

    /// Opens the shared stream of a server that uses HTTP with SSE (MCP revision 2024-11-05). Returns `false`
    /// if the server has no such stream.
    pub(super) async fn open_stream(&self, conversation: &Arc<Conversation>) -> Result<bool, McpClientError> {
        match self {
            Self::Http(http) => http.open_stream(conversation).await,
            Self::Stream(_) => Ok(false),
        }
    }

    /// Returns the time at which the last login ended, or the current time while a login is in progress.
    /// Timeouts do not include the time of a login.
    pub(super) fn waited_until(&self) -> Option<Instant> {
        match self {
            Self::Http(http) => http.waited_until(),
            Self::Stream(_) => None,
        }
    }

    /// Sends a request and waits for its answer. On a shared stream, the answer arrives in `answer`, which
    /// must then be `Some`.
    pub(super) async fn exchange<R: Wanted>(
        &self,
        conversation: &Arc<Conversation>,
        id: i64,
        outgoing: Outgoing,
        answer: Option<oneshot::Receiver<Result<Answer, McpClientError>>>,
    ) -> Result<Received<R>, McpClientError> {
        match self {
            Self::Http(http) => match answer.and_then(|answer| Some((http.stream.load_full()?, answer))) {
                Some((stream, answer)) => http.exchange_on(&stream, outgoing, answer).await,
                None => http.exchange(conversation, id, outgoing).await,
            },
            Self::Stream(stream) => {
                stream.send(outgoing.bytes).await?;
                let answer = answer.ok_or(McpClientError::Closed)?;
                let answer = answer.await.map_err(|_| McpClientError::Closed)??;
                Ok(Received { answer: Read::Raw(answer), session_id: None })
            }
        }
    }

    /// `true` if the client can restart the server after the stream has ended.
    pub(super) const fn can_reopen(&self) -> bool {
        match self {
            Self::Http(_) => false,
            Self::Stream(stream) => stream.can_reopen(),
        }
    }

    /// Permits one more start of the server after many restarts in a row.
    pub(super) async fn permit_restart(&self) {
        if let Self::Stream(stream) = self {
            stream.permit_restart().await;
        }
    }

    /// Restarts the server if its stream has ended.
    pub(super) async fn reopen(&self, conversation: &Arc<Conversation>) -> Result<(), McpClientError> {
        match self {
            Self::Http(_) => Ok(()),
            Self::Stream(stream) => stream.reopen(conversation).await,
        }
    }

    /// Sends a notification or an answer.
    pub(super) async fn send(&self, outgoing: Outgoing) -> Result<(), McpClientError> {
        match self {
            Self::Http(http) => match http.stream.load_full() {
                Some(stream) => http.send_on(&stream, outgoing).await,
                None => http.send(outgoing).await,
            },
            Self::Stream(stream) => stream.send(outgoing.bytes).await,
        }
    }

    /// Tries to send a message that the server does not need. A stream transport drops the message if the
    /// queue is full because the server does not read.
    pub(super) async fn try_send(&self, outgoing: Outgoing) {
        match self {
            // Errors are ignored, because the server does not need the message.
            Self::Http(_) => drop(self.send(outgoing).await),
            Self::Stream(stream) => stream.try_send(outgoing.bytes),
        }
    }

    /// Starts a task that reads messages outside of responses, if such messages arrive on a separate
    /// stream.
    pub(super) fn listen(
        &self,
        conversation: &Arc<Conversation>,
        field_lines: FieldLinesBuf,
    ) -> Option<AbortHandle> {
        match self {
            Self::Http(http) if !self.has_common_stream() => Some(http.listen(conversation, field_lines)),
            Self::Http(_) | Self::Stream(_) => None,
        }
    }

    /// Ends the session with the headers `field_lines`. Only HTTP has such sessions.
    pub(super) async fn end_session(&self, field_lines: FieldLinesBuf) -> Result<(), McpClientError> {
        match self {
            Self::Http(http) => http.end_session(field_lines).await,
            Self::Stream(_) => Ok(()),
        }
    }

    /// Closes the connection and waits until a child process has exited.
    pub(super) async fn close(&self) {
        match self {
            Self::Http(http) => http.stream.store(None),
            Self::Stream(stream) => stream.close().await,
        }
    }
}
