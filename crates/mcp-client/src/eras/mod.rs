//! How a client speaks: what was agreed upon with the server.

mod negotiation;
mod modern;
mod legacy;
mod spoken;

use std::sync::Arc;

use serde::Serialize;
use thruway_mcp::schema::DiscoverResult;
use thruway_message::FieldLinesBuf;

use super::binding::Outgoing;
use super::conversation::Conversation;
use super::deadline::Patience;
use super::error::McpClientError;
use super::reading::{Read, Wanted};

pub use modern::may_ask;
pub use negotiation::is_refusal_of_era;
pub(super) use spoken::{Call, Spoken};
pub(super) use thruway_mcp::Era;

impl Spoken {
    /// Sends a request, and answers what is asked before its result comes.
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

    /// A request that has been written, with what stands around it; `mirrored` are the headers that mirror
    /// its arguments.
    ///
    /// # Errors
    /// The method cannot stand in a header.
    pub(super) fn outgoing(
        &self,
        octets: Vec<u8>,
        method: &str,
        name: Option<&str>,
        mirrored: &FieldLinesBuf,
    ) -> Result<Outgoing, McpClientError> {
        match self {
            Self::Modern(modern) => modern.outgoing(octets, method, name, mirrored),
            Self::Legacy(legacy) => Ok(legacy.outgoing(octets, method)),
        }
    }

    /// What the server is and can do.
    pub(super) async fn discover(
        &self,
        conversation: &Arc<Conversation>,
        patience: Patience,
    ) -> Result<DiscoverResult, McpClientError> {
        match self {
            Self::Modern(modern) => modern.discover(conversation, patience).await.cloned(),
            Self::Legacy(legacy) => Ok(legacy.discover()),
        }
    }

    /// Begins to listen to what the server says by itself, where somebody wants to hear it.
    pub(super) fn begin(&self, conversation: &Arc<Conversation>) {
        if let Self::Legacy(legacy) = self {
            legacy.begin(conversation);
        }
    }

    /// Tells the server that this was all.
    pub(super) async fn end(&self, conversation: &Arc<Conversation>) -> Result<(), McpClientError> {
        match self {
            Self::Modern(_) => Ok(()),
            Self::Legacy(legacy) => legacy.end(conversation).await,
        }
    }
}
