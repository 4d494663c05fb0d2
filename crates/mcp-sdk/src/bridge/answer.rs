//! What the far side has answered, for the near side.

use thruway_mcp::Era;
use thruway_mcp::json_rpc::{Error, ErrorCode, Id, write_error, write_result};
use thruway_mcp::members::{append_line, append_members};
use thruway_mcp::modern::{ResultType, ResultWriter};
use thruway_mcp::schema::{CacheHint, methods};

use crate::client::{Answer, McpClientError};
use crate::dispatch::Status;

/// Which way an answer goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The era of the client.
    pub(super) near: Era,
    /// The era of the server.
    pub(super) far: Era,
}

/// Appends the response to request `id`.
pub(super) fn write(
    output: &mut Vec<u8>,
    id: &Id<'_>,
    way: Way,
    method: &str,
    results: &ResultWriter,
    outcome: Result<Answer, McpClientError>,
) -> Status {
    match outcome {
        Ok(answer) => {
            write_result(output, id, |output| translate(output, way, method, results, &answer));
            Status::Ok
        }
        Err(error) => {
            let error = translate_error(way, method, error_of(error));
            write_error(output, Some(id), &error);
            if way.near == Era::Modern { Status::of(&error) } else { Status::Ok }
        }
    }
}

fn translate(
    output: &mut Vec<u8>,
    way: Way,
    method: &str,
    results: &ResultWriter,
    answer: &Answer,
) -> Result<(), Error> {
    let no_object = || Error::internal("the server behind this one has answered with no object");
    if !answer.get().starts_with('{') {
        return Err(no_object());
    }
    let start = output.len();
    match (way.near, way.far) {
        (Era::Modern, Era::Modern) | (Era::Legacy, Era::Legacy) => append_line(output, answer.get()),
        // Most have nothing that would have to go.
        (Era::Modern, Era::Legacy) if !says_more(answer.get()) => {
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

/// Whether a result may have what is written around it in the modern era.
fn says_more(answer: &str) -> bool {
    ["\"_meta\"", "\"resultType\"", "\"ttlMs\"", "\"cacheScope\""].iter().any(|name| answer.contains(name))
}

fn is_modern(member: &str) -> bool {
    matches!(member, "resultType" | "ttlMs" | "cacheScope")
}

/// Within JSON, an end of a line is nothing but space.
fn keep_on_line(octets: &mut [u8]) {
    for octet in octets.iter_mut().filter(|octet| matches!(octet, b'\n' | b'\r')) {
        *octet = b' ';
    }
}

/// Servers of the legacy era do not say how long a result may be kept.
fn cache_of(method: &str) -> Option<CacheHint> {
    let is_cacheable = matches!(
        method,
        methods::TOOLS_LIST
            | methods::PROMPTS_LIST
            | methods::RESOURCES_LIST
            | methods::RESOURCES_TEMPLATES_LIST
            | methods::RESOURCES_READ
    );
    is_cacheable.then(CacheHint::default)
}

/// The eras have different codes for a resource that is not there.
fn translate_error(way: Way, method: &str, mut error: Error) -> Error {
    if method != methods::RESOURCES_READ {
        return error;
    }
    match (way.near, way.far, error.code) {
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

/// An error of the server is an error of the bridge; anything else is one of its own.
pub(super) fn error_of(error: McpClientError) -> Error {
    match error {
        McpClientError::Server(error) | McpClientError::QuestionFailed(error) => error,
        McpClientError::ArgumentsInvalid => Error::invalid_params("`params` must be an object"),
        error => Error::internal(format!("the server behind this one: {error}")),
    }
}
