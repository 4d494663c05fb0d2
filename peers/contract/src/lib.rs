//! What every peer serves, and how it is told where to listen.
//!
//! Nothing here touches a socket: each peer serves these bytes with its own means.

use std::net::SocketAddr;

/// Content of `GET /plaintext`.
pub const PLAINTEXT: &str = "Hello, World!";

/// `Content-Type` of `GET /plaintext`.
pub const TEXT: &str = "text/plain";

/// Pending connections the kernel keeps for a listener; thousands arrive at once in the churn workload.
pub const BACKLOG: i32 = 4096;

/// Content of `GET /json`, to be serialised for each request.
#[derive(serde::Serialize)]
pub struct Greeting {
    /// The text that the benchmark expects.
    pub message: &'static str,
}

/// The value that `GET /json` serialises.
pub const GREETING: Greeting = Greeting { message: PLAINTEXT };

/// The answer of revision 2025-06-18 to a call of `echo`, for a server that answers without looking.
pub const FIXED_MCP_ANSWER: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"echo\":\"Benchmark test message 1\","#,
    r#"\"length\":24}"}],"structuredContent":{"echo":"Benchmark test message 1","length":24}}}"#
);

/// Reads the listen address from `--listen ADDR`, or from a first argument that is just `ADDR`.
///
/// # Panics
/// When there is no valid address: a peer without one has nothing to do.
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

/// Says if `flag` stands among the arguments.
#[must_use]
pub fn has_flag(flag: &str) -> bool {
    std::env::args().any(|argument| argument == flag)
}

/// How many tools an MCP server has: `--tools N`, at least the two that do something.
///
/// # Panics
/// When what follows `--tools` is not a number.
#[must_use]
pub fn tools() -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--tools").skip(1);
    arguments.next().map_or(2, |n| n.parse().expect("the number of tools is a number"))
}

/// The name of a tool that does nothing but stand in the list.
#[must_use]
pub fn tool_name(n: usize) -> String {
    format!("tool_{n:03}")
}
