//! The legacy era: a handshake, then a session.

use std::sync::Arc;

use serde_json::Value;
use thruway_mcp::json_rpc::{self, Error, ErrorCode, Id, Message, Request, write_error, write_result};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{
    InitializeRequestParams, InitializeResult, SetLevelRequestParams, SubscribeRequestParams, methods,
};
use thruway_mcp::{Revision, legacy, modern};
use thruway_message::FieldLines;

use super::modern::arguments;
use super::{Answering, Reply, Status};
use crate::authorization::Caller;
use crate::bridge::{self, Bridge};
use crate::handlers::{Call, ClientSide};
use crate::server::{Change, McpServer};
use crate::session::Session;

/// Answers `initialize`; the session begins with it.
pub(crate) fn initialize(server: &McpServer, request: &Request<'_>, output: &mut Vec<u8>) -> Option<Session> {
    match begin(server, request) {
        Ok((session, result)) => {
            write_json_result(output, &request.id, &result);
            Some(session)
        }
        Err(error) => {
            write_error(output, Some(&request.id), &error);
            None
        }
    }
}

fn begin(server: &McpServer, request: &Request<'_>) -> Result<(Session, InitializeResult), Error> {
    let shared = &server.shared;
    if request.params.is_some_and(|params| params.get().len() > INITIALIZE_BYTES_MAX) {
        let reason = format!("the parameters of `initialize` may have {INITIALIZE_BYTES_MAX} octets");
        return Err(Error::invalid_params(reason));
    }
    let params: InitializeRequestParams = params::parse(request.params)?;
    let revision = legacy::negotiate(&params.protocol_version);
    let far_side = shared.bridge.as_ref().map(Bridge::far_side_of_session);
    let result = InitializeResult {
        protocol_version: revision.as_str().to_owned(),
        capabilities: far_side
            .map_or_else(|| shared.capabilities(revision), |side| side.capabilities(revision)),
        server_info: shared.info.clone(),
        instructions: shared.options.instructions.clone(),
        meta: None,
    };
    let lists = [Change::Tools, Change::Prompts, Change::Resources];
    let subscription = shared.changes.subscribe(lists).ok_or_else(|| Error::internal("no subscription"))?;
    let session = Session::new(revision, &params, subscription);
    let Some(far_side) = far_side.cloned() else { return Ok((session, result)) };
    let tasks = far_side.tasks_of_session(revision);
    let session = session.behind_bridge(far_side.clone(), tasks);
    tokio::spawn(async move { far_side.watch_lists().await });
    Ok((session, result))
}

/// Checks the headers of a POST that mirror its request, if there are any.
///
/// # Errors
/// As [`check_present_headers`](modern::check_present_headers), or the arguments cannot be read.
pub(crate) fn check_headers(
    server: &McpServer,
    headers: FieldLines<'_>,
    request: &Request<'_>,
    params: &Params<'_>,
) -> Result<(), Error> {
    if !modern::has_mirroring_headers(headers) {
        return Ok(());
    }
    modern::check_present_headers(headers, Some(&request.method), Some(params))?;
    if request.method != methods::TOOLS_CALL {
        return Ok(());
    }
    if server.shared.bridge.is_some() {
        // The tools are those of another server. Clients of this era do not send such headers.
        return modern::refuse_param_headers(headers);
    }
    let registry = server.shared.registry.load();
    match params.name.as_deref().and_then(|name| registry.tools.find(name)) {
        Some(tool) if !tool.param_headers().is_empty() => {
            modern::check_present_param_headers(headers, tool.param_headers(), &arguments(params)?)
        }
        _ => Ok(()),
    }
}

