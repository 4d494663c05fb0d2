//! `thruway bench mcp`.

mod args;
mod load;

pub(crate) use args::McpArgs;
pub(super) use load::run;
