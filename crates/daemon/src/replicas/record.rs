//! The record of a replica in the store. The key of the fleet encrypts it, so foreign data in the store cannot redirect
//! requests.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::ReplicaId;
use thruway_store::{SealingKey, SharedKey};

/// Encrypts and decrypts the records.
pub(super) struct RecordSealer(SealingKey);

/// The data that a replica publishes about itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct ReplicaRecord {
    /// The name in the config.
    pub(crate) name: String,
    /// The address of the peer listener. `None` if the replica accepts no requests of other replicas.
    pub(crate) address: Option<SocketAddr>,
    /// `true` if the replica shuts down.
    pub(crate) is_draining: bool,
    /// The version of Thruway.
    pub(crate) version: String,
    /// Start time of the replica, in seconds since the Unix epoch.
    pub(crate) started: u64,
    /// Number of this record. It increases each time that the replica writes its record.
    pub(crate) beat: u64,
    /// The state that this replica owns.
    #[serde(flatten)]
    pub(crate) work: ReplicaWork,
}

/// The state that a replica owns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub(crate) struct ReplicaWork {
    /// Number of MCP sessions of legacy clients.
    pub(crate) sessions: usize,
    /// Number of MCP calls that wait for an answer of the client.
    pub(crate) pending_calls: usize,
    /// Number of MCP tasks.
    pub(crate) tasks: usize,
    /// `true` if the replica holds the lock for orders of certificates.
    pub(crate) holds_certificate_lock: bool,
}

impl RecordSealer {
    pub(super) fn new(key: &SharedKey) -> Self {
        Self(key.sealing("records of replicas"))
    }

    pub(super) fn seal(&self, replica: ReplicaId, record: &ReplicaRecord) -> Vec<u8> {
        // All these values can be written as JSON.
        let json = serde_json::to_vec(record).unwrap_or_default();
        self.0.seal(&json, replica.to_string().as_bytes())
    }

    /// Returns the record of the member `member`. Returns `None` if the record is not of this fleet.
    pub(super) fn open(&self, member: &str, sealed: &[u8]) -> Option<(ReplicaId, ReplicaRecord)> {
        let replica = ReplicaId::parse(member)?;
        Some((replica, serde_json::from_slice(&self.0.open(sealed, member.as_bytes())?).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_valid_only_in_its_fleet_and_for_its_replica() {
        let record = ReplicaRecord {
            name: "a".to_owned(),
            address: Some(([127, 0, 0, 1], 1).into()),
            is_draining: false,
            version: "1".to_owned(),
            started: 3,
            beat: 4,
            work: ReplicaWork { sessions: 2, tasks: 5, ..ReplicaWork::default() },
        };
        let (records, replica) = (RecordSealer::new(&SharedKey::random()), ReplicaId::random());
        let sealed = records.seal(replica, &record);
        assert_eq!(records.open(&replica.to_string(), &sealed), Some((replica, record)));
        assert_eq!(records.open(&ReplicaId::random().to_string(), &sealed), None);
        assert_eq!(RecordSealer::new(&SharedKey::random()).open(&replica.to_string(), &sealed), None);
        assert_eq!(records.open("a", &sealed), None);
    }
}
