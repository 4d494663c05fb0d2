//! The connections of a bridge to its server in one era: legacy or modern. If the server supports both eras,
//! the bridge connects twice, once in each era. The reason is that some servers have more features in the
//! legacy era. For example, they ask questions during a call only in that era.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use thruway_mcp::schema::{DiscoverResult, ServerCapabilities};
use thruway_mcp::{Era, Revision};
use thruway_mcp_client::forwarding::is_refusal_of_era;
use thruway_mcp_client::{EraChoice, McpClientError};
use tokio::time::{Instant, timeout};

use super::tasks::TasksOfSession;
use super::upstreams::{Connector, Upstreams};

/// The connections of a bridge to its server in one era. Contains the protocol revision and the capabilities
/// that the server reported in this era.
pub(crate) struct EraServer {
    pub(super) revision: Revision,
    pub(super) capabilities: ServerCapabilities,
    pub(super) upstreams: Upstreams,
}

/// The legacy connections to a server, if the server supports both eras. Also contains the result of the
/// check for this support.
pub(super) struct LegacyEraServer {
    side: OnceLock<Arc<EraServer>>,
    probe: Mutex<Probe>,
}

/// The state of the attempts to detect whether the server supports the legacy era.
#[derive(Clone, Copy)]
enum Probe {
    /// All previous attempts failed. The next attempt starts at this time or later.
    DueAt(Instant),
    Running,
    /// No further attempt is necessary. Either the server's answer was clear, or the operator has configured
    /// the era.
    Decided,
}

impl EraServer {
    /// Connects to the server in `era` and requests its capabilities.
    ///
    /// # Errors
    /// The server is unreachable, or does not report its capabilities in this era.
    pub(super) async fn connect(
        connector: &Connector,
        era: EraChoice,
    ) -> Result<(Self, DiscoverResult), McpClientError> {
        let mut upstreams = Upstreams::new(connector, era);
        let first = upstreams.connect_first()?;
        let described = async {
            let discovered = first.client.discover().await?;
            Ok((discovered, first.client.revision().await?))
        };
        match described.await {
            Ok((discovered, revision)) => {
                if era == EraChoice::Auto {
                    // The bridge now knows the era, so later connections do not detect it again.
                    let is_legacy = revision.era() == Era::Legacy;
                    upstreams.era = if is_legacy { EraChoice::Legacy } else { EraChoice::Modern };
                }
                upstreams.put(first);
                let capabilities = discovered.capabilities.clone();
                Ok((Self { revision, capabilities, upstreams }, discovered))
            }
            Err(error) => {
                first.client.clone().close().await;
                Err(error)
            }
        }
    }

    /// Returns the era that the bridge uses on these connections to the server.
    pub(super) const fn era(&self) -> Era {
        self.revision.era()
    }

    /// Returns the capabilities that the server offers to clients of the revision `near`.
    pub(crate) fn capabilities(&self, near: Revision) -> ServerCapabilities {
        let mut capabilities = self.capabilities.clone();
        capabilities.tasks = capabilities.tasks.filter(|_| self.passes_tasks(near));
        capabilities
    }

    /// Returns `true` if the client (revision `near`) and the server both use MCP revision 2025-11-25, and
    /// the server supports tasks.
    fn passes_tasks(&self, near: Revision) -> bool {
        let is_known = near == Revision::R20251125 && self.revision == Revision::R20251125;
        is_known && self.capabilities.has_calls_as_tasks()
    }

    /// Returns `true` if the server supports the cancellation of tasks.
    fn can_cancel_tasks(&self) -> bool {
        self.capabilities.tasks.as_ref().is_some_and(|tasks| tasks.contains_key("cancel"))
    }

    /// Returns a guard that owns the tasks of a session. Dropping the guard cancels these tasks. Returns
    /// `None` if the bridge does not forward tasks for this session.
    pub(crate) fn tasks_of_session(&self, near: Revision) -> Option<TasksOfSession> {
        let session_id = self.upstreams.next_id();
        let tasks = || TasksOfSession::new(self.upstreams.tasks.clone(), session_id, self.can_cancel_tasks());
        self.passes_tasks(near).then(tasks)
    }

