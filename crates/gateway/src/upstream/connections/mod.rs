//! Connections: to the servers of an upstream, and how many there may be.

pub(crate) mod queue;
pub(crate) mod waiting;
pub(crate) mod limits;
pub(crate) mod pool;
pub(crate) mod idle;
pub(crate) mod shared;
pub(crate) mod open;
pub(crate) mod exchange;
