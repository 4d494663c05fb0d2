//! Tests of the tools for authors of MCP servers.

mod inspect;
mod install;
mod new;
