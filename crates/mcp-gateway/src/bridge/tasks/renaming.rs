//! Names of tasks: the client and the server know a task by different ids.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::params::meta_keys;

use super::json::{RELATED_ID, TaskNames, replaced, string_at};
use super::owner::Owner;
use super::table::Tasks;

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

impl TaskNames for Names {
    fn told(&self, params: &RawValue) -> Option<Box<RawValue>> {
        // Most do not.
        if !params.get().contains(meta_keys::RELATED_TASK) {
            return None;
        }
        let name = self.at_client(&string_at(params, RELATED_ID)?)?;
        replaced(params, RELATED_ID, &name)
    }
}
