//! Checks the official examples: reads each one as the type that its folder names, and writes it back.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{
    Error, Message, parse, write_error, write_notification, write_request, write_result,
};
use thruway_mcp::modern;
use thruway_mcp::params::Params;
use walkdir::WalkDir;

use super::type_names;

/// Checks all examples in `directory`. Returns the number of types and the number of correct examples.
pub(super) fn check(directory: &Path, failures: &mut Vec<String>) -> Result<(usize, usize)> {
    let mut types = BTreeSet::new();
    let mut passed = 0;
    for file in WalkDir::new(directory).min_depth(2).sort_by_file_name() {
        let path = file?.into_path();
        let folder = path.parent().and_then(Path::file_name).context("a file is in a folder")?;
        let type_name = folder.to_string_lossy();
        match check_one(&type_name, &fs::read_to_string(&path)?) {
            Ok(()) => passed += 1,
            Err(error) => failures.push(format!("{}: {error:#}", path.display())),
        }
        types.insert(type_name.into_owned());
    }
    ensure!(passed > 0, "no examples in `{}`", directory.display());
    Ok((types.len(), passed))
}

fn check_one(type_name: &str, text: &str) -> Result<()> {
    let mut expected: Value = serde_json::from_str(text)?;
    let mut written: Value = if let Some(rewrite) = type_names::value(type_name) {
        serde_json::from_str(&rewrite(text)?)?
    } else if expected.get("jsonrpc").is_some() {
        serde_json::from_slice(&write_message(type_name, text)?)?
    } else {
        type_names::error(type_name).context(UNKNOWN)?;
        serde_json::to_value(checked(type_name, serde_json::from_str(text)?)?)?
    };
    let response = type_name.ends_with("Response").then_some("/result");
    let pointer = response.or(type_name.ends_with("Result").then_some(""));
    if let Some(Value::Object(result)) = pointer.and_then(|pointer| expected.pointer_mut(pointer)) {
        // In the modern era, every result has these members, and the types do not contain them.
        result.retain(|member, _| !["resultType", "ttlMs", "cacheScope"].contains(&member.as_str()));
    }
    if let ("ListRootsRequest", Value::Object(request)) = (type_name, &mut expected) {
        // In the schema, this request is part of a result. So it has no envelope and no `id`.
        request.shift_remove("id").context("the example has no `id`: this exception is obsolete")?;
    }
    plain_numbers(&mut expected);
    plain_numbers(&mut written);
    ensure!(expected == written, "the written value differs: {written}");
    Ok(())
}

/// Reads a message and writes it back.
fn write_message(type_name: &str, text: &str) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    match parse(text.as_bytes()).map_err(|invalid| invalid.error)? {
        Message::Request(request) if type_name.ends_with("Request") => {
            modern::check_meta(&Params::parse(request.params)?.meta, None)?;
            let params = rewritten(type_name, &request.method, request.params)?;
            write_request(&mut output, &request.id, &request.method, &params);
        }
        Message::Notification(notification) if type_name.ends_with("Notification") => {
            let params = rewritten(type_name, &notification.method, notification.params)?;
            write_notification(&mut output, &notification.method, &params);
        }
        Message::Response(response) => match response.outcome {
            Ok(result) => {
                let rewrite = type_name.strip_suffix("Response").and_then(type_names::value);
                let result = rewrite.context(UNKNOWN)?(result.get())?;
                write_result(&mut output, &response.id.context("the response has no ID")?, |output| {
                    output.extend_from_slice(result.as_bytes());
                    Ok(())
                });
            }
            Err(error) => write_error(&mut output, response.id.as_ref(), &checked(type_name, error)?),
        },
        message => bail!("unexpected kind of message: {message:?}"),
    }
    Ok(output)
}

/// Reads the parameters as our type and writes them back.
fn rewritten(type_name: &str, method: &str, params: Option<&RawValue>) -> Result<Box<RawValue>> {
    let (expected, rewrite) = type_names::message(type_name).context(UNKNOWN)?;
    ensure!(method == expected, "unexpected method: {method}");
    Ok(RawValue::from_string(rewrite(params.map_or("{}", RawValue::get))?)?)
}

fn checked(type_name: &str, error: Error) -> Result<Error> {
    let code = type_names::error(type_name).context(UNKNOWN)?;
    ensure!(error.code == code, "unexpected error code: {}", error.code.0);
    Ok(error)
}

/// Converts all numbers to floats, so that `1` equals `1.0`.
fn plain_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.as_f64().into(),
        Value::Array(array) => array.iter_mut().for_each(plain_numbers),
        Value::Object(object) => object.values_mut().for_each(plain_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

const UNKNOWN: &str = "unknown type name: add it to `type_names.rs`";

#[cfg(test)]
mod tests {
    use super::check_one;

    #[test]
    fn written_example_must_equal_the_original() {
        for (type_name, text, is_good) in [
            ("Root", r#"{"uri": "file:///quay", "name": "Quay"}"#, true),
            ("NumberSchema", r#"{"type": "number", "minimum": 1}"#, true),
            ("CompleteResult", r#"{"resultType": "complete", "completion": {"values": []}}"#, true),
            ("ParseError", r#"{"code": -32700, "message": "what?"}"#, true),
            ("Root", r#"{"uri": "file:///quay", "colour": "red"}"#, false),
            ("Root", r#"{"name": "Quay"}"#, false),
            ("Rowing", "{}", false),
            ("ParseError", r#"{"code": -32600, "message": "what?"}"#, false),
            ("ProgressNotification", r#"{"jsonrpc": "2.0", "method": "notifications/cancelled"}"#, false),
            ("DiscoverRequest", r#"{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}"#, false),
        ] {
            let checked = check_one(type_name, text);
            assert_eq!(checked.is_ok(), is_good, "{type_name} {text}: {checked:?}");
        }
    }
}
