//! The modern era: each request stands for itself.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thruway_mcp::json_rpc::{Error, ErrorCode, Id, Request, write_error, write_notification, write_result};
use thruway_mcp::modern::{self, ResultType};
use thruway_mcp::params::{self, Params, meta_keys};
use thruway_mcp::schema::{
    JsonObject, LoggingLevel, RequestId, SubscriptionFilter, TASKS_EXTENSION, TaskSubscriptionNotifications,
    methods,
};
use thruway_message::FieldLines;

use super::exchange::Answered;
use super::telling::{TasksTold, Telling, Told};
use super::{Answering, Exchange, Reply, Status, tasks};
use crate::ask::{BoundRequest, Rounds};
use crate::authorization::Caller;
use crate::bridge::{self, Bridge};
use crate::handlers::{Call, ClientSide};
use crate::registry::Registry;
use crate::server::{Change, McpServer, Shared, Subscription};

/// Answers a request. `headers` are those of the HTTP request that it came in, if it came in one.
pub(crate) fn handle_request(
    server: &McpServer,
    request: &Request<'_>,
    params: &Params<'_>,
    headers: Option<FieldLines<'_>>,
    caller: &Caller,
    output: &mut Vec<u8>,
) -> Reply {
    let id = &request.id;
    let revision = match modern::check_meta(&params.meta, headers) {
        Ok(revision) => revision,
        Err(error) => return Reply::bad_request(output, Some(id), &error),
    };
    let shared = &server.shared;
    let registry = shared.registry.load();
    if let Some(headers) = headers
        && let Err(error) = check_headers(&registry, headers, &request.method, params)
    {
        return Reply::error(output, id, &error);
    }
    let handled = match &*request.method {
        methods::SERVER_DISCOVER => Some(discover(shared, id, output)),
        methods::SUBSCRIPTIONS_LISTEN => {
            let reply = listen(shared, request, params, caller, output);
            Some(reply.counted(shared, caller, request, params, output))
        }
        _ if let Some(bridge) = &shared.bridge => {
            Some(bridge::handle_modern_request((shared, bridge), request, params, headers, caller, output))
        }
        methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL => {
            shared.has_tasks().then(|| tasks::handle_request(shared, request, params, caller, output))
        }
        _ => match begin(shared, caller, &request.method, params) {
            Err(error) => Some(Reply::error(output, id, &error)),
            Ok(rounds) => {
                let call = Call::new(revision, &request.method, params, ClientSide::Modern(&rounds), caller);
                let answering = Answering::Modern { shared: shared.clone(), rounds: rounds.clone() };
                let reply = answering.handle(&registry, request, params, &call, output);
                reply.map(|reply| reply.counted(shared, caller, request, params, output))
            }
        },
    };
    handled.unwrap_or_else(|| {
        let error = Error::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method");
        Reply::error(output, id, &error)
    })
}

fn check_headers(
    registry: &Registry,
    headers: FieldLines<'_>,
    method: &str,
    params: &Params<'_>,
) -> Result<(), Error> {
    modern::check_headers(headers, method, params)?;
    if method != methods::TOOLS_CALL {
        return Ok(());
    }
    let Some(tool) = params.name.as_deref().and_then(|name| registry.tools.find(name)) else { return Ok(()) };
    if tool.param_headers().is_empty() {
        return Ok(());
    }
    modern::check_param_headers(headers, tool.param_headers(), &arguments(params)?)
}

/// What earlier rounds have brought, for methods whose handlers may ask.
fn begin(shared: &Shared, caller: &Caller, method: &str, params: &Params<'_>) -> Result<Arc<Rounds>, Error> {
    let may_ask = matches!(method, methods::TOOLS_CALL | methods::PROMPTS_GET | methods::RESOURCES_READ);
    if !may_ask {
        return Ok(Arc::default());
    }
    Rounds::resume(params, &shared.state_key, || BoundRequest::new(caller, method, params)).map(Arc::new)
}

/// The arguments as a value. A handler whose type passes over what is too deep, or beyond what a value can hold, could still
/// read them; their headers could not be checked then.
pub(super) fn arguments(params: &Params<'_>) -> Result<Value, Error> {
    let Some(raw) = params.arguments else { return Ok(Value::Null) };
    let unreadable = |_| Error::invalid_params("`arguments` that are mirrored in headers cannot be read");
    serde_json::from_str(raw.get()).map_err(unreadable)
}

