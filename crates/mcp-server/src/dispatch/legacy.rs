//! Requests of the legacy era, in which a client first begins a session with `initialize`.

use std::sync::Arc;

use serde_json::Value;
use thruway_mcp::json_rpc::{self, Error, ErrorCode, Id, Message, Request, write_error};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{InitializeRequestParams, InitializeResult, SetLevelRequestParams, methods};
use thruway_mcp::{Revision, legacy, modern};
use thruway_message::FieldLines;

use super::reply::write_json_result;
use super::{Reply, Status};
use crate::authorization::Caller;
use crate::backend::{LegacyRequest, NewSession};
use crate::server::{Change, McpServer};
use crate::session::Session;

/// Answers `initialize`. Returns the new session, or `None` if the answer is an error.
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
    let core = &server.core;
    if request.params.is_some_and(|params| params.get().len() > INITIALIZE_BYTES_MAX) {
        let reason = format!("the parameters of `initialize` are larger than {INITIALIZE_BYTES_MAX} bytes");
        return Err(Error::invalid_params(reason));
    }
    let params: InitializeRequestParams = params::parse(request.params)?;
    let revision = legacy::negotiate(&params.protocol_version);
    let NewSession { capabilities, state } = server.backend.begin_session(core, revision);
    let result = InitializeResult {
        protocol_version: revision.as_str().to_owned(),
        capabilities,
        server_info: core.info.clone(),
        instructions: core.options.instructions.clone(),
        meta: None,
    };
    let lists = [Change::Tools, Change::Prompts, Change::Resources];
    let subscription =
        core.changes.subscribe(lists).ok_or_else(|| Error::internal("cannot subscribe to list changes"))?;
    let session = Session::new(revision, &params, subscription);
    Ok(match state {
        Some(state) => (session.with_backend(state), result),
        None => (session, result),
    })
}

/// Checks those headers of a POST request that repeat parts of its JSON-RPC request. These headers must match
/// the JSON-RPC request. Returns `Ok` if the POST has no such headers.
///
/// # Errors
/// Returns an error of [`check_present_headers`](modern::check_present_headers) if a header and the request
/// differ. Also returns an error if the arguments cannot be compared with the headers.
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
    server.backend.check_legacy_param_headers(headers, params)
}

/// Checks the headers of a POST that repeat parts of the body. The body may be any message or a batch.
/// Ignores an invalid body, because the server reports this error later.
///
/// # Errors
/// Returns the error of [`check_headers`] as a JSON-RPC message.
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

/// Answers any request of the legacy era except `initialize`. Without a session (`None`), the client's
/// capabilities are unknown.
pub(crate) fn handle_request(
    server: &McpServer,
    session: Option<&Arc<Session>>,
    revision: Revision,
    request: &Request<'_>,
    params: &Params<'_>,
    caller: &Caller,
    output: &mut Vec<u8>,
) -> Reply {
    let core = &server.core;
    let incoming = LegacyRequest { core, session, revision, request, params, caller };
    if let Some(reply) = server.backend.handle_legacy(&incoming, output) {
        return reply.counted(core, caller, request, params, output);
    }
    let outcome = match &*request.method {
        methods::PING => Ok(()),
        methods::LOGGING_SET_LEVEL => set_level(session, request),
        _ => Err(Error::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method")),
    };
    match outcome {
        Ok(()) => write_json_result(output, &request.id, &Value::Object(serde_json::Map::new())),
        Err(error) => write_error(output, Some(&request.id), &error),
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

/// Maximum size of the parameters of `initialize`, in bytes. The session stores the client's name, version
/// and capabilities from these parameters.
const INITIALIZE_BYTES_MAX: usize = 64 << 10;
