//! Tool calls that become tasks, and requests of clients about these tasks (SEP-2663).

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;

use serde_json::Value;
use thruway_mcp::json_rpc::{Error, ErrorCode, Id, write_error, write_result};
use thruway_mcp::modern::{self, ResultType};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{CallToolResult, ClientCapabilities, JsonObject, RequestId, methods};
use tokio::time::timeout;

use super::answering::Progress;
use super::{Answering, Exchange, Reply, Status};
use crate::ask::BoundRequest;
use crate::authorization::Caller;
use crate::backend::ModernRequest;
use crate::handlers::{Call, Later, Layer, Outcome, begin};
use crate::server::ServerCore;
use crate::tasks::{Start, Task, TaskSupport, Tasks};

impl Answering {
    /// Calls a tool that can run as a task. If the client does not support tasks, `support` decides: the
    /// tool runs like any other tool, or the server rejects the call.
    pub(super) fn call_task_tool(
        self,
        support: TaskSupport,
        layers: &[Arc<dyn Layer>],
        id: &Id<'_>,
        call: &Call<'_>,
        output: &mut Vec<u8>,
        handle: impl FnOnce(&Call<'_>) -> Outcome<CallToolResult>,
    ) -> Reply {
        match self.knows_tasks(call) {
            Ok(true) => {}
            Ok(false) if !support.is_required() => return self.answer(layers, id, call, output, handle),
            Ok(false) => return self.refuse(id, output, &self.tasks_required()),
            Err(error) => return self.refuse(id, output, &error),
        }
        let task = self.core().tasks.prepare(call.caller());
        let call = call.of_task(&task);
        match (begin(layers, &call, handle), support.start()) {
            (Outcome::Now(outcome), _) => Reply::Now(self.write(output, id, outcome)),
            (Outcome::Later(later), Start::AtOnce) => {
                let bytes = call.arguments().map_or(0, str::len);
                Reply::Now(begin_task(self.core(), id, (&task, bytes), later, output))
            }
            (Outcome::Later(later), Start::OnHandlerRequest) => {
                let messages = call.messages.take().map(|(_, messages)| messages);
                let request = call.bound();
                let answer = self.drive_to_task(id.to_owned(), request, task.clone(), later);
                Reply::Later(Exchange::new(answer, messages))
            }
        }
    }

    /// Returns `true` if the client supports the tasks of SEP-2663. Clients of the legacy era do not support
    /// them: MCP revision 2025-11-25 defines a different kind of tasks.
    fn knows_tasks(&self, call: &Call<'_>) -> Result<bool, Error> {
        match self {
            Self::Modern { .. } => Ok(call.client_capabilities()?.has_tasks()),
            Self::Legacy { .. } => Ok(false),
        }
    }

    fn tasks_required(&self) -> Error {
        match self {
            Self::Modern { .. } => tasks_required(),
            Self::Legacy { .. } => Error::new(
                ErrorCode::INVALID_REQUEST,
                "the tool requires a client that uses MCP revision 2026-07-28 and supports tasks",
            ),
        }
    }

    fn refuse(&self, id: &Id<'_>, output: &mut Vec<u8>, error: &Error) -> Reply {
        write_error(output, Some(id), error);
        Reply::Now(self.status(error))
    }

    /// Polls a handler until it turns its call into a task. If the handler first finishes or asks a question,
    /// the call is answered without a task.
    async fn drive_to_task(
        self,
        id: RequestId,
        request: BoundRequest,
        task: Arc<Task>,
        mut later: Later<CallToolResult>,
    ) -> (Vec<u8>, Status) {
        let progress = async {
            tokio::select! {
                biased;
                progress = poll_fn(|cx| self.poll_handler(&mut later, cx)) => Some(progress),
                () = task.beginning() => None,
            }
        };
        let limit = self.core().options.handler_timeout;
        let progress = timeout(limit, progress).await.unwrap_or_else(|_| Some(Progress::late()));
        if let Some(progress) = progress {
            return self.conclude(&id, Some(&request), progress);
        }
        let mut output = Vec::new();
        let task = (&task, request.arguments_bytes());
        let status = begin_task(self.core(), &Id::from(&id), task, later, &mut output);
        (output, status)
    }
}

/// Turns a call into a task, and answers the call with this task. `bytes` is the size of the call's
/// arguments.
fn begin_task(
    core: &ServerCore,
    id: &Id<'_>,
    (task, bytes): (&Arc<Task>, usize),
    later: Later<CallToolResult>,
    output: &mut Vec<u8>,
) -> Status {
    let bytes = core.request_bytes.hold_bytes(task.holder(), bytes);
    if let Err(error) = bytes.and_then(|bytes| core.tasks.begin(task.clone(), later, bytes)) {
        write_error(output, Some(id), &error);
        return Status::of(&error);
    }
    write_result(output, id, |output| {
        task.show_short(|task| core.results.write(output, ResultType::Task, None, task, None))
    });
    Status::Ok
}

/// Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) fn handle_request(incoming: &ModernRequest<'_>, output: &mut Vec<u8>) -> Reply {
    let ModernRequest { core, request, params, caller, .. } = *incoming;
    let id = &request.id;
    let task = match find(&core.tasks, params, caller) {
        Ok(task) => task,
        Err(error) => return Reply::error(output, id, &error),
    };
    match &*request.method {
        methods::TASKS_UPDATE => match answers(params) {
            Ok(answers) => task.answer(answers),
            Err(error) => return Reply::error(output, id, &error),
        },
        methods::TASKS_CANCEL => task.cancel(),
        _ => {
            write_result(output, id, |output| {
                task.show(None, |task| core.results.write(output, ResultType::Complete, None, task, None))
            });
            return Reply::Now(Status::Ok);
        }
    }
    write_result(output, id, |output| {
        core.results.write(output, ResultType::Complete, None, &JsonObject::new(), None)
    });
    Reply::Now(Status::Ok)
}

/// Returns the task that a request names. First checks that the client declared the extension for tasks.
fn find(tasks: &Tasks, params: &Params<'_>, caller: &Caller) -> Result<Arc<Task>, Error> {
    require_tasks(params)?;
    tasks.find(Params::required("taskId", params.task_id.as_ref())?, caller)
}

fn answers(params: &Params<'_>) -> Result<BTreeMap<String, Value>, Error> {
    let answers =
        params.input_responses.ok_or_else(|| Error::invalid_params("`inputResponses` is missing"))?;
    serde_json::from_str(answers.get())
        .map_err(|_| Error::invalid_params("`inputResponses` must be an object"))
}

/// Checks that the client declared the extension for tasks.
///
/// # Errors
/// Returns [`ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY`] if the client did not declare the extension.
pub fn require_tasks(params: &Params<'_>) -> Result<(), Error> {
    if modern::client_capabilities(&params.meta)?.has_tasks() { Ok(()) } else { Err(tasks_required()) }
}

fn tasks_required() -> Error {
    modern::missing_capability(&ClientCapabilities::default().with_tasks())
}