fn discover(shared: &Shared, id: &Id<'_>, output: &mut Vec<u8>) -> Reply {
    let mut capabilities = shared.capabilities(thruway_mcp::Revision::LATEST);
    if shared.has_tasks() {
        let extensions = capabilities.extensions.get_or_insert_default();
        extensions.insert(TASKS_EXTENSION.into(), JsonObject::new().into());
    }
    let mut result = json!({
        "supportedVersions": thruway_mcp::Revision::ALL.map(thruway_mcp::Revision::as_str),
        "capabilities": capabilities,
    });
    if let Some(instructions) = &shared.options.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    write_result(output, id, |output| {
        shared.results.write(output, ResultType::Complete, Some(shared.options.cache), &result, None)
    });
    Reply::Now(Status::Ok)
}

/// What a client wants to be told, of the server and of tasks.
#[derive(Deserialize, Serialize)]
struct Wanted {
    #[serde(flatten)]
    filter: SubscriptionFilter,
    #[serde(flatten)]
    tasks: TaskSubscriptionNotifications,
}

/// Parameters of `subscriptions/listen`.
#[derive(Deserialize)]
struct ListenParams {
    notifications: Wanted,
}

/// Opens a subscription: what was accepted is said first, then what changes, until the client goes.
fn listen(
    shared: &Arc<Shared>,
    request: &Request<'_>,
    params: &Params<'_>,
    caller: &Caller,
    output: &mut Vec<u8>,
) -> Reply {
    let wanted = match read_wanted(request, params) {
        Ok(wanted) => wanted,
        Err(error) => return Reply::error(output, &request.id, &error),
    };
    let Some(subscription) = shared.changes.subscribe(changes(&wanted.filter)) else {
        let error = Error::invalid_params("too many resources in one subscription");
        return Reply::error(output, &request.id, &error);
    };
    let Some(bridge) = &shared.bridge else {
        let mut wanted = wanted;
        let told = told(shared, subscription, &mut wanted, &request.id, caller);
        let telling = Telling::new(acknowledgement(&wanted, &request.id), told);
        return Reply::Later(Exchange::subscription(telling));
    };
    match bridge::asked(bridge, params) {
        Ok(capabilities) => {
            let listener = Listener {
                caller: caller.clone(),
                capabilities: capabilities.map(str::to_owned),
                log_level: bridge::log_level(bridge, params),
            };
            let telling =
                tell_beyond(bridge.clone(), listener, subscription, wanted.filter, request.id.to_owned());
            Reply::Later(Exchange::prepared(telling))
        }
        Err(error) => Reply::error(output, &request.id, &error),
    }
}

/// A client that subscribes to a server behind a bridge.
struct Listener {
    caller: Caller,
    /// Its capabilities as JSON, if the server may ask it.
    capabilities: Option<String>,
    /// The level from which on it wants log messages that belong to no call.
    log_level: Option<LoggingLevel>,
}

/// What a subscription tells that another server tells of.
async fn tell_beyond(
    bridge: Arc<Bridge>,
    listener: Listener,
    subscription: Subscription,
    filter: SubscriptionFilter,
    id: RequestId,
) -> Result<Telling, Answered> {
    let uris = filter.resource_subscriptions.clone();
    let refusal = |error: Error| {
        let mut output = Vec::new();
        write_error(&mut output, Some(&Id::from(&id)), &error);
        (output, Status::Unavailable)
    };
    let Listener { caller, capabilities, log_level } = listener;
    let beyond = bridge::watch_all(&bridge, &caller, capabilities.as_deref(), filter).await;
    let (filter, watches) = beyond.map_err(refusal)?;
    let logs = match log_level {
        Some(level) => {
            let logs = bridge::watch_logs(&bridge, &caller, capabilities.as_deref(), level).await;
            Some(logs.map_err(refusal)?)
        }
        None => None,
    };
    let accepted: HashSet<_> = filter.resource_subscriptions.iter().collect();
    for uri in uris.iter().filter(|uri| !accepted.contains(uri)) {
        subscription.remove(&Change::Resource(uri.as_str().into()));
    }
    let wanted = Wanted { filter, tasks: TaskSubscriptionNotifications::default() };
    let told = Told { subscription, tasks: None, logs: logs.map(Box::new), id: id.clone() };
    Ok(Telling::new(acknowledgement(&wanted, &Id::from(&id)), told).keeping(watches))
}

/// Returns what a subscription tells of. Tasks that the caller may not see are removed from `wanted`.
fn told(
    shared: &Arc<Shared>,
    subscription: Subscription,
    wanted: &mut Wanted,
    id: &Id<'_>,
    caller: &Caller,
) -> Told {
    let task_ids = &mut wanted.tasks.task_ids;
    let of_tasks = if task_ids.is_empty() { None } else { shared.tasks.subscribe(task_ids, caller) };
    let tasks = of_tasks.map(|subscription| Box::new(TasksTold { shared: shared.clone(), subscription }));
    Told { subscription, tasks, logs: None, id: id.to_owned() }
}

