//! The command as its users see it: the real binary, real sockets, real signals.
//!
//! No test waits for a time to pass: each waits for what the process prints or sends, and fails when that
//! takes longer than any machine needs.

// tools
mod client;
mod process;

// what is served
mod demo;
mod routes;
mod access_log;
mod limits;
mod exhaustion;
mod mcp;
mod mcp_client;
mod mcp_login;
mod mcp_bridge;
mod mcp_access;
mod shell;
mod gateway;
mod policies;
mod rewriting;
mod compression;
mod tcp;
mod tunnels;
mod tls;
mod acme;
mod tls_rotation;
mod admin;

// what is measured
mod bench;
mod bench_mcp;
mod bench_https;

// where, and how it ends
mod listening;
mod reload;
mod drain;

// what is refused
mod mistakes;

// what is said about a config
mod explain;
mod environment;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway");
