//! `thruway mcp`.

mod demo;
mod serve;

pub(crate) use demo::server as demo_server;
pub(crate) use serve::run as serve;
