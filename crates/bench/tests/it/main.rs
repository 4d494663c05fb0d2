//! Tests of loads against servers of known behavior: in memory with simulated time, and on sockets.
#![expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "tests count to thousands")]

// Test support
mod scene;
mod http2_scene;
mod mcp_scene;

// With simulated time
mod truth;
mod failures;
mod pipelines;
mod streams;

// On sockets
mod sockets;
mod reports;
mod report_reference;
mod scenarios;
mod scenario_files;

// MCP messages
mod mcp_http;
mod mcp_stdio;
mod fan_out;
