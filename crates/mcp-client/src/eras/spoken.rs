//! The state of what was agreed upon with the server, in each era, and requests of any era.

use std::sync::{Arc, Mutex};

use thruway_client::ClientError;
use thruway_mcp::modern::RequestWriter;
use thruway_mcp::schema::{DiscoverResult, InitializeResult, MetaObject};
use thruway_mcp::{Era, Revision};
use thruway_message::FieldLinesBuf;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use super::super::deadline::{Patience, Progress};
use super::super::error::McpClientError;
use super::super::queue::Queue;

/// What was agreed upon with the server.
#[derive(Debug)]
pub(crate) enum Spoken {
    Modern(Modern),
    Legacy(Legacy),
}

/// The header that says in which revision a message is. Those that do not know it do not mind it.
pub(super) fn version_line(revision: Revision) -> Result<FieldLinesBuf, McpClientError> {
    let mut field_lines = FieldLinesBuf::new();
    field_lines.append("MCP-Protocol-Version", revision.as_str()).map_err(ClientError::FieldInvalid)?;
    Ok(field_lines)
}

/// A request, whatever the era.
pub(crate) struct Call<'c, P> {
    pub(crate) method: &'static str,
    /// What the method's type has besides `_meta`.
    pub(crate) params: P,
    /// The tool, prompt or resource that it names.
    pub(crate) name: Option<&'c str>,
    /// The headers that mirror its arguments.
    pub(crate) mirrored: FieldLinesBuf,
    pub(crate) meta: Option<&'c MetaObject>,
    pub(crate) patience: Patience,
    pub(crate) progress: Option<Arc<Progress>>,
    pub(crate) queue: Option<Arc<Queue>>,
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
    pub(crate) const fn era(&self) -> Era {
        self.revision().era()
    }

    pub(crate) const fn revision(&self) -> Revision {
        match self {
            Self::Modern(modern) => modern.revision,
            Self::Legacy(legacy) => legacy.revision,
        }
    }

    /// Whether a client may make tasks of calls: in one revision it, and not the server, decides.
    pub(crate) const fn lets_calls_be_tasks(&self) -> bool {
        match self {
            Self::Modern(_) => false,
            Self::Legacy(legacy) => legacy.has_tasks,
        }
    }

    /// The headers of a message that is no request.
    pub(crate) const fn field_lines(&self) -> &FieldLinesBuf {
        match self {
            Self::Modern(modern) => &modern.field_lines,
            Self::Legacy(legacy) => &legacy.field_lines,
        }
    }
}

/// A server of the modern era.
#[derive(Debug)]
pub(crate) struct Modern {
    pub(super) revision: Revision,
    /// The headers of a message that is no request.
    pub(super) field_lines: FieldLinesBuf,
    pub(super) writer: RequestWriter,
    pub(super) discovered: OnceCell<DiscoverResult>,
}

/// A session with a server of the legacy era.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(super) revision: Revision,
    pub(super) result: InitializeResult,
    /// Whether messages belong to a session by its id.
    pub(super) has_session: bool,
    /// The headers of any message of this session.
    pub(super) field_lines: FieldLinesBuf,
    /// Whether tools may be called as tasks (2025-11-25).
    pub(super) has_tasks: bool,
    /// The task that reads what the server says by itself, over HTTP.
    pub(super) listening: Mutex<Option<Listening>>,
}

/// Ends the task when it is dropped.
#[derive(Debug)]
pub(super) struct Listening(pub(super) AbortHandle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}
