//! What the tasks extension has.

use anyhow::Result;
use serde_json::json;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::modern::ResultType;
use thruway_mcp::schema::{
    CompletedTask, CreateTaskResult, DetailedTask, FailedTask, GetTaskResult, InputRequest, InputRequests,
    InputRequiredTask, JsonObject, ListRootsRequest, Task, TaskStatus, TaskSubscriptionNotifications,
    WorkingTask, methods,
};

use super::parts;
use super::writer::{Names, Samples};

pub(super) fn write(samples: &mut Samples) -> Result<()> {
    requests(samples)?;
    for status in [
        TaskStatus::Working,
        TaskStatus::InputRequired,
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Cancelled,
    ] {
        let task = Task { status, state: state() };
        samples.value("TaskStatus", &status)?;
        samples.value("Task", &task)?;
        let result = CreateTaskResult { task, meta: Some(parts::meta()) };
        samples.result(Names::new("CreateTaskResult", &[]), ResultType::Task, &result)?;
    }
    for (definition, task) in detailed_tasks() {
        samples.value(definition, &task)?;
        samples.value("DetailedTask", &task)?;
        let result = GetTaskResult { task, meta: Some(parts::meta()) };
        samples.result(Names::new("GetTaskResult", &[]), ResultType::Complete, &result)?;
        samples.value("TaskStatusNotificationParams", &result)?;
        samples.notification("TaskStatusNotification", methods::NOTIFICATIONS_TASKS, &result)?;
    }
    for definition in ["CancelTaskResult", "UpdateTaskResult"] {
        samples.result(Names::new(definition, &[]), ResultType::Complete, &JsonObject::new())?;
    }
    let tasks = TaskSubscriptionNotifications { task_ids: vec!["t-1".into()] };
    samples.value("TaskSubscriptionNotifications", &tasks)?;
    samples.value("TaskSubscriptionAcknowledgedNotifications", &tasks)
}

fn requests(samples: &mut Samples) -> Result<()> {
    let params = json!({"taskId": "t-1"});
    samples.request("GetTaskRequest", methods::TASKS_GET, &params)?;
    samples.request("CancelTaskRequest", methods::TASKS_CANCEL, &params)?;
    let params = json!({"taskId": "t-1", "inputResponses": {"roots": {"roots": []}}});
    samples.request("UpdateTaskRequest", methods::TASKS_UPDATE, &params)
}

fn state() -> WorkingTask {
    WorkingTask {
        task_id: "t-1".into(),
        status_message: Some("reading the gauge".into()),
        created_at: "2026-08-01T10:00:00Z".into(),
        last_updated_at: "2026-08-01T10:00:05Z".into(),
        ttl_ms: Some(60_000),
        poll_interval_ms: Some(500),
    }
}

fn detailed_tasks() -> [(&'static str, DetailedTask); 6] {
    let roots = InputRequest::ListRoots(ListRootsRequest::default());
    let asking =
        InputRequiredTask { task: state(), input_requests: InputRequests::from([("roots".into(), roots)]) };
    let result = parts::object(&json!({"content": [], "isError": true}));
    let error = Error::internal("the gauge is broken");
    let kept = WorkingTask { ttl_ms: None, ..state() };
    [
        ("WorkingTask", DetailedTask::Working(state())),
        ("WorkingTask", DetailedTask::Working(kept)),
        ("InputRequiredTask", DetailedTask::InputRequired(asking)),
        ("CompletedTask", DetailedTask::Completed(CompletedTask { task: state(), result })),
        ("FailedTask", DetailedTask::Failed(FailedTask { task: state(), error })),
        ("CancelledTask", DetailedTask::Cancelled(state())),
    ]
}
