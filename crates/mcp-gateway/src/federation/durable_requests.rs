//! Requests about durable tasks: stores the tasks that calls become, and answers for tasks of ended gateways.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::json_rpc::Id;
use thruway_mcp::params::Params;
use thruway_mcp::schema::{RequestId, methods};
use thruway_mcp::{Era, Revision};
use thruway_mcp_client::McpClientError;
use thruway_mcp_server::backend::{Caller, Reply, ServerCore, Session, Status};
use tokio::time::sleep;

use super::durable::{ArchiveFuture, AskTask, DurableTasks, TaskRecord, is_error, shows_end};
use super::gateway_core::GatewayCore;
use super::request::{Client, OwnedRequest};
use super::visible_members::VisibleMembers;
use crate::bridge::{BridgeCore, ask_about_own_task, own_task_id};

impl OwnedRequest {
    /// Selects the member for the request, and lets it handle the request. Tasks survive this gateway.
    pub(super) async fn forward_durably(
        self,
        gateway: &Arc<GatewayCore>,
        durable: &Arc<DurableTasks>,
    ) -> (Vec<u8>, Reply) {
        let era = self.revision.era();
        match &*self.method {
            methods::TOOLS_CALL => {
                let (durable, source) = (durable.clone(), Arc::new(CallerOfTask::of(&self, gateway)));
                let caller = self.caller.principal();
                let (output, reply) = self.forward(gateway).await;
                then(output, reply, move |answer, status| async move {
                    durable.begin(&answer, era, caller, source).await;
                    (answer, status)
                })
                .await
            }
            methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL | methods::TASKS_RESULT => {
                let lookup = Lookup::of(&self, gateway, durable);
                let (output, reply) = self.forward(gateway).await;
                let Some(lookup) = lookup else { return (output, reply) };
                then(output, reply, move |answer, status| lookup.corrected(answer, status)).await
            }
            _ => self.forward(gateway).await,
        }
    }
}

/// Lets `change` replace the answer, now or later.
async fn then<F>(
    output: Vec<u8>,
    reply: Reply,
    change: impl FnOnce(Vec<u8>, Status) -> F + Send + 'static,
) -> (Vec<u8>, Reply)
where
    F: Future<Output = (Vec<u8>, Status)> + Send + 'static,
{
    match reply {
        Reply::Later(exchange) => (output, Reply::Later(exchange.then(change))),
        Reply::Now(status) => {
            let (output, status) = change(output, status).await;
            (output, Reply::Now(status))
        }
        forbidden @ Reply::Forbidden(_) => (output, forbidden),
    }
}

/// A request about a task.
struct Lookup {
    gateway: Arc<GatewayCore>,
    durable: Arc<DurableTasks>,
    core: Arc<ServerCore>,
    caller: Caller,
    id: RequestId,
    method: Box<str>,
    era: Era,
    task: String,
    /// The index of the member that the task id names.
    member: usize,
}

impl Lookup {
    /// Returns `None` if the request names no task of a member.
    fn of(request: &OwnedRequest, gateway: &Arc<GatewayCore>, durable: &Arc<DurableTasks>) -> Option<Self> {
        let task = Params::parse(request.params.as_deref()).ok()?.task_id?.into_owned();
        let (member, _) = task.split_once('.')?;
        Some(Self {
            member: gateway.names.member(member)?,
            gateway: gateway.clone(),
            durable: durable.clone(),
            core: request.core.clone(),
            caller: request.caller.clone(),
            id: request.id.clone(),
            method: request.method.clone(),
            era: request.revision.era(),
            task,
        })
    }

    /// Returns the answer of the archive if the member has answered with an error.
    async fn corrected(self, answer: Vec<u8>, status: Status) -> (Vec<u8>, Status) {
        if !is_error(&answer) {
            if shows_end(&self.method, &answer) {
                self.durable.settle(&self.task).await;
            } else if *self.method != *methods::TASKS_GET {
                self.durable.note_change(&self.task);
            }
            return (answer, status);
        }
        if self.durable.note_change(&self.task) {
            // The member has answered, or the watch is about to find the reason.
            return (answer, status);
        }
        if !VisibleMembers::of(&self.gateway, &self.caller).await.contains(self.member) {
            return (answer, status);
        }
        match self.answer_of_archive().await {
            Some(answer) => (answer, Status::Ok),
            None => (answer, status),
        }
    }

    async fn answer_of_archive(&self) -> Option<Vec<u8>> {
        loop {
            let caller = self.caller.principal();
            let mut record = self.durable.find(&self.task, self.era, caller.as_deref()).await?;
            if !record.is_over() {
                self.adopt(&mut record).await;
            }
            let mut output = Vec::new();
            if record.write_answer(&self.core, &Id::from(&self.id), &self.method, &mut output) {
                return Some(output);
            }
            // The client waits for the result of a task that continues elsewhere.
            sleep(RESULT_PAUSE).await;
        }
    }

