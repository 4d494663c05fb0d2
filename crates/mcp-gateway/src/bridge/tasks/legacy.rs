//! Forwards requests about tasks if the client and the server both use MCP revision 2025-11-25.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::members::{append_member, append_members};
use thruway_mcp::schema::methods;
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall};
use thruway_mcp_server::backend::{LegacyRequest, Status};

use super::fields::TaskFields;
use super::json::{CREATED_ID, RELATED_ID, TASK_ID, replaced};
use super::table::{Found, TaskIdMap};
use crate::bridge::bridge_core::BridgeCore;
use crate::bridge::legacy::{Forwarding, SessionClient};
use crate::bridge::messages::forwarded_call;

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    tasks: Vec<&'a RawValue>,
}

/// Returns a page of the list of tasks, as the client of the session sees it.
///
/// # Errors
/// The client has no session, the server is unreachable, or the server does not answer with a list.
pub(crate) async fn list_tasks(
    bridge: &Arc<BridgeCore>,
    incoming: &LegacyRequest<'_>,
) -> Result<Answer, McpClientError> {
    let session = incoming.session.ok_or_else(no_task)?;
    let (session_client, _messages) = SessionClient::new(session, bridge, incoming.params);
    let forwarding = Forwarding::new(bridge, incoming);
    let mut forwarded_call = forwarded_call(incoming.request, incoming.params);
    forwarding.list_tasks(&mut forwarded_call, &session_client).await
}

impl Forwarding {
    /// Forwards a call that the client wants to run as a task.
    pub(in crate::bridge) async fn forward_as_task(
        self,
        mut forwarded_call: ForwardedCall,
        session_client: SessionClient,
    ) -> (Vec<u8>, Status) {
        let outcome = self.begin_task(&mut forwarded_call, &session_client).await;
        self.write(&forwarded_call.method, outcome)
    }

    async fn begin_task(
        &self,
        forwarded_call: &mut ForwardedCall,
        session_client: &SessionClient,
    ) -> Result<Answer, McpClientError> {
        let upstream = self.upstream().await?;
        let owner = session_client.owner().ok_or_else(no_task)?;
        let owner_and_holder = (owner.clone(), session_client.holder());
        let reserved = self.tasks().reserve(owner_and_holder, &upstream, session_client.task_message_sink());
        let reserved = reserved.map_err(McpClientError::Server)?;
        forwarded_call.is_of_process = true;
        forwarded_call.progress_token = Some(reserved.id.clone());
        forwarded_call.requester = Some(
            session_client
                .requester(self.task_ids(session_client, upstream.connection_id()), Some(reserved.clone())),
        );
        let answer = upstream.client.forward(forwarded_call).await?;
        if !reserved.settle(&answer)? {
            // The server may answer the call without creating a task.
            return Ok(answer);
        }
        if let Ok(Some(task)) = TaskFields::created(&answer) {
            let server = (&*upstream, Revision::R20251125);
            if let Some(member) = &self.bridge().member {
                member.report_task(task.task_id, forwarded_call, session_client.holder(), server);
            }
        }
        let answer = replaced(&answer, CREATED_ID, &reserved.id).unwrap_or(answer);
        Ok(related_to(answer, &reserved.id))
    }

    /// Forwards a request about the task `id`, or a request for the list of tasks.
    pub(in crate::bridge) async fn forward_about_tasks(
        self,
        mut forwarded_call: ForwardedCall,
        session_client: SessionClient,
        id: Option<Box<str>>,
    ) -> (Vec<u8>, Status) {
        let outcome = match (&*forwarded_call.method, id) {
            (methods::TASKS_LIST, _) => self.list_tasks(&mut forwarded_call, &session_client).await,
            (_, Some(id)) => self.ask_about_task(&mut forwarded_call, &session_client, &id).await,
            (_, None) => Err(McpClientError::Server(Error::invalid_params("`taskId` is missing"))),
        };
        self.write(&forwarded_call.method, outcome)
    }

