//! Requests of the modern era, in which each request is independent.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{Error, ErrorCode, Id, Request, write_error, write_notification, write_result};
use thruway_mcp::modern::{self, ResultType};
use thruway_mcp::params::{self, Params, meta_keys};
use thruway_mcp::schema::{RequestId, SubscriptionFilter, methods};
use thruway_message::FieldLines;

use super::subscription_stream::{SubscriptionSources, SubscriptionStream, TaskSubscription};
use super::{Exchange, Reply, Status, tasks};
use crate::authorization::Caller;
use crate::backend::{Accepted, Listening, ModernRequest, WantedNotifications};
use crate::server::{Change, McpServer, ServerCore, Subscription};

/// Answers a request of the modern era. `headers` are the headers of the HTTP request, or `None` if the
/// transport is not Streamable HTTP.
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
    if let Some(headers) = headers
        && let Err(error) = modern::check_headers(headers, &request.method, params)
    {
        return Reply::error(output, id, &error);
    }
    let core = &server.core;
    let incoming = ModernRequest { core, revision, request, params, headers, caller };
    let handled = match &*request.method {
        methods::SERVER_DISCOVER => Some(discover(server, id, output)),
        methods::SUBSCRIPTIONS_LISTEN => {
            Some(listen(server, &incoming, output).counted(core, caller, request, params, output))
        }
        _ => server.backend.handle_modern(&incoming, output),
    };
    handled.unwrap_or_else(|| {
        let error = Error::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method");
        Reply::error(output, id, &error)
    })
}

fn discover(server: &McpServer, id: &Id<'_>, output: &mut Vec<u8>) -> Reply {
    let core = &server.core;
    let mut result = json!({
        "supportedVersions": Revision::ALL.map(Revision::as_str),
        "capabilities": server.backend.capabilities(core, Revision::LATEST),
    });
    if let Some(instructions) = &core.options.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    write_result(output, id, |output| {
        core.results.write(output, ResultType::Complete, Some(core.options.cache), &result, None)
    });
    Reply::Now(Status::Ok)
}

/// Parameters of `subscriptions/listen`.
#[derive(Deserialize)]
struct ListenParams {
    notifications: WantedNotifications,
}

/// Opens a subscription. The first message of the subscription lists the accepted notifications. The
/// subscription lasts until the client cancels it or disconnects, or until the server shuts down.
fn listen(server: &McpServer, incoming: &ModernRequest<'_>, output: &mut Vec<u8>) -> Reply {
    let ModernRequest { core, request, params, .. } = *incoming;
    let wanted = match read_wanted(request, params) {
        Ok(wanted) => wanted,
        Err(error) => return Reply::error(output, &request.id, &error),
    };
    let Some(subscription) = core.changes.subscribe(changes(&wanted.filter)) else {
        let error = Error::invalid_params("too many resources in one subscription");
        return Reply::error(output, &request.id, &error);
    };
    let (core, id) = (core.clone(), request.id.to_owned());
    match server.backend.listen(incoming, wanted) {
        Ok(Listening::Now(accepted)) => {
            Reply::Later(Exchange::subscription(subscription_stream(core, subscription, accepted, id)))
        }
        Ok(Listening::Later(accepting)) => Reply::Later(Exchange::prepared(async move {
            match accepting.await {
                Ok(accepted) => Ok(subscription_stream(core, subscription, accepted, id)),
                Err(error) => {
                    let mut output = Vec::new();
                    write_error(&mut output, Some(&Id::from(&id)), &error);
                    Err((output, Status::Unavailable(None)))
                }
            }
        })),
        Err(error) => Reply::error(output, &request.id, &error),
    }
}

/// Returns the stream of messages for a subscription that the backend has accepted.
fn subscription_stream(
    core: Arc<ServerCore>,
    subscription: Subscription,
    accepted: Accepted,
    id: RequestId,
) -> SubscriptionStream {
    let Accepted { wanted, refused_uris, logs, kept, tasks } = accepted;
    for uri in refused_uris {
        subscription.remove(&Change::Resource(uri.into()));
    }
    let acknowledgement = acknowledgement(&wanted, &Id::from(&id));
    let tasks = tasks.map(|subscription| Box::new(TaskSubscription { core, subscription }));
    SubscriptionStream::new(acknowledgement, SubscriptionSources { subscription, tasks, logs, id }, kept)
}

/// Returns the first message of a subscription. This message lists the accepted notifications.
fn acknowledgement(wanted: &WantedNotifications, id: &Id<'_>) -> Vec<u8> {
    let acknowledged = json!({
        "notifications": wanted,
        "_meta": {meta_keys::SUBSCRIPTION_ID: id},
    });
    let mut message = Vec::new();
    write_notification(&mut message, methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, &acknowledged);
    message
}

fn read_wanted(request: &Request<'_>, params: &Params<'_>) -> Result<WantedNotifications, Error> {
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

/// Maximum number of tasks in one subscription.
const SUBSCRIBED_TASKS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use thruway_mcp::json_rpc::{self, Message};

    use serde_json::Value;

    use super::*;
    use crate::testing::field_lines;

    /// Returns the error code of the response to `server/discover`, for one revision in the header and another
    /// in `_meta`.
    fn code(header: &str, meta: &str) -> ErrorCode {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": methods::SERVER_DISCOVER, "params": {"_meta": {
            meta_keys::PROTOCOL_VERSION: meta,
            meta_keys::CLIENT_CAPABILITIES: {},
        }}});
        let message = message.to_string();
        let Ok(Message::Request(request)) = json_rpc::parse(message.as_bytes()) else {
            panic!("not a request")
        };
        let params = Params::parse(request.params).unwrap();
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        let lines = [("MCP-Protocol-Version", header), ("Mcp-Method", methods::SERVER_DISCOVER)];
        let headers = field_lines(&lines, &mut bytes, &mut spans);
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

    /// Regression test: the server reported an unknown revision in `_meta` with another revision in the header
    /// as an unknown revision instead of a mismatch.
    #[test]
    fn revision_mismatch_is_reported_before_unknown_revision() {
        assert_eq!(code("2026-07-28", "v999"), ErrorCode::HEADER_MISMATCH);
        assert_eq!(code("v999", "2026-07-28"), ErrorCode::HEADER_MISMATCH);
        assert_eq!(code("v999", "v999"), ErrorCode::UNSUPPORTED_PROTOCOL_VERSION);
        assert_eq!(code("2026-07-28", "2026-07-28"), ErrorCode(0));
    }
}
