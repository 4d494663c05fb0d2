//! Converts the server's answers to the protocol revision of the client.

use std::fmt;
use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use thruway_mcp::json_rpc::{Error, ErrorCode, Id, write_error, write_result};
use thruway_mcp::members::{append_line, append_members};
use thruway_mcp::modern::{ResultType, ResultWriter};
use thruway_mcp::schema::{CacheHint, CallToolResult, GetPromptResult, methods};
use thruway_mcp::{Era, Revision, legacy};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, is_cacheable};
use thruway_mcp_server::backend::Status;

/// The protocol revisions of the two sides: the server that answers a request, and the client that receives
/// the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerRevisions {
    pub(super) client: Revision,
    pub(super) server: Revision,
}

/// Appends a JSON-RPC response with the id `id` to `output`. `member` is the name of the server in a federation.
/// Returns the status of the response.
pub(super) fn write(
    output: &mut Vec<u8>,
    id: &Id<'_>,
    member: Option<&str>,
    revisions: AnswerRevisions,
    method: &str,
    results: &ResultWriter,
    outcome: Result<Answer, McpClientError>,
) -> Status {
    match outcome {
        Ok(answer) => {
            let adapted = adapt(revisions, method, &answer);
            let answer = adapted.as_ref().unwrap_or(&answer);
            write_result(output, id, |output| {
                let translated = translate(output, revisions, method, results, answer);
                translated.map_err(|error| member.map_or(error, not_an_object))
            });
            Status::Ok
        }
        Err(error) => {
            let is_unavailable = error.is_of_capacity() || (member.is_some() && is_unreachable(&error));
            let error = error_of_member(member, error);
            let error = translate_error(revisions, method, error);
            write_error(output, Some(id), &error);
            match revisions.client.era() {
                Era::Legacy => Status::Ok,
                Era::Modern if is_unavailable => Status::Unavailable(retry_after(&error)),
                Era::Modern => Status::of(&error),
            }
        }
    }
}

/// Returns the time in `retryAfterMs` of the data of `error`, if any. Over HTTP, `Retry-After` then agrees with it.
pub(crate) fn retry_after(error: &Error) -> Option<Duration> {
    error.data.as_ref()?.get("retryAfterMs")?.as_u64().map(Duration::from_millis)
}

/// Returns the error for a method that the client's era does not define.
pub(crate) fn no_method() -> Error {
    Error::new(ErrorCode::METHOD_NOT_FOUND, "the protocol revision of this request has no such method")
}

/// Replaces content that the client's revision does not define. Removes an output schema if the client's
/// revision does not permit the schema, or if the server's results may violate the schema. Returns `None` if
/// the answer needs no change.
fn adapt(revisions: AnswerRevisions, method: &str, answer: &Answer) -> Option<Answer> {
    let is_old = |revision: Revision| !revision.has_structured_output();
    match method {
        methods::TOOLS_LIST if is_old(revisions.server) && !is_old(revisions.client) => {
            without_output_schemas(answer, |_| false)
        }
        methods::TOOLS_LIST
            if revisions.client.era() == Era::Legacy && revisions.server.era() == Era::Modern =>
        {
            without_output_schemas(answer, |schema| schema["type"] == "object")
        }
        methods::TOOLS_CALL
            if revisions.client < revisions.server
                && (is_old(revisions.client) || has_other_structure(answer)) =>
        {
            let mut result: CallToolResult = serde_json::from_str(answer.get()).ok()?;
            legacy::downgrade_result(&mut result, revisions.client);
            to_raw_value(&result).ok()
        }
        methods::PROMPTS_GET if is_old(revisions.client) && revisions.client < revisions.server => {
            let mut result: GetPromptResult = serde_json::from_str(answer.get()).ok()?;
            for message in &mut result.messages {
                legacy::downgrade(std::slice::from_mut(&mut message.content), revisions.client);
            }
            to_raw_value(&result).ok()
        }
        _ => None,
    }
}

/// Returns `true` if the structured content of the result may be an array, a string or another value that is
/// not an object. The legacy era permits only objects.
fn has_other_structure(answer: &Answer) -> bool {
    answer.get().contains("\"structuredContent\"") && !answer.get().contains("\"structuredContent\":{")
}

/// Removes output schemas from a list of tools. Keeps a schema if `is_kept` returns `true`. There are two
/// reasons to remove a schema. First, the server's revision may have no structured content, so the results
/// cannot match the schema. Second, legacy clients support only output schemas of the type `object`.
fn without_output_schemas(answer: &Answer, is_kept: fn(&Value) -> bool) -> Option<Answer> {
    if !answer.get().contains("\"outputSchema\"") {
        return None;
    }
    let mut list: Value = serde_json::from_str(answer.get()).ok()?;
    for tool in list.get_mut("tools")?.as_array_mut()? {
        let tool = tool.as_object_mut()?;
        if tool.get("outputSchema").is_some_and(|schema| !is_kept(schema)) {
            tool.shift_remove("outputSchema");
        }
    }
    to_raw_value(&list).ok()
}

