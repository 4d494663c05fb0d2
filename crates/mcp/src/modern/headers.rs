//! Writes and checks HTTP headers that mirror (repeat) values of the message body.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

use serde_json::Value;
use thruway_message::{FieldLine, FieldLines, FieldLinesBuf, FieldName, FieldValue, InvalidFieldLine};

use crate::header_value;
use crate::json_rpc::{Error, ErrorCode};
use crate::param_headers::{PREFIX, ParamHeader};
use crate::params::Params;
use crate::schema::methods;

/// Checks that the version header of a POST names the same revision as the body. This check is separate
/// because the rules for all other headers depend on the revision.
pub(super) fn check_version_header(fields: FieldLines<'_>, version: &str) -> Result<(), Error> {
    check_plain(fields, "MCP-Protocol-Version", version)
}

/// Checks that the headers of a POST match its body, because proxies between the client and the server make
/// decisions based on the headers. [`check_meta`](super::check_meta) checks the header that names the
/// revision.
///
/// # Errors
/// [`ErrorCode::HEADER_MISMATCH`] if a header is missing, malformed, duplicated, or different from the
/// body.
pub fn check_headers(fields: FieldLines<'_>, method: &str, params: &Params<'_>) -> Result<(), Error> {
    check_plain(fields, "Mcp-Method", method)?;
    let Some(name) = mirrored_name(method, params) else { return Ok(()) };
    match single(fields, "Mcp-Name")? {
        Some(value) if value == name => Ok(()),
        value => Err(contradicts("Mcp-Name", value.is_some())),
    }
}

/// Checks the headers that mirror arguments of a tool call.
///
/// # Errors
/// The function returns the same errors as [`check_headers`].
pub fn check_param_headers(
    fields: FieldLines<'_>,
    headers: &[ParamHeader],
    arguments: &Value,
) -> Result<(), Error> {
    headers.iter().try_for_each(|header| {
        let is_present = check_present_param_header(fields, header, arguments)?;
        if is_present || header.expected(arguments).is_none() {
            return Ok(());
        }
        Err(mismatch(format!("the header `{}` is missing", header.field_name)))
    })
}

/// Returns `true` if a POST has a header that mirrors its body: `Mcp-Method`, `Mcp-Name` or `Mcp-Param-*`.
/// MCP revision 2026-07-28 defines these headers, but clients of any revision can send them.
pub fn has_mirroring_headers(fields: FieldLines<'_>) -> bool {
    fields.iter().any(|line| {
        let name = line.name.as_bytes();
        let starts_with = |prefix: &str| {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        starts_with("Mcp-") && (line.name.is("Mcp-Method") || line.name.is("Mcp-Name") || starts_with(PREFIX))
    })
}

/// Checks the headers that mirror the body in a POST of a legacy revision. Such a POST does not need
/// these headers.
///
/// A proxy that makes decisions based on these headers does not know the revision of the body. Without this
/// check, a client could bypass the rules of the proxy by naming an older revision. `method` is `None` for
/// responses. `params` is `None` for notifications.
///
/// # Errors
/// [`ErrorCode::HEADER_MISMATCH`] if a header is malformed, present twice, or different from the body.
pub fn check_present_headers(
    fields: FieldLines<'_>,
    method: Option<&str>,
    params: Option<&Params<'_>>,
) -> Result<(), Error> {
    match once(fields, "Mcp-Method")? {
        None => {}
        Some(value) if value.as_str().is_some() && value.as_str() == method => {}
        Some(value) if value.as_str().is_none() => return Err(malformed("Mcp-Method")),
        Some(_) => return Err(contradicts("Mcp-Method", true)),
    }
    let Some(name) = single(fields, "Mcp-Name")? else { return Ok(()) };
    match method.zip(params).and_then(|(method, params)| mirrored_name(method, params)) {
        Some(expected) if name != expected => Err(contradicts("Mcp-Name", true)),
        _ => Ok(()),
    }
}

/// Checks the headers that mirror arguments of a tool call, but accepts absent headers, as
/// [`check_present_headers`] does.
///
/// # Errors
/// The function returns the same errors as [`check_present_headers`].
pub fn check_present_param_headers(
    fields: FieldLines<'_>,
    headers: &[ParamHeader],
    arguments: &Value,
) -> Result<(), Error> {
    headers.iter().try_for_each(|header| check_present_param_header(fields, header, arguments).map(drop))
}

/// Rejects requests that have a header `Mcp-Param-*`. A server must reject such a request if it cannot
/// compare the header with the arguments, because a proxy may have made decisions based on the header.
///
/// # Errors
/// [`ErrorCode::HEADER_MISMATCH`] if the request has a header `Mcp-Param-*`.
pub fn refuse_param_headers(fields: FieldLines<'_>) -> Result<(), Error> {
    let is_param = |name: &[u8]| {
        name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX.as_bytes()))
    };
    match fields.iter().find(|line| is_param(line.name.as_bytes())) {
        None => Ok(()),
        Some(line) => {
            let name = line.name.as_str();
            Err(mismatch(format!("cannot check the header `{name}` in this revision: do not send it")))
        }
    }
}

