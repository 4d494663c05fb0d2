//! The negotiated protocol of each era, and the request type that both eras share.

use std::sync::{Arc, Mutex};

use thruway_client::ClientError;
use thruway_mcp::modern::RequestWriter;
use thruway_mcp::schema::{DiscoverResult, InitializeResult, MetaObject};
use thruway_mcp::{Era, Revision};
use thruway_message::FieldLinesBuf;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use super::super::deadline::{Progress, RequestTimeouts};
use super::super::error::McpClientError;
use super::super::queue::Queue;

/// The protocol that was negotiated with the server.
#[derive(Debug)]
pub(crate) enum NegotiatedProtocol {
    Modern(Modern),
    Legacy(Legacy),
}

/// Returns the header that contains the protocol revision. Servers that do not know the header ignore it.
pub(super) fn version_line(revision: Revision) -> Result<FieldLinesBuf, McpClientError> {
    let mut field_lines = FieldLinesBuf::new();
    field_lines.append("MCP-Protocol-Version", revision.as_str()).map_err(ClientError::FieldInvalid)?;
    Ok(field_lines)
}

/// A request, in the form that both eras share.
pub(crate) struct Call<'c, P> {
    pub(crate) method: &'static str,
    /// The parameters without `_meta`.
    pub(crate) params: P,
    /// The tool, prompt or resource that the request names.
    pub(crate) name: Option<&'c str>,
    /// The headers that repeat arguments of the request.
    pub(crate) mirrored: FieldLinesBuf,
    pub(crate) meta: Option<&'c MetaObject>,
    pub(crate) request_timeouts: RequestTimeouts,
    pub(crate) progress: Option<Arc<Progress>>,
    pub(crate) queue: Option<Arc<Queue>>,
}

impl<P> Call<'_, P> {
    /// Creates a request that names no tool, prompt or resource, and that has no metadata.
    pub(crate) const fn new(method: &'static str, params: P, request_timeouts: RequestTimeouts) -> Self {
        Self {
            method,
            params,
            name: None,
            mirrored: FieldLinesBuf::new(),
            meta: None,
            request_timeouts,
            progress: None,
            queue: None,
        }
    }
}

impl NegotiatedProtocol {
    pub(crate) const fn era(&self) -> Era {
        self.revision().era()
    }

    pub(crate) const fn revision(&self) -> Revision {
        match self {
            Self::Modern(modern) => modern.revision,
            Self::Legacy(legacy) => legacy.revision,
        }
    }

    /// `true` if the client may request tasks for tool calls, as in MCP revision 2025-11-25. In later
    /// revisions, the server decides which calls become tasks.
    pub(crate) const fn allows_task_calls(&self) -> bool {
        match self {
            Self::Modern(_) => false,
            Self::Legacy(legacy) => legacy.has_tasks,
        }
    }

    /// Returns the headers for notifications and answers.
    pub(crate) const fn field_lines(&self) -> &FieldLinesBuf {
        match self {
            Self::Modern(modern) => &modern.field_lines,
            Self::Legacy(legacy) => &legacy.field_lines,
        }
    }
}

/// The state of the protocol with a modern server.
#[derive(Debug)]
pub(crate) struct Modern {
    pub(super) revision: Revision,
    /// The headers for notifications and answers.
    pub(super) field_lines: FieldLinesBuf,
    pub(super) writer: RequestWriter,
    pub(super) discovered: OnceCell<DiscoverResult>,
}

/// A session with a legacy server.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(super) revision: Revision,
    pub(super) result: InitializeResult,
    /// `true` if the server has assigned a session id.
    pub(super) has_session: bool,
    /// The headers of every message in this session.
    pub(super) field_lines: FieldLinesBuf,
    /// `true` if the client may request tasks for tool calls (MCP revision 2025-11-25).
    pub(super) has_tasks: bool,
    /// The task that reads messages outside of responses (HTTP only).
    pub(super) listening: Mutex<Option<Listening>>,
}

/// When dropped, aborts the task that reads messages outside of responses.
#[derive(Debug)]
pub(super) struct Listening(pub(super) AbortHandle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}
