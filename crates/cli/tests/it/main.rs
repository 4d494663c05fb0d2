//! Tests of the command as its users see it: with the real binary, real sockets and real signals.
//!
//! No test sleeps for a fixed time. Each waits for output of the process and fails after a generous
//! limit.

// test support
mod client;
mod process;

// routes, policies, protocols
mod demo;
mod routes;
mod access_log;
mod log_targets;
mod limits;
mod exhaustion;
mod store_faults;
mod mcp;
mod mcp_client;
mod mcp_dev;
mod mcp_login;
mod mcp_rules;
mod mcp_tokens;
mod mcp_bridge;
mod mcp_federate;
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
mod admin_access;
mod dashboard;

// load generator
mod bench;
mod bench_mcp;
mod bench_scenario;
mod bench_https;
mod bench_live;

// addresses, reload, shutdown
mod listening;
mod reload;
mod drain;

// invalid configs
mod mistakes;

// output of `check`, and environment variables
mod explain;
mod setups;
mod environment;

/// Path of the program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway");
