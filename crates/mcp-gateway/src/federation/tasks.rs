//! The list of a session's tasks at all members (MCP revision 2025-11-25).

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::json_rpc::{Error, Id, Request, write_result};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{RequestId, methods};
use thruway_mcp_client::McpClientError;
use thruway_mcp_server::backend::{Caller, LegacyRequest, ServerCore, Session};
use tokio::time::timeout;

use super::durable::TaskRecord;
use super::gateway_core::GatewayCore;
use super::visible_members::VisibleMembers;
use crate::bridge::{BridgeCore, list_tasks, no_method};

/// A request for the list of tasks.
pub(super) struct TaskListRequest<'r> {
    pub(super) core: &'r Arc<ServerCore>,
    pub(super) caller: &'r Caller,
    pub(super) session: &'r Arc<Session>,
    pub(super) id: &'r RequestId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tasks: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct TaskList {
    tasks: Vec<Box<RawValue>>,
}

impl TaskListRequest<'_> {
    /// Appends an answer with the tasks of a session at all members. The answer is a single page, because a
    /// session has few tasks. Omits the tasks of missing members, and of members that the caller cannot use.
    pub(super) async fn handle(&self, gateway: &GatewayCore, output: &mut Vec<u8>) {
        let revision = self.session.revision;
        let mut tasks = Vec::new();
        let mut has_tasks = false;
        let visible = VisibleMembers::of(gateway, self.caller).await;
        for (_, member) in gateway.members.iter().enumerate().filter(|(index, _)| visible.contains(*index)) {
            let Some(bridge) = member.bridge() else { continue };
            if bridge.capabilities(revision).tasks.is_none() {
                continue;
            }
            has_tasks = true;
            let listed = timeout(gateway.list_wait, self.tasks_at(bridge)).await;
            match listed.unwrap_or(Err(McpClientError::TimedOut)) {
                Ok(more) => tasks.extend(more),
                Err(error) => tracing::debug!(server = %member.name, "cannot list tasks: {error}"),
            }
        }
        tasks.extend(self.tasks_in_archive(gateway, &visible, &tasks).await);
        write_result(output, &Id::from(self.id), |output| {
            if !has_tasks {
                return Err(no_method());
            }
            let invalid = |_| Error::internal("cannot write the list of tasks as JSON");
            serde_json::to_writer(output, &TaskList { tasks }).map_err(invalid)
        });
    }

    /// Returns the stored tasks of the caller that `listed` does not contain.
    async fn tasks_in_archive(
        &self,
        gateway: &GatewayCore,
        visible: &VisibleMembers,
        listed: &[Box<RawValue>],
    ) -> Vec<Box<RawValue>> {
        let Some(durable) = &gateway.durable else { return Vec::new() };
        let listed: HashSet<_> = listed.iter().filter_map(|task| id_of(task)).collect();
        let is_missing = |record: &TaskRecord| {
            let member = record.id.split_once('.').and_then(|(member, _)| gateway.names.member(member));
            member.is_some_and(|member| visible.contains(member)) && !listed.contains(&*record.id)
        };
        let records = durable.list(self.caller.principal().as_deref()).await;
        let missing = records.iter().filter(|record| is_missing(record));
        missing.filter_map(|record| to_raw_value(record.state()).ok()).collect()
    }

    /// Returns the tasks of the session at one member.
    async fn tasks_at(&self, bridge: &Arc<BridgeCore>) -> Result<Vec<Box<RawValue>>, McpClientError> {
        let invalid = |error| McpClientError::result_invalid(&error);
        let (mut tasks, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let params = to_raw_value(&params).map_err(invalid)?;
            let answer = self.page_at(bridge, &params).await?;
            let page: Page<'_> = serde_json::from_str(answer.get()).map_err(invalid)?;
            tasks.extend(page.tasks.into_iter().map(ToOwned::to_owned));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(tasks)
    }

    async fn page_at(
        &self,
        bridge: &Arc<BridgeCore>,
        params: &RawValue,
    ) -> Result<Box<RawValue>, McpClientError> {
        let request = Request {
            id: Id::from(self.id),
            method: Cow::Borrowed(methods::TASKS_LIST),
            params: Some(params),
        };
        let params = Params::parse(request.params).map_err(McpClientError::Server)?;
        let incoming = LegacyRequest {
            core: self.core,
            session: Some(self.session),
            revision: self.session.revision,
            request: &request,
            params: &params,
            caller: self.caller,
        };
        list_tasks(bridge, &incoming).await
    }
}

/// Returns the id of a task.
fn id_of(task: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Task<'a> {
        #[serde(borrow)]
        task_id: Cow<'a, str>,
    }
    serde_json::from_str::<Task<'_>>(task.get()).ok().map(|task| task.task_id)
}

/// Maximum number of pages that the gateway requests from one member.
const PAGES_MAX: usize = 64;
