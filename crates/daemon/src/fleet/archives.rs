//! The archives of the MCP endpoints.

use std::sync::Arc;

use thruway_mcp_sdk::{EventArchive, TaskArchive};
use thruway_store::Store;
use tokio::runtime::Handle;

use super::durable::DurableStore;
use super::event_archive::StoredEvents;
use super::replica::Fleet;
use super::task_archive::StoredTasks;

/// Creates archives in a store that other replicas share.
#[derive(Clone)]
pub(crate) struct Archives {
    fleet: Arc<Fleet>,
    store: Store,
    /// The event loop of the tasks that write events.
    runtime: Handle,
}

impl Archives {
    pub(crate) const fn new(fleet: Arc<Fleet>, store: Store, runtime: Handle) -> Self {
        Self { fleet, store, runtime }
    }

    /// Returns the archive for the tasks of the endpoint `endpoint`.
    pub(crate) fn tasks(&self, endpoint: &str) -> Arc<dyn TaskArchive> {
        Arc::new(StoredTasks { fleet: self.fleet.clone(), durable: self.durable(endpoint) })
    }

    /// Returns the archive for the events of the endpoint `endpoint`.
    pub(crate) fn events(&self, endpoint: &str) -> Arc<dyn EventArchive> {
        Arc::new(StoredEvents::start(self.fleet.clone(), self.durable(endpoint), &self.runtime))
    }

    fn durable(&self, endpoint: &str) -> DurableStore {
        DurableStore::new(self.store.clone(), &self.fleet.key, endpoint)
    }
}
