//! A request on its way to the far side.

use thruway_mcp::json_rpc::Request;
use thruway_mcp::params::Params;
use thruway_mcp::schema::methods;

use super::tasks::stripped;
use crate::client::{Onward, empty_object};

/// The request, for the far side. No task is made of it, whatever it says.
pub(super) fn onward(request: &Request<'_>, params: &Params<'_>) -> Onward {
    let meta = &params.meta;
    let has_meta = meta.progress_token.is_some()
        || meta.protocol_version.is_some()
        || meta.client_capabilities.is_some()
        || meta.client_info.is_some()
        || meta.log_level.is_some()
        || !meta.others.is_empty();
    let said = request.params.map_or_else(empty_object, ToOwned::to_owned);
    let is_task = request.method == methods::TOOLS_CALL && params.task.is_some();
    let stripped = if is_task { stripped(&said, "task") } else { None };
    Onward {
        method: request.method.as_ref().into(),
        name: name(&request.method, params).map(Into::into),
        params: stripped.unwrap_or(said),
        param_headers: None,
        has_meta,
        sender: None,
        round: Vec::new(),
        party: None,
        progress: None,
        progress_token: None,
        is_of_process: false,
    }
}

/// What a request names.
fn name<'p>(method: &str, params: &'p Params<'_>) -> Option<&'p str> {
    match method {
        methods::TOOLS_CALL | methods::PROMPTS_GET => params.name.as_deref(),
        methods::RESOURCES_READ => params.uri.as_deref(),
        methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL => params.task_id.as_deref(),
        _ => None,
    }
}
