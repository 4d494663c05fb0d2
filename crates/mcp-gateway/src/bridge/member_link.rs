//! Reports of a bridge to the federation that its server belongs to: about changes, failures and tasks.

use std::fmt;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::to_raw_value;
use thruway_mcp::federated::UriRewriter;
use thruway_mcp::modern::{ResultType, result_type};
use thruway_mcp::schema::{TaskStatus, methods};
use thruway_mcp::{Era, Revision};
use thruway_mcp_client::forwarding::{Answer, ForwardedCall, Sender, empty_object};
use thruway_mcp_client::{McpClient, McpClientError};
use thruway_mcp_server::backend::{Change, Holder};

use super::upstream::Upstream;

/// The federation's view of one of its members.
pub(crate) trait MemberLink: fmt::Debug + Send + Sync {
    /// Returns the name of the member.
    fn name(&self) -> &str;

    /// Called after the member has reported a change, and before clients are notified.
    fn note_change(&self, change: &Change);

    /// Called after a request to the member has failed.
    fn note_failure(&self, error: &McpClientError);

    /// Called when a call has become a task.
    fn note_task(&self, task: StartedTask);

    /// Called when the task with this own id of the member has ended.
    fn note_end_of_task(&self, id: &str);

    /// Returns the mapping of the member's URIs. Returns `None` if clients use the member's own URIs.
    fn uris(&self) -> Option<&UriRewriter>;
}

/// Returns the change that clients get for a change of `member`: the URI of a resource is public.
pub(super) fn public_change(member: Option<&dyn MemberLink>, change: Change) -> Change {
    match (member.and_then(MemberLink::uris), &change) {
        (Some(uris), Change::Resource(own)) => Change::Resource(uris.public(own).into()),
        _ => change,
    }
}

/// Returns the prefix of the task ids for tasks of `member`. Empty for a bridge.
pub(super) fn task_prefix(member: Option<&dyn MemberLink>) -> Box<str> {
    member.map_or_else(String::new, |member| format!("{}.", member.name())).into()
}

/// A call that has become a task.
pub(crate) struct StartedTask {
    /// The caller of the tool.
    pub(crate) holder: Holder,
    /// The member's own name of the tool.
    pub(crate) tool: Box<str>,
    pub(crate) poll: TaskPoll,
}

/// Requests the state of a task.
pub(crate) struct TaskPoll {
    client: McpClient,
    revision: Revision,
    /// The member's own id of the task.
    pub(crate) id: Box<str>,
}

/// The members of a task's state that the gateway needs, in both eras.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskState {
    task_id: Box<str>,
    status: TaskStatus,
}

impl TaskState {
    fn of(answer: &Answer) -> Option<Self> {
        serde_json::from_str(answer.get()).ok()
    }

    const fn is_over(&self) -> bool {
        matches!(self.status, TaskStatus::Cancelled | TaskStatus::Completed | TaskStatus::Failed)
    }
}

impl TaskPoll {
    /// Returns `true` if the task has ended, or if the member does not know it anymore.
    pub(crate) async fn is_over(&self) -> bool {
        match self.client.forward(&self.request()).await {
            Ok(answer) => TaskState::of(&answer).is_none_or(|state| state.is_over()),
            Err(McpClientError::Server(_)) => true,
            // The request belongs to the process of the task, so the process has exited.
            Err(McpClientError::Closed) => self.client.is_on_stream(),
            Err(_) => self.client.is_closed(),
        }
    }

    fn request(&self) -> ForwardedCall {
        let sender = Sender { capabilities: TASKS.into(), info: INFO.into(), log_level: None };
        ForwardedCall {
            method: methods::TASKS_GET.into(),
            name: Some(self.id.clone()),
            params: to_raw_value(&json!({"taskId": self.id})).unwrap_or_else(|_| empty_object()),
            has_meta: false,
            param_headers: None,
            sender: (self.revision.era() == Era::Modern).then_some(sender),
            round: Vec::new(),
            requester: None,
            progress: None,
            progress_token: None,
            trace: None,
            is_of_process: true,
        }
    }
}

impl dyn MemberLink {
    /// Reports a task that begins or ends with `answer`. A modern server has sent the answer to `forwarded_call`.
    pub(super) fn report_task_in(
        &self,
        answer: &Answer,
        forwarded_call: &ForwardedCall,
        holder: &Holder,
        (upstream, revision): (&Upstream, Revision),
    ) {
        if !answer.get().contains("\"taskId\"") {
            return;
        }
        let Some(state) = TaskState::of(answer) else { return };
        if state.is_over() {
            self.note_end_of_task(&state.task_id);
        } else if *forwarded_call.method == *methods::TOOLS_CALL
            && result_type(answer) == Ok(ResultType::Task)
        {
            self.report_task(state.task_id, forwarded_call, holder, (upstream, revision));
        }
    }

    /// Reports that a call has become a task. The server uses `revision`.
    pub(super) fn report_task(
        &self,
        id: Box<str>,
        forwarded_call: &ForwardedCall,
        holder: &Holder,
        (upstream, revision): (&Upstream, Revision),
    ) {
        let Some(tool) = &forwarded_call.name else { return };
        let poll = TaskPoll { client: upstream.client.clone(), revision, id };
        self.note_task(StartedTask { holder: holder.clone(), tool: tool.clone(), poll });
    }
}

/// The capabilities of a client with support for tasks.
const TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// The name and the version of the gateway in its own requests about tasks.
const INFO: &str = concat!(r#"{"name":"thruway","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
