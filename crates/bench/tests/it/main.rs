//! Loads against servers of known behaviour: in memory with virtual time, and on sockets.
#![expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "tests count to thousands")]

// tools
mod scene;
mod http2_scene;
mod mcp_scene;

// in virtual time
mod truth;
mod failures;
mod pipelines;
mod streams;

// on sockets
mod sockets;
mod reports;

// messages of MCP
mod mcp_http;
mod mcp_stdio;
mod fan_out;
