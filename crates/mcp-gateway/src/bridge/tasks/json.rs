//! Replaces task ids in JSON text without changing other members.

use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::members::{append_member, append_members};
use thruway_mcp::params::meta_keys;

/// Path to the task id in the parameters of a request, and in the state of a task.
pub(in crate::bridge) const TASK_ID: &[&str] = &["taskId"];

/// Path to the task id in an answer that creates a task.
pub(super) const CREATED_ID: &[&str] = &["task", "taskId"];

/// Path to the task id in messages that belong to a task.
pub(super) const RELATED_ID: &[&str] = &["_meta", meta_keys::RELATED_TASK, "taskId"];

/// Copies `json`, and replaces the value at `path` with `string`. Returns `None` if `json` has no value
/// at this path.
pub(crate) fn replaced(json: &RawValue, path: &[&str], string: &str) -> Option<Box<RawValue>> {
    let Some((first, rest)) = path.split_first() else {
        return to_raw_value(string).ok();
    };
    let (mut output, found) = without(json, first)?;
    let member = replaced(found?, rest, string)?;
    append_member(&mut output, first, member.get());
    close(output)
}

/// Returns a copy of a JSON object without the member `member`.
pub(in crate::bridge) fn stripped(json: &RawValue, member: &str) -> Option<Box<RawValue>> {
    without(json, member).and_then(|(output, _)| close(output))
}

/// Returns `true` if a message belongs to a task.
pub(in crate::bridge) fn is_related_to_task(params: &RawValue) -> bool {
    // Search the text before parsing, because most messages belong to no task.
    params.get().contains(meta_keys::RELATED_TASK) && string_at(params, RELATED_ID).is_some()
}

/// Returns the string at `path`, or `None` if `json` has no string at this path.
pub(in crate::bridge) fn string_at(json: &RawValue, path: &[&str]) -> Option<String> {
    match path.split_first() {
        Some((first, rest)) => string_at(member(json, first)?, rest),
        None => serde_json::from_str(json.get()).ok(),
    }
}

fn member<'j>(json: &'j RawValue, member: &str) -> Option<&'j RawValue> {
    let mut found = None;
    let looked_at = append_members(&mut Vec::new(), json, |name, value| {
        found = if name == member { Some(value) } else { found };
        false
    });
    looked_at.ok().and(found)
}

/// Copies a JSON object without the member `member`. The copy also lacks the closing brace, so that the
/// caller can append members. Returns the copy and the value of the removed member.
fn without<'j>(json: &'j RawValue, member: &str) -> Option<(Vec<u8>, Option<&'j RawValue>)> {
    let mut output = Vec::with_capacity(json.get().len() + ID_BYTES);
    output.push(b'{');
    let mut found = None;
    let appended = append_members(&mut output, json, |name, value| {
        let is_other = name != member;
        found = if is_other { found } else { Some(value) };
        is_other
    });
    appended.ok().map(|()| (output, found))
}

fn close(mut object: Vec<u8>) -> Option<Box<RawValue>> {
    object.push(b'}');
    RawValue::from_string(String::from_utf8(object).ok()?).ok()
}

/// Extra capacity of the output in bytes, because the new task id may be longer.
const ID_BYTES: usize = 64;

/// Translates the task ids of one server to the task ids of one client.
pub(in crate::bridge) trait TaskIdTranslator: Send + Sync + std::fmt::Debug {
    /// Returns a copy of the parameters of a message, with the client's task id in place of the server's task
    /// id. Returns `None` if the message belongs to no task of the client.
    fn with_client_task_id(&self, params: &RawValue) -> Option<Box<RawValue>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn replaced_changes_only_the_task_id() {
        let renamed = |json: &str, path| replaced(&raw(json), path, "é\"").map(|json| json.get().to_owned());
        let task = r#"{"taskId":"1","ttl": 1.0e2}"#;
        assert_eq!(renamed(task, TASK_ID).unwrap(), r#"{"ttl":1.0e2,"taskId":"é\""}"#);
        let created = r#"{"task":{"status":"working","task\u0049d":"1"},"x":[ 1]}"#;
        assert_eq!(
            renamed(created, CREATED_ID).unwrap(),
            r#"{"x":[ 1],"task":{"status":"working","taskId":"é\""}}"#
        );
        assert_eq!(
            renamed(r#"{"taskId":"1","taskId":"2"}"#, TASK_ID).unwrap(),
            r#"{"taskId":"é\""}"#,
            "both members should be replaced"
        );
        for other in [r#"{"task":"1"}"#, r#"{"task":{}}"#, "[]", "1"] {
            assert_eq!(renamed(other, CREATED_ID), None, "{other}");
        }
    }

    #[test]
    fn string_at_returns_string_at_path() {
        let related = raw(r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t\u0041"}}}"#);
        assert_eq!(string_at(&related, RELATED_ID).as_deref(), Some("tA"));
        for other in [r#"{"_meta":{}}"#, r#"{"_meta":1}"#, "[]"] {
            assert_eq!(string_at(&raw(other), RELATED_ID), None, "{other}");
        }
        assert_eq!(stripped(&related, "_meta").unwrap().get(), "{}");
    }
}
