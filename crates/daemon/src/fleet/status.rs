//! The numbers of forwarded requests, for operators.

use serde::Serialize;

use super::replica::Fleet;

/// Numbers of requests since the start of this process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Debug)]
pub(crate) struct ForwardingCounts {
    /// Number of requests that other replicas have answered for this replica.
    pub(crate) forwarded: u64,
    /// Number of requests that this replica has answered for other replicas.
    pub(crate) received: u64,
    /// Number of requests whose owner was not in the list or did not answer.
    pub(crate) missing_owners: u64,
    /// Number of times that the store has failed for durable tasks.
    pub(crate) durable_task_failures: u64,
    /// Number of times that the store has failed for durable events.
    pub(crate) durable_event_failures: u64,
    /// Number of events of sessions that this replica has stored.
    pub(crate) durable_events: u64,
}

impl Fleet {
    /// Returns the numbers of forwarded requests.
    pub(super) fn forwarding(&self) -> ForwardingCounts {
        ForwardingCounts {
            forwarded: self.counts.forwarded(),
            received: self.counts.received(),
            missing_owners: self.counts.missing_owners(),
            durable_task_failures: self.durable_counts.tasks(),
            durable_event_failures: self.durable_counts.events(),
            durable_events: self.durable_counts.stored_events(),
        }
    }
}