/// Checks the headers of a POST that mirror its body, which is any message or a batch. What is wrong with the
/// body itself is found when it is handled.
///
/// # Errors
/// As [`check_headers`]; the error is written as a message.
pub(crate) fn check_headers_of_body(
    server: &McpServer,
    headers: FieldLines<'_>,
    body: &[u8],
) -> Result<(), Vec<u8>> {
    if !modern::has_mirroring_headers(headers) {
        return Ok(());
    }
    let written = |id: Option<&Id<'_>>, error: &Error| {
        let mut message = Vec::new();
        write_error(&mut message, id, error);
        message
    };
    let check = |message: &[u8]| match json_rpc::parse(message) {
        Ok(Message::Request(request)) => match Params::parse(request.params) {
            Ok(params) => check_headers(server, headers, &request, &params)
                .map_err(|error| written(Some(&request.id), &error)),
            Err(_) => Ok(()),
        },
        Ok(Message::Notification(notification)) => {
            modern::check_present_headers(headers, Some(&notification.method), None)
                .map_err(|error| written(None, &error))
        }
        Ok(Message::Response(_)) => {
            modern::check_present_headers(headers, None, None).map_err(|error| written(None, &error))
        }
        Err(_) => Ok(()),
    };
    match json_rpc::split_batch(body) {
        None => check(body),
        Some(Ok(messages)) => messages.iter().try_for_each(|message| check(message.get().as_bytes())),
        Some(Err(_)) => Ok(()),
    }
}

/// Answers any other request. Without a session, the client is not known.
pub(crate) fn handle_request(
    server: &McpServer,
    session: Option<&Arc<Session>>,
    revision: Revision,
    request: &Request<'_>,
    params: &Params<'_>,
    caller: &Caller,
    output: &mut Vec<u8>,
) -> Reply {
    let id = &request.id;
    if let Some(bridge) = &server.shared.bridge {
        let shared = &server.shared;
        let reply = bridge::handle_legacy_request(shared, bridge, session, revision, request, params, output);
        if let Some(reply) = reply {
            return reply.counted(&server.shared, caller, request, params, output);
        }
    }
    let outcome = match &*request.method {
        methods::PING => Ok(()),
        methods::LOGGING_SET_LEVEL => set_level(session, request),
        methods::RESOURCES_SUBSCRIBE => subscribe(server, session, request),
        methods::RESOURCES_UNSUBSCRIBE => unsubscribe(session, request),
        _ => {
            let client = session.map_or(ClientSide::Unknown, ClientSide::Legacy);
            let call = Call::new(revision, &request.method, params, client, caller);
            let answering = Answering::Legacy { shared: server.shared.clone(), revision };
            let registry = server.shared.registry.load();
            if let Some(reply) = answering.handle(&registry, request, params, &call, output) {
                return reply.counted(&server.shared, caller, request, params, output);
            }
            Err(Error::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method"))
        }
    };
    match outcome {
        Ok(()) => write_json_result(output, id, &Value::Object(serde_json::Map::new())),
        Err(error) => write_error(output, Some(id), &error),
    }
    Reply::Now(Status::Ok)
}

fn set_level(session: Option<&Arc<Session>>, request: &Request<'_>) -> Result<(), Error> {
    let params: SetLevelRequestParams = params::parse(request.params)?;
    if let Some(session) = session {
        session.set_log_level(params.level);
    }
    Ok(())
}

fn subscribe(server: &McpServer, session: Option<&Arc<Session>>, request: &Request<'_>) -> Result<(), Error> {
    let params: SubscribeRequestParams = params::parse(request.params)?;
    let session = session.ok_or_else(no_session)?;
    let registry = server.shared.registry.load();
    let is_known = registry.resources.find(&params.uri).is_some()
        || registry.templates.entries().iter().any(|template| template.matches(&params.uri));
    if !is_known {
        return Err(Error::new(ErrorCode::RESOURCE_NOT_FOUND, "there is no such resource"));
    }
    if !session.subscription.add(Change::Resource(params.uri.into())) {
        return Err(Error::invalid_params("too many subscriptions in one session"));
    }
    Ok(())
}

fn unsubscribe(session: Option<&Arc<Session>>, request: &Request<'_>) -> Result<(), Error> {
    let params: SubscribeRequestParams = params::parse(request.params)?;
    let session = session.ok_or_else(no_session)?;
    session.subscription.remove(&Change::Resource(params.uri.into()));
    Ok(())
}

fn no_session() -> Error {
    Error::new(ErrorCode::INVALID_REQUEST, "there is no session to subscribe in")
}

fn write_json_result(output: &mut Vec<u8>, id: &Id<'_>, result: &impl serde::Serialize) {
    write_result(output, id, |output| {
        serde_json::to_writer(output, result)
            .map_err(|_| Error::internal("a result cannot be written as JSON"))
    });
}

/// The longest parameters of `initialize`: what they say of the client is kept with its session.
const INITIALIZE_BYTES_MAX: usize = 64 << 10;
