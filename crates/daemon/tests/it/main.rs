//! Tests of the daemon inside another program, from a file and from code. The examples are tested unchanged.

mod client;
mod collector;
mod configs_from_code;
mod deploy;
mod examples;
mod files_with_mistakes;
mod fleet;
mod forward_auth;
mod includes;
mod logs;
mod mcp_access;
mod mcp_relay;
mod metrics_export;
mod reload;
mod response_rules;
mod routing;
mod secured_collectors;
mod service;
mod site;
mod shared_limits;
mod shared_store;
mod tls_failures;
mod tracing;
