//! The modern and the legacy era of the protocol: negotiation of the era, and requests in each era.

mod negotiation;
mod modern;
mod legacy;
mod negotiated;

use std::sync::Arc;

use serde::Serialize;
use thruway_mcp::schema::DiscoverResult;
use thruway_message::FieldLinesBuf;

use super::binding::Outgoing;
use super::conversation::Conversation;
use super::deadline::RequestTimeouts;
use super::error::McpClientError;
use super::reading::{Read, Wanted};

pub use modern::may_ask;
pub(super) use negotiated::{Call, NegotiatedProtocol};
pub use negotiation::is_refusal_of_era;
pub(super) use thruway_mcp::Era;

impl NegotiatedProtocol {
    /// Sends a request and returns its result. First answers the elicitation, sampling and roots requests
    /// that the server sends before the result.
    pub(super) async fn perform<R: Wanted, P: Serialize>(
        &self,
        conversation: &Arc<Conversation>,
        call: &Call<'_, P>,
    ) -> Result<Read<R>, McpClientError> {
        match self {
            Self::Modern(modern) => modern.perform(conversation, call).await,
            Self::Legacy(legacy) => legacy.perform(conversation, call).await,
        }
    }

    /// Creates the outgoing message for a serialized request. `mirrored` contains the headers that repeat
    /// arguments of the request.
    ///
    /// # Errors
    /// Fails if a header cannot contain the method.
    pub(super) fn outgoing(
        &self,
        bytes: Vec<u8>,
        method: &str,
        name: Option<&str>,
        mirrored: &FieldLinesBuf,
    ) -> Result<Outgoing, McpClientError> {
        match self {
            Self::Modern(modern) => modern.outgoing(bytes, method, name, mirrored),
            Self::Legacy(legacy) => Ok(legacy.outgoing(bytes, method)),
        }
    }

    /// Returns the name, version and capabilities of the server.
    pub(super) async fn discover(
        &self,
        conversation: &Arc<Conversation>,
        request_timeouts: RequestTimeouts,
    ) -> Result<DiscoverResult, McpClientError> {
        match self {
            Self::Modern(modern) => modern.discover(conversation, request_timeouts).await.cloned(),
            Self::Legacy(legacy) => Ok(legacy.discover()),
        }
    }

    /// In the legacy era, starts to receive messages outside of responses, if the client has a handler or a
    /// subscription.
    pub(super) fn begin(&self, conversation: &Arc<Conversation>) {
        if let Self::Legacy(legacy) = self {
            legacy.begin(conversation);
        }
    }

    /// Ends the session of the legacy era. Does nothing in the modern era, which has no sessions.
    pub(super) async fn end(&self, conversation: &Arc<Conversation>) -> Result<(), McpClientError> {
        match self {
            Self::Modern(_) => Ok(()),
            Self::Legacy(legacy) => legacy.end(conversation).await,
        }
    }
}