/// Returns `true` if the header is present and matches the argument, and `false` if the header is absent.
fn check_present_param_header(
    fields: FieldLines<'_>,
    header: &ParamHeader,
    arguments: &Value,
) -> Result<bool, Error> {
    let name = &header.field_name;
    match single(fields, name)? {
        None => Ok(false),
        Some(value) if header.mirrors(&value, arguments) => Ok(true),
        Some(_) => Err(mismatch(format!("the header `{name}` does not match the argument"))),
    }
}

/// Appends the headers of a POST that mirror its method and name. The caller must add the headers for the
/// revision and the arguments. `name` identifies the tool, prompt, resource or task of the request.
///
/// # Errors
/// The method contains characters that a header cannot contain.
pub fn append_headers(
    field_lines: &mut FieldLinesBuf,
    method: &str,
    name: Option<&str>,
) -> Result<(), InvalidFieldLine> {
    let value = FieldValue::new(method.as_bytes())?;
    field_lines.append_line(FieldLine { name: MCP_METHOD, value });
    if let Some(name) = name {
        let value = header_value::encode(name);
        field_lines.append_line(FieldLine { name: MCP_NAME, value: FieldValue::new(value.as_bytes())? });
    }
    Ok(())
}

/// Returns the value of the body that the header `Mcp-Name` mirrors.
fn mirrored_name<'p>(method: &str, params: &'p Params<'_>) -> Option<&'p str> {
    let member = match method {
        methods::TOOLS_CALL | methods::PROMPTS_GET => &params.name,
        methods::RESOURCES_READ => &params.uri,
        methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL => &params.task_id,
        _ => &None,
    };
    member.as_deref()
}

/// Checks a header that must occur only once and is never encoded. A proxy that does not decode headers must
/// read the same value as the server.
fn check_plain(fields: FieldLines<'_>, name: &str, expected: &str) -> Result<(), Error> {
    match once(fields, name)? {
        Some(value) if value == expected => Ok(()),
        Some(value) if value.as_str().is_none() => Err(malformed(name)),
        value => Err(contradicts(name, value.is_some())),
    }
}

fn contradicts(name: &str, is_there: bool) -> Error {
    let how = if is_there { "does not match the body" } else { "is missing" };
    mismatch(format!("the header `{name}` {how}"))
}

/// Returns the decoded value of a header that must occur only once.
fn single<'a>(fields: FieldLines<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Error> {
    let Some(value) = once(fields, name)? else { return Ok(None) };
    header_value::decode(value.as_bytes()).map(Some).map_err(|_| malformed(name))
}

fn once<'a>(fields: FieldLines<'a>, name: &str) -> Result<Option<FieldValue<'a>>, Error> {
    let mut values = fields.all(name);
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(mismatch(format!("the header `{name}` is present twice"))),
        (value, None) => Ok(value),
    }
}

fn malformed(name: &str) -> Error {
    mismatch(format!("the header `{name}` is malformed"))
}

fn mismatch(reason: String) -> Error {
    Error::new(ErrorCode::HEADER_MISMATCH, reason)
}

const MCP_METHOD: FieldName<'static> = FieldName::from_static("Mcp-Method");
const MCP_NAME: FieldName<'static> = FieldName::from_static("Mcp-Name");
