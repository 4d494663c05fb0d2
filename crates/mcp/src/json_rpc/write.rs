//! Writes messages. Each message is one line of JSON, without the line end.

use alloc::vec::Vec;

use serde::Serialize;

use super::{Error, Id};

/// Appends a response. The function `result` must append a JSON value. If `result` fails, the response
/// contains its error instead.
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

/// Appends an error response. `id` must be `None` if the id of the request is unknown.
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

/// Appends a request. The function `params` must append a JSON object.
///
/// # Errors
/// The function `params` failed. In that case, `output` is unchanged.
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

/// Appends the beginning of a request. The caller must then append the parameters (a JSON object) and a
/// closing brace.
pub(crate) fn write_request_start(output: &mut Vec<u8>, id: &Id<'_>, method: &str) {
    output.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write_json(output, id);
    output.extend_from_slice(br#","method":"#);
    write_json(output, &method);
    output.extend_from_slice(br#","params":"#);
}

/// Appends `value` as JSON, or `null` if JSON cannot express the value. The types of this crate contain
/// no values that JSON cannot express.
fn write_json(output: &mut Vec<u8>, value: &impl Serialize) {
    let start = output.len();
    if serde_json::to_writer(&mut *output, value).is_err() {
        output.truncate(start);
        output.extend_from_slice(b"null");
    }
}
