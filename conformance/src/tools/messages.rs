//! Tools that report progress, send log messages, or close the response stream before they return.

use std::time::Duration;

use thruway_mcp_sdk::schema::LoggingLevel;
use thruway_mcp_sdk::{Context, McpServer};
use tokio::time::sleep;

use super::tool::tool;

pub(super) fn register(server: McpServer) -> McpServer {
    server
        .tool(tool("test_tool_with_progress", "Reports progress"), with_progress)
        .tool(tool("test_tool_with_logging", "Logs its progress"), with_logging)
        .tool(tool("test_logging_tool", "Logs, if the client requests it"), with_logging)
        .tool(tool("test_reconnection", "Answers after the client has reconnected"), with_reconnection)
}

async fn with_progress(context: Context) -> &'static str {
    context.progress(0.0, Some(100.0), None).await;
    sleep(PAUSE).await;
    context.progress(50.0, Some(100.0), None).await;
    sleep(PAUSE).await;
    context.progress(100.0, Some(100.0), None).await;
    "Progress was reported"
}

async fn with_logging(context: Context) -> &'static str {
    context.log(LoggingLevel::Info, None, "Tool execution started").await;
    sleep(PAUSE).await;
    context.log(LoggingLevel::Info, None, "Tool processing data").await;
    sleep(PAUSE).await;
    context.log(LoggingLevel::Info, None, "Tool execution completed").await;
    "Messages were logged"
}

async fn with_reconnection(context: Context) -> &'static str {
    context.disconnect(PAUSE).await;
    sleep(2 * PAUSE).await;
    "Reconnection test completed"
}

const PAUSE: Duration = Duration::from_millis(50);
