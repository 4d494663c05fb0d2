//! Responses and command-line arguments that all peers share.
//!
//! This crate uses no sockets, because each peer sends responses with its own HTTP library.

use std::net::SocketAddr;

/// Body of `GET /plaintext`.
pub const PLAINTEXT: &str = "Hello, World!";

/// `Content-Type` of `GET /plaintext`.
pub const TEXT: &str = "text/plain";

/// Length of the listen queue. In the churn workload, thousands of connections arrive at the same time.
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
pub const FIXED_MCP_RESPONSE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"echo\":\"Benchmark test message 1\","#,
    r#"\"length\":24}"}],"structuredContent":{"echo":"Benchmark test message 1","length":24}}}"#
);

/// Reads the listen address from `--listen ADDR`, or from the first argument if this argument is an address.
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
    let address = address.expect("the arguments should contain `--listen 127.0.0.1:8080`");
    address.parse().expect("the address should have the form `IP:PORT`")
}

/// Returns `true` if the arguments contain `flag`.
#[must_use]
pub fn has_flag(flag: &str) -> bool {
    std::env::args().any(|argument| argument == flag)
}

/// Returns the number of tools of an MCP server, from `--tools N`. 2 by default: `echo` and `add`.
///
/// # Panics
/// Panics if the value of `--tools` is not a number.
#[must_use]
pub fn tools() -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--tools").skip(1);
    arguments.next().map_or(2, |n| n.parse().expect("the value of `--tools` should be a number"))
}

/// Returns the name of tool number `n`, which does nothing.
#[must_use]
pub fn tool_name(n: usize) -> String {
    format!("tool_{n:03}")
}
