//! Two layers around the handlers of tools. One layer limits the number of calls, and the other logs the
//! duration of each call.

use std::sync::atomic::{AtomicU32, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{Call, HandlerError, Layer, McpServer, Next, Outcome, ServerResult};
use thruway_server::{Router, Server};
use tokio::time::Instant;

#[derive(Deserialize, JsonSchema)]
struct Shout {
    text: String,
}

/// Rejects calls after a quota is used up. Contains the number of calls that are left.
struct Quota(AtomicU32);

impl Layer for Quota {
    fn call(&self, _: &Call<'_>, next: Next<'_>) -> Outcome<ServerResult> {
        let left = self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => next.run(),
            Err(_) => Outcome::Now(Err(HandlerError::failed("the quota is used up"))),
        }
    }
}

fn stopwatch(call: &Call<'_>, next: Next<'_>) -> Outcome<ServerResult> {
    let (began, name) = (Instant::now(), call.name().unwrap_or_default().to_owned());
    next.run().map(move |outcome| {
        eprintln!("{name} took {:?}", began.elapsed());
        outcome
    })
}

pub(crate) fn server(quota: u32) -> McpServer {
    McpServer::new("shouting", "1.0.0")
        .tool(Tool::new("shout").with_description("Says it louder"), |Shout { text }: Shout| {
            text.to_uppercase()
        })
        .layer(Quota(AtomicU32::new(quota)))
        .layer(stopwatch)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Server::new(Router::new().any("/mcp", server(1000).endpoint())).listen("127.0.0.1:8080")?.run()?;
    Ok(())
}
