//! A slow tool that reports progress and logs. A client that supports tasks gets a task at once and
//! fetches the result later. All other clients wait for the result.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::schema::{LoggingLevel, Tool};
use thruway_mcp_sdk::{Context, McpServer, Structured, TaskSupport};
use thruway_server::{Router, Server, ServerError};
use tokio::time::sleep;

#[derive(Deserialize, JsonSchema)]
struct Wanted {
    /// Number of chapters
    #[schemars(range(min = 1, max = 100))]
    chapters: u32,
}

#[derive(Serialize, JsonSchema)]
struct Report {
    chapters: Vec<String>,
}

/// The server drops this future when the client stops waiting or cancels the task. If the future starts work
/// in other tasks or threads, end that work too.
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
