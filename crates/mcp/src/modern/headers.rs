//! The headers that mirror the body.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

use serde_json::Value;
use thruway_message::{FieldLines, FieldValue};

use crate::header_value;
use crate::json_rpc::{Error, ErrorCode};
use crate::param_headers::ParamHeader;
use crate::params::Params;
use crate::schema::methods;

/// Checks that the headers of a POST say what its body says: intermediaries decide by the headers.
///
/// # Errors
/// [`ErrorCode::HEADER_MISMATCH`]: one is missing, malformed, there twice, or says something else.
pub fn check_headers(fields: FieldLines<'_>, method: &str, params: &Params<'_>) -> Result<(), Error> {
    if let Some(version) = &params.meta.protocol_version {
        check_one("MCP-Protocol-Version", plain(fields, "MCP-Protocol-Version")?, version)?;
    }
    check_one("Mcp-Method", plain(fields, "Mcp-Method")?, method)?;
    match mirrored_name(method, params) {
        Some(name) => check_one("Mcp-Name", decoded(fields, "Mcp-Name")?, name),
        None => Ok(()),
    }
}

/// Checks the headers that mirror arguments of a tool.
///
/// # Errors
/// As [`check_headers`].
pub fn check_param_headers(
    fields: FieldLines<'_>,
    headers: &[ParamHeader],
    arguments: &Value,
) -> Result<(), Error> {
    headers.iter().try_for_each(|header| {
        let name = &header.field_name;
        match decoded(fields, name)? {
            Some(value) if header.mirrors(&value, arguments) => Ok(()),
            Some(_) => Err(mismatch(format!("the header `{name}` does not match the argument"))),
            None if header.expected(arguments).is_none() => Ok(()),
            None => Err(mismatch(format!("the header `{name}` is missing"))),
        }
    })
}

/// What `Mcp-Name` mirrors.
fn mirrored_name<'p>(method: &str, params: &'p Params<'_>) -> Option<&'p str> {
    let member = match method {
        methods::TOOLS_CALL | methods::PROMPTS_GET => &params.name,
        methods::RESOURCES_READ => &params.uri,
        methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL => &params.task_id,
        _ => &None,
    };
    member.as_deref()
}

fn check_one(name: &'static str, value: Option<Cow<'_, str>>, expected: &str) -> Result<(), Error> {
    match value {
        Some(value) if value == expected => Ok(()),
        Some(_) => Err(mismatch(format!("the header `{name}` does not match the body"))),
        None => Err(mismatch(format!("the header `{name}` is missing"))),
    }
}

/// The value of a field that may stand there once, as it is: only names and arguments may be encoded.
fn plain<'a>(fields: FieldLines<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Error> {
    let Some(value) = single(fields, name)? else { return Ok(None) };
    let text = core::str::from_utf8(value.as_bytes()).map_err(|_| malformed(name))?;
    Ok(Some(Cow::Borrowed(text)))
}

/// The same, decoded.
fn decoded<'a>(fields: FieldLines<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Error> {
    let Some(value) = single(fields, name)? else { return Ok(None) };
    header_value::decode(value.as_bytes()).map(Some).map_err(|_| malformed(name))
}

fn single<'a>(fields: FieldLines<'a>, name: &str) -> Result<Option<FieldValue<'a>>, Error> {
    let mut values = fields.all(name);
    let value = values.next();
    match values.next() {
        Some(_) => Err(mismatch(format!("the header `{name}` is there twice"))),
        None => Ok(value),
    }
}

fn malformed(name: &str) -> Error {
    mismatch(format!("the header `{name}` is malformed"))
}

fn mismatch(reason: String) -> Error {
    Error::new(ErrorCode::HEADER_MISMATCH, reason)
}
