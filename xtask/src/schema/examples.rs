//! The official examples: each is read as the type that its folder is named after, and written back.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thruway_mcp::json_rpc::{
    Error, Message, parse, write_error, write_notification, write_request, write_result,
};
use thruway_mcp::modern;
use thruway_mcp::params::Params;

use super::type_names::{Form, Rewrite};

/// The number of examples.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) types: usize,
}

/// Checks all examples below `directory`.
pub(super) fn check(directory: &Path, failures: &mut Vec<String>) -> Result<Tally> {
    let mut tally = Tally::default();
    for folder in sorted(directory)? {
        let type_name = folder.file_name().context("a folder has a name")?.to_string_lossy().into_owned();
        tally.types += 1;
        for path in sorted(&folder)? {
            let text = fs::read_to_string(&path)?;
            match check_one(&type_name, &text) {
                Ok(()) => tally.passed += 1,
                Err(error) => failures.push(format!("{}: {error:#}", path.display())),
            }
        }
    }
    ensure!(tally.passed > 0, "there are no examples below `{}`", directory.display());
    Ok(tally)
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read `{}`", directory.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn check_one(type_name: &str, text: &str) -> Result<()> {
    let form = Form::of(type_name).context("no type of ours has this name: add it to `type_names.rs`")?;
    let mut expected: Value = serde_json::from_str(text)?;
    let mut written = write_back(&form, text)?;
    if let Some(result) = result_of(type_name, &mut expected) {
        // They are the era's, not the type's.
        result.retain(|member, _| !ERA_MEMBERS.contains(&member.as_str()));
    }
    for (_, member, _) in LEFT_OUT.iter().filter(|(of, ..)| *of == type_name) {
        ensure!(remove(&mut expected, member), "`{member}` need not be left out: remove it from the list");
    }
    ensure!(is_same(&mut expected, &mut written), "it is written as something else: {written}");
    Ok(())
}

/// The part of an example that is a result, if it has one.
fn result_of<'v>(type_name: &str, value: &'v mut Value) -> Option<&'v mut Map<String, Value>> {
    if type_name.ends_with("Result") {
        value.as_object_mut()
    } else if type_name.ends_with("ResultResponse") {
        value.get_mut("result").and_then(Value::as_object_mut)
    } else {
        None
    }
}

fn remove(value: &mut Value, member: &str) -> bool {
    value.as_object_mut().is_some_and(|object| object.shift_remove(member).is_some())
}

fn write_back(form: &Form, text: &str) -> Result<Value> {
    match form {
        Form::Value(rewrite) => Ok(serde_json::from_str(&rewrite(text)?)?),
        Form::Error(code) => {
            let error: Error = serde_json::from_str(text)?;
            ensure!(error.code == *code, "another code: {}", error.code.0);
            Ok(serde_json::to_value(&error)?)
        }
        Form::Request(..) | Form::Notification(..) | Form::Response(_) | Form::ErrorResponse(_) => {
            Ok(serde_json::from_slice(&write_message(form, text)?)?)
        }
    }
}

fn write_message(form: &Form, text: &str) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    let message = parse(text.as_bytes()).map_err(|invalid| invalid.error)?;
    match (form, message) {
        (Form::Request(method, rewrite), Message::Request(request)) => {
            ensure!(request.method == *method, "another method: {}", request.method);
            modern::check_meta(&Params::parse(request.params)?.meta, None)?;
            let params = rewritten(*rewrite, request.params.map_or("{}", |params| params.get()))?;
            write_request(&mut output, &request.id, method, &params);
        }
        (Form::Notification(method, rewrite), Message::Notification(notification)) => {
            ensure!(notification.method == *method, "another method: {}", notification.method);
            let params = rewritten(*rewrite, notification.params.map_or("{}", |params| params.get()))?;
            write_notification(&mut output, method, &params);
        }
        (Form::Response(rewrite), Message::Response(response)) => {
            let id = response.id.context("there is no id")?;
            let result = rewrite(response.outcome?.get())?;
            write_result(&mut output, &id, |output| {
                output.extend_from_slice(result.as_bytes());
                Ok(())
            });
        }
        (Form::ErrorResponse(code), Message::Response(response)) => {
            let Err(error) = response.outcome else { bail!("it is no error") };
            ensure!(error.code == *code, "another code: {}", error.code.0);
            write_error(&mut output, response.id.as_ref(), &error);
        }
        (_, message) => bail!("another kind of message: {message:?}"),
    }
    Ok(output)
}

fn rewritten(rewrite: Rewrite, text: &str) -> Result<Box<RawValue>> {
    Ok(RawValue::from_string(rewrite(text)?)?)
}

/// Returns `true` if two values are equal; `1` equals `1.0`.
fn is_same(one: &mut Value, other: &mut Value) -> bool {
    plain_numbers(one);
    plain_numbers(other);
    one == other
}

fn plain_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_f64() {
                *value = number.into();
            }
        }
        Value::Array(array) => array.iter_mut().for_each(plain_numbers),
        Value::Object(object) => object.values_mut().for_each(plain_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

const ERA_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// Members of examples that are no part of the type, each with the reason.
const LEFT_OUT: &[(&str, &str, &str)] = &[(
    "ListRootsRequest",
    "id",
    "it is part of a result and has no envelope; neither has the schema this member",
)];

#[cfg(test)]
mod tests {
    use super::check_one;

    #[test]
    fn an_example_is_read_as_its_type_and_written_as_it_was() {
        check_one("Root", r#"{"uri": "file:///quay", "name": "Quay"}"#).unwrap();
        check_one("NumberSchema", r#"{"type": "number", "minimum": 1}"#).unwrap();
        check_one("CompleteResult", r#"{"resultType": "complete", "completion": {"values": []}}"#).unwrap();
        check_one("ParseError", r#"{"code": -32700, "message": "what?"}"#).unwrap();
    }

    #[test]
    fn what_gets_lost_or_is_no_such_message_fails() {
        for (type_name, text) in [
            ("Root", r#"{"uri": "file:///quay", "colour": "red"}"#),
            ("Root", r#"{"name": "Quay"}"#),
            ("Rowing", "{}"),
            ("ParseError", r#"{"code": -32600, "message": "what?"}"#),
            ("ProgressNotification", r#"{"jsonrpc": "2.0", "method": "notifications/cancelled"}"#),
            ("DiscoverRequest", r#"{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}"#),
        ] {
            assert!(check_one(type_name, text).is_err(), "{type_name} {text}");
        }
    }
}
