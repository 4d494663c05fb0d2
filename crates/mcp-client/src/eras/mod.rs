//! How a client speaks: what was agreed upon with the server.

mod negotiation;
mod modern;
mod legacy;

use std::sync::Arc;

use serde::Serialize;
use thruway_client::ClientError;
use thruway_mcp::Revision;
use thruway_mcp::schema::{DiscoverResult, MetaObject};
use thruway_message::FieldLinesBuf;

use super::binding::Outgoing;
use super::conversation::Conversation;
use super::deadline::{Patience, Progress};
use super::error::McpClientError;
use super::reading::{Read, Wanted};
use super::subscription::Queue;
use legacy::Legacy;
use modern::Modern;

pub use modern::may_ask;
pub use negotiation::is_refusal_of_era;
pub(super) use thruway_mcp::Era;

/// What was agreed upon with the server.
#[derive(Debug)]
pub(super) enum Spoken {
    Modern(Modern),
    Legacy(Legacy),
}

/// The header that says in which revision a message is. Those that do not know it do not mind it.
fn version_line(revision: Revision) -> Result<FieldLinesBuf, McpClientError> {
    let mut field_lines = FieldLinesBuf::new();
    field_lines.append("MCP-Protocol-Version", revision.as_str()).map_err(ClientError::FieldInvalid)?;
    Ok(field_lines)
}

/// A request, whatever the era.
pub(super) struct Call<'c, P> {
    pub(super) method: &'static str,
    /// What the method's type has besides `_meta`.
    pub(super) params: P,
    /// The tool, prompt or resource that it names.
    pub(super) name: Option<&'c str>,
    /// The headers that mirror its arguments.
    pub(super) mirrored: FieldLinesBuf,
    pub(super) meta: Option<&'c MetaObject>,
    pub(super) patience: Patience,
    pub(super) progress: Option<Arc<Progress>>,
    pub(super) queue: Option<Arc<Queue>>,
}

impl<P> Call<'_, P> {
    /// A request that names nothing, and says nothing else.
    pub(crate) const fn new(method: &'static str, params: P, patience: Patience) -> Self {
        Self {
            method,
            params,
            name: None,
            mirrored: FieldLinesBuf::new(),
            meta: None,
            patience,
            progress: None,
            queue: None,
        }
    }
}

impl Spoken {
    pub(super) const fn era(&self) -> Era {
        self.revision().era()
    }

    pub(super) const fn revision(&self) -> Revision {
        match self {
            Self::Modern(modern) => modern.revision,
            Self::Legacy(legacy) => legacy.revision,
        }
    }

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

    /// A request that has been written, with what stands around it; `mirrored` are the headers that mirror its arguments.
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

    /// Whether a client may make tasks of calls: in one revision it, and not the server, decides.
    pub(super) const fn lets_calls_be_tasks(&self) -> bool {
        match self {
            Self::Modern(_) => false,
            Self::Legacy(legacy) => legacy.has_tasks(),
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

    /// The headers of a message that is no request.
    pub(super) const fn field_lines(&self) -> &FieldLinesBuf {
        match self {
            Self::Modern(modern) => &modern.field_lines,
            Self::Legacy(legacy) => &legacy.field_lines,
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