/// Returns the first message of a subscription, which says what was accepted.
fn acknowledgement(wanted: &Wanted, id: &Id<'_>) -> Vec<u8> {
    let acknowledged = json!({
        "notifications": wanted,
        "_meta": {meta_keys::SUBSCRIPTION_ID: id},
    });
    let mut message = Vec::new();
    write_notification(&mut message, methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, &acknowledged);
    message
}

fn read_wanted(request: &Request<'_>, params: &Params<'_>) -> Result<Wanted, Error> {
    let ListenParams { notifications: wanted } = params::parse(request.params)?;
    if wanted.tasks.task_ids.len() > SUBSCRIBED_TASKS_MAX {
        return Err(Error::invalid_params("too many tasks in one subscription"));
    }
    if !wanted.tasks.task_ids.is_empty() {
        tasks::require_tasks(params)?;
    }
    Ok(wanted)
}

fn changes(filter: &SubscriptionFilter) -> Vec<Change> {
    let lists = [
        (filter.tools_list_changed, Change::Tools),
        (filter.prompts_list_changed, Change::Prompts),
        (filter.resources_list_changed, Change::Resources),
    ];
    let lists = lists.into_iter().filter(|(is_wanted, _)| *is_wanted == Some(true)).map(|(_, change)| change);
    let resources = filter.resource_subscriptions.iter().map(|uri| Change::Resource(uri.as_str().into()));
    lists.chain(resources).collect()
}

/// The notification that tells of a change, to a subscription if there is one.
pub(crate) fn notification(change: &Change, subscription: Option<&RequestId>) -> Vec<u8> {
    let (method, mut params) = match change {
        Change::Tools => (methods::NOTIFICATIONS_TOOLS_LIST_CHANGED, json!({})),
        Change::Prompts => (methods::NOTIFICATIONS_PROMPTS_LIST_CHANGED, json!({})),
        Change::Resources => (methods::NOTIFICATIONS_RESOURCES_LIST_CHANGED, json!({})),
        Change::Resource(uri) => (methods::NOTIFICATIONS_RESOURCES_UPDATED, json!({"uri": &**uri})),
    };
    if let Some(id) = subscription {
        params["_meta"] = json!({meta_keys::SUBSCRIPTION_ID: id});
    }
    let mut message = Vec::new();
    write_notification(&mut message, method, &params);
    message
}

/// How many tasks one subscription may be about.
const SUBSCRIBED_TASKS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use thruway_mcp::json_rpc::{self, Message};

    use super::*;
    use crate::testing::field_lines;

    /// What `server/discover` is answered with, for a revision in the header and one in `_meta`.
    fn code(header: &str, meta: &str) -> ErrorCode {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": methods::SERVER_DISCOVER, "params": {"_meta": {
            meta_keys::PROTOCOL_VERSION: meta,
            meta_keys::CLIENT_CAPABILITIES: {},
        }}});
        let message = message.to_string();
        let Ok(Message::Request(request)) = json_rpc::parse(message.as_bytes()) else { panic!("a request") };
        let params = Params::parse(request.params).unwrap();
        let (mut octets, mut spans) = (Vec::new(), Vec::new());
        let lines = [("MCP-Protocol-Version", header), ("Mcp-Method", methods::SERVER_DISCOVER)];
        let headers = field_lines(&lines, &mut octets, &mut spans);
        let mut output = Vec::new();
        handle_request(
            &McpServer::new("test", "1"),
            &request,
            &params,
            Some(headers),
            &Caller::Anonymous(None),
            &mut output,
        );
        let answer: Value = serde_json::from_slice(&output).unwrap();
        ErrorCode(answer["error"]["code"].as_i64().unwrap_or_default())
    }

    /// An unknown revision in `_meta` beside another in the header was answered as unknown, not as a mismatch.
    #[test]
    fn a_revision_is_unknown_only_if_header_and_body_agree_on_it() {
        assert_eq!(code("2026-07-28", "v999"), ErrorCode::HEADER_MISMATCH);
        assert_eq!(code("v999", "2026-07-28"), ErrorCode::HEADER_MISMATCH);
        assert_eq!(code("v999", "v999"), ErrorCode::UNSUPPORTED_PROTOCOL_VERSION);
        assert_eq!(code("2026-07-28", "2026-07-28"), ErrorCode(0));
    }
}
