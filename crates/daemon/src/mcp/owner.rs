//! Finds the replica that must handle a request to an MCP endpoint.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem;
use serde::Deserialize;
use thruway_mcp_sdk::{ReplicaId, ReplicaIds, Revision};
use thruway_message::FieldLines;

use crate::fleet::Fleet;

/// An endpoint that several replicas serve.
pub(super) struct FleetEndpoint {
    pub(super) fleet: Arc<Fleet>,
    pub(super) name: String,
    ids: ReplicaIds,
}

/// The parts of a request body that name a replica.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    request_state: Option<Cow<'a, str>>,
}

impl FleetEndpoint {
    pub(super) fn new(fleet: Arc<Fleet>, name: &str) -> Self {
        Self { ids: fleet.ids(name), fleet, name: name.to_owned() }
    }

    /// Returns the replica with the session or the task that the headers name, if this is another replica.
    pub(super) fn owner_in_fields(&self, fields: FieldLines<'_>) -> Option<ReplicaId> {
        let owner = if is_modern(fields) {
            let is_about_task = single(fields, "Mcp-Method")?.starts_with("tasks/");
            self.ids.replica_of_task(single(fields, "Mcp-Name").filter(|_| is_about_task)?)
        } else {
            self.ids.replica_of_session(single(fields, "Mcp-Session-Id")?)
        };
        self.if_other(owner)
    }

    /// Returns the replica with the pending call that the body names, if this is another replica.
    pub(super) fn owner_in_body(&self, content: &[u8]) -> Option<ReplicaId> {
        memmem::find(content, b"\"requestState\"")?;
        let body: Body<'_> = serde_json::from_slice(content).ok()?;
        self.if_other(self.ids.replica_of_state(&body.params?.request_state?))
    }

    fn if_other(&self, owner: Option<ReplicaId>) -> Option<ReplicaId> {
        owner.filter(|owner| *owner != self.fleet.replica())
    }
}

/// Returns `true` if the request has no session, because its revision is modern.
fn is_modern(fields: FieldLines<'_>) -> bool {
    let revision = fields.field("MCP-Protocol-Version").and_then(|value| value.as_str()?.parse().ok());
    revision.is_some_and(|revision: Revision| revision >= Revision::LATEST)
}

/// Returns the value of a header that is present exactly once.
fn single<'a>(fields: FieldLines<'a>, name: &str) -> Option<&'a str> {
    let mut values = fields.all(name);
    let value = values.next()?.as_str()?;
    values.next().is_none().then_some(value)
}
