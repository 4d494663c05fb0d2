//! The fleet: several processes that serve the same MCP endpoints behind one load balancer. Each session, pending call
//! and task stays on one replica. The other replicas forward its requests to this replica.

// this replica
mod replica;
mod membership;
mod status;

// the other replicas
mod liveness;
mod peers;

// forwarded requests
mod caller;
mod watched_body;
mod forwarding;
mod listener;

// durable state
mod durable;
mod task_archive;
mod event_archive;
mod archives;

#[cfg(test)]
mod tests;

pub(crate) use archives::Archives;
pub(crate) use membership::FleetMembership;
pub(crate) use replica::{Fleet, PeerEndpoint};
pub(crate) use status::ForwardingCounts;
