//! Messages that a client receives before the answer to its request.

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Notification, Request, write_notification};
use thruway_mcp::members;
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{LoggingLevel, ProgressNotificationParams, RequestId, methods};
use thruway_mcp_client::forwarding::{ForwardedCall, Unsent, empty_object};

use super::outbox::Outbox;
use super::tasks::stripped;

/// Forwards a progress report with the client's progress token. If the queue `outbox` is full, returns the
/// report. The calling function must then deliver the report later.
pub(super) fn report(
    outbox: &Outbox,
    token: &RequestId,
    params: ProgressNotificationParams,
) -> Option<Unsent> {
    let params = ProgressNotificationParams { progress_token: token.clone(), ..params };
    let mut message = Vec::new();
    write_notification(&mut message, methods::NOTIFICATIONS_PROGRESS, &params);
    outbox.send(message)
}

/// Forwards a log message if the client requested the severity of this message. If the queue `outbox` is
/// full, returns the message. The calling function must then deliver the message later.
pub(super) fn log(
    outbox: &Outbox,
    wanted: Option<LoggingLevel>,
    notification: &Notification<'_>,
) -> Option<Unsent> {
    outbox.send(log_message(wanted, notification)?)
}

/// Returns a log message in the form that the client gets. Returns `None` if the client did not request
/// messages of this severity.
pub(super) fn log_message(wanted: Option<LoggingLevel>, notification: &Notification<'_>) -> Option<Vec<u8>> {
    #[derive(serde::Deserialize)]
    struct Leveled {
        level: LoggingLevel,
    }
    let Leveled { level } = params::parse(notification.params).ok()?;
    if wanted.is_none_or(|wanted| level < wanted) {
        return None;
    }
    let params = notification.params?;
    let mut message = Vec::with_capacity(params.get().len() + 64);
    write_notification(&mut message, methods::NOTIFICATIONS_MESSAGE, &one_line(params));
    Some(message)
}

/// Returns a copy of `json` without line breaks.
pub(super) fn one_line(json: &RawValue) -> Box<RawValue> {
    members::one_line(json.to_owned())
}

/// Converts a client's request to a call for the server. Removes the member `task`, which asks the server
/// to run the call as a task.
pub(super) fn forwarded_call(request: &Request<'_>, params: &Params<'_>) -> ForwardedCall {
    let meta = &params.meta;
    let has_meta = meta.progress_token.is_some()
        || meta.protocol_version.is_some()
        || meta.client_capabilities.is_some()
        || meta.client_info.is_some()
        || meta.log_level.is_some()
        || !meta.others.is_empty();
    let raw_params = request.params.map_or_else(empty_object, ToOwned::to_owned);
    let is_task = request.method == methods::TOOLS_CALL && params.task.is_some();
    let stripped = if is_task { stripped(&raw_params, "task") } else { None };
    ForwardedCall {
        method: request.method.as_ref().into(),
        name: name(&request.method, params).map(Into::into),
        params: stripped.unwrap_or(raw_params),
        param_headers: None,
        has_meta,
        sender: None,
        round: Vec::new(),
        requester: None,
        progress: None,
        progress_token: None,
        trace: meta.forwarded_trace.clone(),
        is_of_process: false,
    }
}

/// Returns the name of the tool or prompt, the URI of the resource, or the id of the task in a request.
fn name<'p>(method: &str, params: &'p Params<'_>) -> Option<&'p str> {
    match method {
        methods::TOOLS_CALL | methods::PROMPTS_GET => params.name.as_deref(),
        methods::RESOURCES_READ => params.uri.as_deref(),
        methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL => params.task_id.as_deref(),
        _ => None,
    }
}
