//! A tool that takes longer than a client likes to wait. It reports progress and logs; a client that knows of
//! tasks is answered with one at once and comes back for the result, any other waits.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::schema::{LoggingLevel, Tool};
use thruway_mcp_sdk::{Context, McpServer, Structured, TaskSupport};
use thruway_server::{Router, Server, ServerError};
use tokio::time::sleep;

#[derive(Deserialize, JsonSchema)]
struct Wanted {
    /// How many chapters
    #[schemars(range(min = 1, max = 100))]
    chapters: u32,
}

#[derive(Serialize, JsonSchema)]
struct Report {
    chapters: Vec<String>,
}

/// Dropped when nobody waits for it any more, or when the task is cancelled: what it has begun elsewhere is
/// given up then.
async fn write(Wanted { chapters: wanted }: Wanted, context: Context) -> Structured<Report> {
    let mut chapters = Vec::new();
    for n in 1..=wanted {
        sleep(Duration::from_millis(10)).await;
        chapters.push(format!("chapter {n}"));
        context.progress(f64::from(n), Some(f64::from(wanted)), Some("another chapter is done")).await;
        context.log(LoggingLevel::Debug, Some("report"), format!("chapter {n} has been written")).await;
    }
    Structured(Report { chapters })
}

pub(crate) fn server() -> McpServer {
    let tool = Tool::new("report").with_description("Writes a report");
    McpServer::new("reports", "1.0.0").task_tool(tool, TaskSupport::OPTIONAL, write)
}

fn main() -> Result<(), ServerError> {
    Server::new(Router::new().any("/mcp", server().endpoint())).listen("127.0.0.1:8080")?.run()
}
