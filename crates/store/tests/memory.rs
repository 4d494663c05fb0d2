//! The memory store passes the contract tests, in virtual time.

mod contract;

use std::future::{Ready, ready};

use thruway_store::Store;

/// Each test gets an empty store.
fn store() -> Ready<Store> {
    ready(Store::memory())
}

contract::tests!(start_paused = true);