    /// Requests the state of a task at its member, if its gateway has ended but the task continues at the member.
    async fn adopt(&self, record: &mut TaskRecord) {
        let Some(own_id) = record.own_id.clone() else { return };
        if !self.durable.is_orphan(record).await {
            return;
        }
        let Ok(bridge) = self.gateway.members[self.member].connected().await else { return };
        if *self.method == *methods::TASKS_CANCEL {
            // The state below shows whether the member has canceled the task.
            let _ = self.ask(&bridge, methods::TASKS_CANCEL, &own_id).await;
        }
        match self.ask(&bridge, methods::TASKS_GET, &own_id).await {
            Ok(state) => {
                record.take_state(&response(&state));
                if record.is_over() {
                    match self.ask(&bridge, methods::TASKS_RESULT, &own_id).await {
                        Ok(result) => record.take_result(&response(&result)),
                        Err(McpClientError::Server(error)) => record.take_error(error),
                        // The next request asks again.
                        Err(_) => return,
                    }
                    self.durable.put_adopted(record).await;
                }
            }
            Err(McpClientError::Server(_)) => {
                record.fail(
                    "the server does not know the task anymore, because the gateway that began it has ended",
                );
            }
            Err(error) => tracing::debug!("cannot ask a server about a task of an ended gateway: {error}"),
        }
    }

    async fn ask(
        &self,
        bridge: &Arc<BridgeCore>,
        method: &'static str,
        own_id: &str,
    ) -> Result<Box<RawValue>, McpClientError> {
        ask_about_own_task(bridge, &self.caller, method, own_id, &self.task).await
    }
}

/// Returns a response with this result.
fn response(result: &RawValue) -> Vec<u8> {
    format!("{{\"result\":{}}}", result.get()).into_bytes()
}

/// Asks about a task in the name of the caller that has begun it.
struct CallerOfTask {
    gateway: Weak<GatewayCore>,
    core: Weak<ServerCore>,
    caller: Caller,
    revision: Revision,
    /// The session of a legacy client.
    session: Option<Weak<Session>>,
}

impl CallerOfTask {
    fn of(request: &OwnedRequest, gateway: &Arc<GatewayCore>) -> Self {
        let session = match &request.client {
            Client::Legacy { session, .. } => session.as_ref().map(Arc::downgrade),
            Client::Modern { .. } => None,
        };
        Self {
            gateway: Arc::downgrade(gateway),
            core: Arc::downgrade(&request.core),
            caller: request.caller.clone(),
            revision: request.revision,
            session,
        }
    }

    /// Returns a request about the task `task`. Returns `None` if the session or the gateway has ended.
    fn request(&self, method: &'static str, task: &str) -> Option<OwnedRequest> {
        let client = match (self.revision.era(), &self.session) {
            (Era::Modern, _) => Client::Modern { param_headers: None, bytes: None },
            (Era::Legacy, session) => {
                let session = session.as_ref()?.upgrade()?;
                Client::Legacy { session: Some(session), outbox: None }
            }
        };
        let mut params = json!({"taskId": task});
        if self.revision.era() == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision.as_str(),
                "io.modelcontextprotocol/clientInfo": {"name": "thruway", "version": env!("CARGO_PKG_VERSION")},
                "io.modelcontextprotocol/clientCapabilities":
                    {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            });
        }
        Some(OwnedRequest {
            core: self.core.upgrade()?,
            caller: self.caller.clone(),
            id: RequestId::Integer(0),
            method: method.into(),
            params: Some(to_raw_value(&params).ok()?),
            revision: self.revision,
            client,
            progress: None,
            trace: None,
        })
    }
}

impl AskTask for CallerOfTask {
    fn ask<'a>(&'a self, method: &'static str, id: &'a str) -> ArchiveFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let (gateway, request) = (self.gateway.upgrade()?, self.request(method, id)?);
            let (output, reply) = request.forward(&gateway).await;
            match reply {
                Reply::Later(exchange) => {
                    Some(exchange.answer().await.map_or(Vec::new(), |(answer, _)| answer))
                }
                Reply::Now(_) | Reply::Forbidden(_) => Some(output),
            }
        })
    }

    fn own_id(&self, id: &str) -> Option<String> {
        let gateway = self.gateway.upgrade()?;
        let member = gateway.names.member(id.split_once('.')?.0)?;
        own_task_id(gateway.members[member].bridge()?, id)
    }
}

/// Pause between two checks for the result of a task that continues elsewhere.
const RESULT_PAUSE: Duration = Duration::from_secs(1);
