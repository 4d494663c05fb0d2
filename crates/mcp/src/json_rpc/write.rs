//! Messages to octets. Each is one line of JSON, without the end of the line.

use alloc::vec::Vec;

use serde::Serialize;

use super::{Error, Id};

/// Appends a response whose result `result` appends. What it appends must be a JSON value; if it fails, what
/// was appended is taken back and an error stands there instead.
pub fn write_result(
    output: &mut Vec<u8>,
    id: &Id<'_>,
    result: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) {
    let start = output.len();
    output.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write_json(output, id);
    output.extend_from_slice(br#","result":"#);
    match result(output) {
        Ok(()) => output.push(b'}'),
        Err(error) => {
            output.truncate(start);
            write_error(output, Some(id), &error);
        }
    }
}

/// Appends a response that is an error; without an id if it is not known whose.
pub fn write_error(output: &mut Vec<u8>, id: Option<&Id<'_>>, error: &Error) {
    output.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        output.extend_from_slice(br#""id":"#);
        write_json(output, id);
        output.push(b',');
    }
    output.extend_from_slice(br#""error":"#);
    write_json(output, error);
    output.push(b'}');
}

/// Appends a notification.
pub fn write_notification(output: &mut Vec<u8>, method: &str, params: &impl Serialize) {
    output.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    write_json(output, &method);
    output.extend_from_slice(br#","params":"#);
    write_json(output, params);
    output.push(b'}');
}

/// Appends a request.
pub fn write_request(output: &mut Vec<u8>, id: &Id<'_>, method: &str, params: &impl Serialize) {
    write_request_start(output, id, method);
    write_json(output, params);
    output.push(b'}');
}

/// Appends a request whose parameters `params` appends. What it appends must be a JSON object; if it fails,
/// nothing is appended.
///
/// # Errors
/// That of `params`.
pub fn write_request_with<E>(
    output: &mut Vec<u8>,
    id: &Id<'_>,
    method: &str,
    params: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = output.len();
    write_request_start(output, id, method);
    if let Err(error) = params(output) {
        output.truncate(start);
        return Err(error);
    }
    output.push(b'}');
    Ok(())
}

/// Appends a request up to its parameters. What is appended next must be a JSON object, and then the last
/// brace.
pub(crate) fn write_request_start(output: &mut Vec<u8>, id: &Id<'_>, method: &str) {
    output.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write_json(output, id);
    output.extend_from_slice(br#","method":"#);
    write_json(output, &method);
    output.extend_from_slice(br#","params":"#);
}

/// Appends `value` as JSON; `null` for what JSON cannot say, which our own types do not contain.
fn write_json(output: &mut Vec<u8>, value: &impl Serialize) {
    let start = output.len();
    if serde_json::to_writer(&mut *output, value).is_err() {
        output.truncate(start);
        output.extend_from_slice(b"null");
    }
}
