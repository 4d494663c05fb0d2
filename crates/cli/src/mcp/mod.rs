//! `thruway mcp`.

mod demo;
mod routes;
mod serve;

pub(crate) use routes::{endpoint, mount};
pub(crate) use serve::run as serve;