    async fn ask_about_task(
        &self,
        forwarded_call: &mut ForwardedCall,
        session_client: &SessionClient,
        id: &str,
    ) -> Result<Answer, McpClientError> {
        let owner = session_client.owner().ok_or_else(no_task)?;
        let found = self.tasks().find(id, owner).map_err(McpClientError::Server)?;
        forwarded_call.params = replaced(&forwarded_call.params, TASK_ID, &found.id).ok_or_else(no_task)?;
        forwarded_call.is_of_process = true;
        session_client
            .attach_to(forwarded_call, self.task_ids(session_client, found.upstream.connection_id()));
        if *forwarded_call.method != *methods::TASKS_RESULT {
            return self.request_task_status(forwarded_call, &found, id).await;
        }
        self.tasks().update_sink(id, |sink| session_client.redirect(sink));
        let outcome = found.upstream.client.clone().with_full_timeout().forward(forwarded_call).await;
        found.check()?;
        if matches!(outcome, Ok(_) | Err(McpClientError::Server(_))) {
            self.tasks().note_end(id);
            if let Some(member) = &self.bridge().member {
                member.note_end_of_task(&found.id);
            }
        }
        Ok(related_to(outcome?, id))
    }

    async fn request_task_status(
        &self,
        forwarded_call: &ForwardedCall,
        found: &Found,
        id: &str,
    ) -> Result<Answer, McpClientError> {
        let outcome = found.upstream.client.forward(forwarded_call).await;
        found.check()?;
        let answer = outcome?;
        let fields = TaskFields::parse(answer.get())?;
        if fields.task_id != found.id {
            return Err(McpClientError::result_invalid(&"the state belongs to another task"));
        }
        self.tasks().note(id, &fields);
        if fields.is_over()
            && let Some(member) = &self.bridge().member
        {
            member.note_end_of_task(&found.id);
        }
        let answer = replaced(&answer, TASK_ID, id).unwrap_or(answer);
        Ok(related_to(answer, id))
    }

    /// Forwards a request for the list of tasks, and removes the tasks of other clients from the answer.
    async fn list_tasks(
        &self,
        forwarded_call: &mut ForwardedCall,
        session_client: &SessionClient,
    ) -> Result<Answer, McpClientError> {
        let upstream = self.upstream().await?;
        let task_ids = self.task_ids(session_client, upstream.connection_id()).ok_or_else(no_task)?;
        session_client.attach_to(forwarded_call, Some(task_ids.clone()));
        let answer = upstream.client.forward(forwarded_call).await?;
        let invalid = |error| McpClientError::result_invalid(&error);
        let page: Page<'_> = serde_json::from_str(answer.get()).map_err(invalid)?;
        let own: Vec<_> = page.tasks.into_iter().filter_map(|task| own_of(&task_ids, task)).collect();
        let own = to_raw_value(&own).map_err(invalid)?;
        let mut output = b"{".to_vec();
        append_members(&mut output, &answer, |name, _| name != "tasks")
            .map_err(|_| McpClientError::result_invalid(&"the list of tasks is not an object"))?;
        append_member(&mut output, "tasks", own.get());
        output.push(b'}');
        RawValue::from_string(String::from_utf8(output).unwrap_or_default()).map_err(invalid)
    }
}

/// Replaces the server's task id in one entry of a task list with the client's task id. Returns `None` if
/// the task belongs to another client.
fn own_of(task_ids: &TaskIdMap, task: &RawValue) -> Option<Box<RawValue>> {
    let fields = TaskFields::parse(task.get()).ok()?;
    replaced(task, TASK_ID, &task_ids.at_client(&fields.task_id)?)
}

/// Replaces the task id in the metadata of `answer` with `id`, which is the client's id of the task.
fn related_to(answer: Answer, id: &str) -> Answer {
    replaced(&answer, RELATED_ID, id).unwrap_or(answer)
}

fn no_task() -> McpClientError {
    McpClientError::Server(Error::invalid_params("there is no such task"))
}
