//! Ids of tasks in messages that are otherwise taken over as they are.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::members::{append_member, append_members};
use thruway_mcp::params::meta_keys;

use super::{Owner, Tasks};

/// Where the id stands in parameters, and in how a task stands.
pub(in crate::bridge) const TASK_ID: &[&str] = &["taskId"];

/// Where it stands in what a call has become.
pub(super) const CREATED_ID: &[&str] = &["task", "taskId"];

/// Where it stands in messages that belong to a task.
pub(super) const RELATED_ID: &[&str] = &["_meta", meta_keys::RELATED_TASK, "taskId"];

/// The same, with another string where `path` leads; `None` if it leads nowhere.
pub(in crate::bridge) fn replaced(json: &RawValue, path: &[&str], string: &str) -> Option<Box<RawValue>> {
    let Some((first, rest)) = path.split_first() else {
        return to_raw_value(string).ok();
    };
    let (mut output, found) = without(json, first)?;
    let member = replaced(found?, rest, string)?;
    append_member(&mut output, first, member.get());
    close(output)
}

/// The same without one of its members.
pub(in crate::bridge) fn stripped(json: &RawValue, member: &str) -> Option<Box<RawValue>> {
    without(json, member).and_then(|(output, _)| close(output))
}

/// Returns `true` if a message belongs to a task.
pub(in crate::bridge) fn is_related_to_task(params: &RawValue) -> bool {
    // Most do not.
    params.get().contains(meta_keys::RELATED_TASK) && string_at(params, RELATED_ID).is_some()
}

/// The string where `path` leads.
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

/// The members of an object that is still open, but for one, and that one.
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

/// Room for an id.
const ID_BYTES: usize = 64;

/// How one client and one server call the tasks that are between them.
#[derive(Clone, Debug)]
pub(in crate::bridge) struct Names {
    tasks: Arc<Tasks>,
    owner: Owner,
    /// The number of the server.
    server: u64,
}

impl Names {
    pub(in crate::bridge) const fn new(tasks: Arc<Tasks>, owner: Owner, server: u64) -> Self {
        Self { tasks, owner, server }
    }

    /// What the server calls task `id`, if it is the client's.
    pub(super) fn at_server(&self, id: &str) -> Option<Box<str>> {
        let found = self.tasks.find(id, &self.owner).ok()?;
        (found.upstream.number() == self.server).then_some(found.id)
    }

    /// What the client calls task `id` of the server, if it is the client's.
    pub(super) fn at_client(&self, id: &str) -> Option<Box<str>> {
        self.tasks.name_of(self.server, id, &self.owner)
    }

    /// What a server asks or says, as the client knows it; `None` if it belongs to no task.
    pub(in crate::bridge) fn told(&self, params: &RawValue) -> Option<Box<RawValue>> {
        // Most do not.
        if !params.get().contains(meta_keys::RELATED_TASK) {
            return None;
        }
        let name = self.at_client(&string_at(params, RELATED_ID)?)?;
        replaced(params, RELATED_ID, &name)
    }

    /// What a client answers, as the server knows it. That it belongs to a task of somebody else is not passed on.
    pub(in crate::bridge) fn answered(&self, answer: &mut Value) {
        let Some(meta) = answer.get_mut("_meta").and_then(Value::as_object_mut) else { return };
        let Some(related) = meta.get_mut(meta_keys::RELATED_TASK) else { return };
        let id = related.get("taskId").and_then(Value::as_str);
        match id.and_then(|id| self.at_server(id)) {
            Some(id) => related["taskId"] = (*id).into(),
            None => drop(meta.shift_remove(meta_keys::RELATED_TASK)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn only_the_id_is_replaced() {
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
            "both have gone"
        );
        for other in [r#"{"task":"1"}"#, r#"{"task":{}}"#, "[]", "1"] {
            assert_eq!(renamed(other, CREATED_ID), None, "{other}");
        }
    }

    #[test]
    fn a_string_is_found_where_a_path_leads() {
        let related = raw(r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t\u0041"}}}"#);
        assert_eq!(string_at(&related, RELATED_ID).as_deref(), Some("tA"));
        for other in [r#"{"_meta":{}}"#, r#"{"_meta":1}"#, "[]"] {
            assert_eq!(string_at(&raw(other), RELATED_ID), None, "{other}");
        }
        assert_eq!(stripped(&related, "_meta").unwrap().get(), "{}");
    }
}
