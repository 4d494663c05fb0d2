//! A slow tool that reports progress and asks the user for confirmation. The same code works for clients of
//! both eras of the protocol.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::schema::{Tool, ToolAnnotations};
use thruway_mcp_sdk::{Context, ElicitForm, Elicited, HandlerError, McpServer};
use thruway_server::{Router, Server, ServerError};
use tokio::time::sleep;

#[derive(Deserialize, JsonSchema)]
struct Booking {
    destination: String,
    nights: u8,
}

/// The form that the user fills in.
#[derive(Deserialize, JsonSchema, ElicitForm)]
struct Confirmation {
    #[schemars(title = "Book it")]
    #[serde(default)]
    sure: bool,
}

/// To answer the question, a modern client sends its call again, so this function runs again from the
/// start. The code before the question must therefore be safe to repeat.
async fn book(Booking { destination, nights }: Booking, context: Context) -> Result<String, HandlerError> {
    let question = format!("Book {nights} nights in {destination}?");
    if !matches!(context.elicit(question).await?, Elicited::Accepted(Confirmation { sure: true })) {
        return Err(HandlerError::failed("nothing was booked"));
    }
    for night in 1..=nights {
        context.progress(f64::from(night), Some(f64::from(nights)), Some("booking")).await;
        sleep(Duration::from_millis(10)).await;
    }
    Ok(format!("booked {nights} nights in {destination}"))
}

pub(crate) fn server() -> McpServer {
    let annotations = ToolAnnotations { destructive_hint: Some(true), ..ToolAnnotations::default() };
    McpServer::new("booking", "1.0.0")
        .tool(Tool::new("book").with_description("Books a hotel").with_annotations(annotations), book)
}

fn main() -> Result<(), ServerError> {
    Server::new(Router::new().any("/mcp", server().endpoint())).listen("127.0.0.1:8080")?.run()
}
