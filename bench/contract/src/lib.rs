//! What every peer serves, and how it is told where to listen.
//!
//! Nothing here touches a socket: each peer serves these octets with its own means.

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
