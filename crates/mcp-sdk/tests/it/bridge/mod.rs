//! Bridges with clients of either era and servers of either era.

pub(crate) mod sites;
mod crossing;
mod param_headers;
mod apart;
mod faults;
mod breaks;
mod bounds;
mod ends;
pub(crate) mod task_server;
mod legacy_tasks;
mod both_eras;
mod bursts;
mod logs;
mod callers;
mod shares;
