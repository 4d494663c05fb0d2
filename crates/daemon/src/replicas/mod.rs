//! The replicas of a fleet: each process writes a record about itself to the store, and reads the records of the
//! others. Shared limits, shared health, certificates and the forwarding of MCP requests use this list.

mod heartbeat;
mod record;
mod registry;

pub(crate) use record::{ReplicaRecord, ReplicaWork};
pub(crate) use registry::{KnownReplica, ReplicaList, ReplicaRegistry};