fn translate(
    output: &mut Vec<u8>,
    revisions: AnswerRevisions,
    method: &str,
    results: &ResultWriter,
    answer: &Answer,
) -> Result<(), Error> {
    let no_object = || Error::internal("the server behind this bridge sent a result that is not an object");
    if !answer.get().starts_with('{') {
        return Err(no_object());
    }
    let start = output.len();
    match (revisions.client.era(), revisions.server.era()) {
        (Era::Modern, Era::Modern) | (Era::Legacy, Era::Legacy) => append_line(output, answer.get()),
        // Fast path: nothing must be removed from the result.
        (Era::Modern, Era::Legacy) if !has_modern_members(answer.get()) => {
            results.write(output, ResultType::Complete, cache_of(method), answer, None)?;
            keep_on_line(&mut output[start..]);
        }
        (Era::Modern, Era::Legacy) => {
            output.extend_from_slice(br#"{"resultType":"complete""#);
            if cache_of(method).is_some() {
                output.extend_from_slice(br#","ttlMs":0,"cacheScope":"private""#);
            }
            append_members(output, answer, |name, _| !is_modern(name)).map_err(|_| no_object())?;
            output.push(b'}');
        }
        (Era::Legacy, Era::Modern) => {
            output.push(b'{');
            append_members(output, answer, |name, _| !is_modern(name)).map_err(|_| no_object())?;
            output.push(b'}');
        }
    }
    Ok(())
}

/// Returns `true` if a legacy result may already contain one of the members that the bridge adds to results
/// for modern clients.
fn has_modern_members(answer: &str) -> bool {
    ["\"_meta\"", "\"resultType\"", "\"ttlMs\"", "\"cacheScope\""].iter().any(|name| answer.contains(name))
}

fn is_modern(member: &str) -> bool {
    matches!(member, "resultType" | "ttlMs" | "cacheScope")
}

/// Replaces line ends with spaces. The JSON value stays the same, because unescaped line ends are only
/// white space between JSON tokens.
fn keep_on_line(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// Returns the default cache hint if clients may cache results of `method`, otherwise `None`. Legacy
/// servers send no cache hints.
fn cache_of(method: &str) -> Option<CacheHint> {
    is_cacheable(method).then(CacheHint::default)
}

/// Translates error codes between the eras. The eras use different codes for a missing resource. Only the
/// legacy era defines `URL_ELICITATION_REQUIRED`: the user must visit web pages before the call can succeed.
fn translate_error(revisions: AnswerRevisions, method: &str, mut error: Error) -> Error {
    if revisions.client.era() == Era::Modern && error.code == ErrorCode::URL_ELICITATION_REQUIRED {
        // If the client can open web pages, the bridge has already sent these pages to the client.
        error.code = ErrorCode::INTERNAL_ERROR;
    }
    if method != methods::RESOURCES_READ {
        return error;
    }
    match (revisions.client.era(), revisions.server.era(), error.code) {
        (Era::Modern, Era::Legacy, ErrorCode::RESOURCE_NOT_FOUND) => error.code = ErrorCode::INVALID_PARAMS,
        (Era::Legacy, Era::Modern, ErrorCode::INVALID_PARAMS)
            if error.data.as_ref().is_some_and(|data| data.get("uri").is_some()) =>
        {
            error.code = ErrorCode::RESOURCE_NOT_FOUND;
        }
        _ => {}
    }
    error
}

/// Returns `true` if the error shows that the server is unreachable.
pub(crate) fn is_unreachable(error: &McpClientError) -> bool {
    match error {
        McpClientError::Closed
        | McpClientError::SessionEnded
        | McpClientError::Start(_)
        | McpClientError::TooManyRestarts => true,
        McpClientError::Http(_) => error.is_temporary(),
        McpClientError::Status(status) => matches!(status.as_u16(), 502..=504),
        _ => false,
    }
}

/// Converts an error of the MCP client to a JSON-RPC error. `member` is the name of the server in a federation.
pub(super) fn error_of_member(member: Option<&str>, error: McpClientError) -> Error {
    match member {
        Some(member) => member_error_of(member, error),
        None => error_of(error),
    }
}

/// Converts an error of the MCP client of `member` to a JSON-RPC error. The error names the member, unless the
/// member itself or the requesting client has sent the error.
fn member_error_of(member: &str, error: McpClientError) -> Error {
    match error {
        McpClientError::Server(_)
        | McpClientError::InputRequestFailed(_)
        | McpClientError::ArgumentsInvalid => error_of(error),
        error => {
            let member_error = member_error(member, &format_args!("the request failed: {error}"));
            if is_unreachable(&error) {
                member_error.with_data(json!({"server": member, "retryAfterMs": RETRY_AFTER_MS}))
            } else {
                member_error
            }
        }
    }
}

fn not_an_object(member: &str) -> Error {
    member_error(member, &"the server sent a result that is not an object")
}

/// Returns the error for a request that the server `member` of a federation cannot handle.
pub(crate) fn member_error(member: &str, reason: &dyn fmt::Display) -> Error {
    Error::internal(format!("MCP server `{member}`: {reason}")).with_data(json!({"server": member}))
}

/// Converts an error of the bridge's MCP client to a JSON-RPC error. Returns JSON-RPC errors of the server or
/// of the requesting client unchanged.
pub(super) fn error_of(error: McpClientError) -> Error {
    match error {
        McpClientError::Server(error) | McpClientError::InputRequestFailed(error) => error,
        McpClientError::ArgumentsInvalid => Error::invalid_params("`params` must be an object"),
        McpClientError::TooManyServers => {
            Error::internal("all dedicated servers behind this bridge are in use: try again later")
        }
        McpClientError::TooManyServersOfCaller => Error::internal(
            "this caller has reached its share of the servers behind this bridge: end a session or a \
             subscription, or try again later",
        ),
        error => Error::internal(format!("the request to the server behind this bridge failed: {error}")),
    }
}

/// Time after which a client may repeat a call that failed because the server was unreachable, in milliseconds.
const RETRY_AFTER_MS: u64 = 1000;