    /// Subscribes to changes of the tool list, the prompt list and the resource list. Ignores errors.
    pub(crate) async fn watch_lists(&self) {
        if let Ok(upstream) = self.upstreams.plain().await {
            let _ = upstream.watch_lists().await;
        }
    }
}

impl LegacyEraServer {
    /// Creates the state, and sends nothing to the server. If `is_asked` is `false`, the bridge never tries
    /// the legacy era.
    pub(super) fn new(is_asked: bool) -> Self {
        let probe = if is_asked { Probe::DueAt(Instant::now()) } else { Probe::Decided };
        Self { side: OnceLock::new(), probe: Mutex::new(probe) }
    }

    /// Returns the legacy connections, if the bridge has detected that the server supports the legacy era.
    pub(super) fn get(&self) -> Option<&Arc<EraServer>> {
        self.side.get()
    }

    /// Sends `initialize` to the server, to detect whether the server supports the legacy era. Does nothing
    /// if the bridge already knows the result, or if another attempt is running. The list of revisions in the
    /// result of `server/discover` is not sufficient: some servers omit the legacy revisions from this list,
    /// but accept `initialize`.
    pub(super) async fn probe(&self, connector: &Connector, is_on_stream: bool) {
        if !self.begin() {
            return;
        }
        let wait = PROBE_WAIT.min(connector.options.client.timeout);
        let outcome = timeout(wait, EraServer::connect(connector, EraChoice::Legacy)).await;
        let is_decided = match outcome.unwrap_or(Err(McpClientError::TimedOut)) {
            Ok((side, _)) => {
                self.side.get_or_init(|| Arc::new(side));
                true
            }
            Err(error) if is_refusal(&error, is_on_stream) => {
                tracing::debug!(
                    "the server does not support a legacy revision, the bridge uses MCP revision \
                     2026-07-28 for all requests: {error}"
                );
                true
            }
            Err(error) => {
                tracing::warn!(
                    "cannot detect whether the server supports a legacy revision, the bridge uses MCP \
                     revision 2026-07-28 for all requests until a later attempt succeeds: {error}"
                );
                false
            }
        };
        let next = if is_decided { Probe::Decided } else { Probe::DueAt(Instant::now() + PROBE_PAUSE) };
        *self.probe.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    fn begin(&self) -> bool {
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = matches!(*probe, Probe::DueAt(at) if at <= Instant::now());
        if is_due {
            *probe = Probe::Running;
        }
        is_due
    }

    /// Returns `true` if the bridge does not know yet whether the server supports the legacy era.
    pub(super) fn is_undecided(&self) -> bool {
        !matches!(*self.probe.lock().unwrap_or_else(PoisonError::into_inner), Probe::Decided)
    }
}

/// Returns `true` if the error shows that the server does not support the legacy era. Returns `false` if the
/// failure may be temporary.
fn is_refusal(error: &McpClientError, is_on_stream: bool) -> bool {
    match error {
        McpClientError::Status(status) => is_refusal_of_era(status.as_u16()),
        // Some child processes exit or stop responding when they get an unknown method.
        McpClientError::Closed | McpClientError::TimedOut | McpClientError::TooManyRestarts => is_on_stream,
        McpClientError::Server(_)
        | McpClientError::UnsupportedRevision
        | McpClientError::MessageInvalid
        | McpClientError::ResultInvalid(_) => true,
        _ => false,
    }
}

impl fmt::Debug for EraServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EraServer").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// Maximum time that the bridge waits for the answer to `initialize`. The bridge starts to serve clients only
/// after this wait.
const PROBE_WAIT: Duration = Duration::from_secs(10);

/// Minimum time between two attempts to detect the legacy era.
const PROBE_PAUSE: Duration = Duration::from_secs(10);
