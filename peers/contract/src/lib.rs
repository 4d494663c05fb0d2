//! Responses and arguments that all peers share.
//!
//! This crate uses no sockets: each peer sends the bytes in its own way.

use std::net::SocketAddr;

/// Body of `GET /plaintext`.
pub const PLAINTEXT: &str = "Hello, World!";

/// `Content-Type` of `GET /plaintext`.
pub const TEXT: &str = "text/plain";

/// Length of a listener's queue of pending connections. In the churn workload, thousands arrive at once.
pub const BACKLOG: i32 = 4096;

/// Body of `GET /json`, serialized for each request.
#[derive(serde::Serialize)]
pub struct Greeting {
    /// The text that the benchmark expects.
    pub message: &'static str,
}

/// The value that `GET /json` serializes.
pub const GREETING: Greeting = Greeting { message: PLAINTEXT };

/// The response of revision 2025-06-18 to a call of `echo`, for a server that does not read the request.
pub const FIXED_MCP_ANSWER: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"echo\":\"Benchmark test message 1\","#,
    r#"\"length\":24}"}],"structuredContent":{"echo":"Benchmark test message 1","length":24}}}"#
);

/// Reads the listen address from `--listen ADDR`, or from a first argument that is just `ADDR`.
///
/// # Panics
/// Panics if there is no valid address.
#[must_use]
pub fn listen_address() -> SocketAddr {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    let address = match first.as_deref() {
        Some("--listen") => arguments.next(),
        _ => first,
    };
    let address = address.expect("an address is given: `--listen 127.0.0.1:8080`");
    address.parse().expect("the address is `IP:PORT`")
}

/// Returns `true` if the arguments contain `flag`.
#[must_use]
pub fn has_flag(flag: &str) -> bool {
    std::env::args().any(|argument| argument == flag)
}

/// Returns the number of tools of an MCP server: `--tools N`, at least 2 for the tools that have a function.
///
/// # Panics
/// Panics if the value of `--tools` is not a number.
#[must_use]
pub fn tools() -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--tools").skip(1);
    arguments.next().map_or(2, |n| n.parse().expect("the number of tools is a number"))
}

/// Returns the name of a tool without a function.
#[must_use]
pub fn tool_name(n: usize) -> String {
    format!("tool_{n:03}")
}
