//! A library of three books, with prompts, resource templates, and completions of their arguments.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::schema::{ContentBlock, Prompt, PromptMessage, ResourceTemplate};
use thruway_mcp_sdk::{CompletionInput, HandlerError, McpServer, UriParameters};
use thruway_server::{Router, Server, ServerError};

const BOOKS: [(&str, &str); 3] = [
    ("dracula", "3 May. Bistritz. Left Munich at 8:35 P.M."),
    ("emma", "Emma Woodhouse, handsome, clever, and rich …"),
    ("moby-dick", "Call me Ishmael."),
];

const TEMPLATE: &str = "book://{title}";

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// Title of the book
    title: String,
    /// Name of the reader. Default: all readers
    reader: Option<String>,
}

fn first_sentence(title: &str) -> Result<&'static str, HandlerError> {
    let book = BOOKS.iter().find(|(name, _)| *name == title);
    book.map(|(_, text)| *text).ok_or_else(|| HandlerError::failed("there is no such book"))
}

fn review(Review { title, reader }: Review) -> Result<Vec<PromptMessage>, HandlerError> {
    let text = first_sentence(&title)?;
    let reader = reader.as_deref().unwrap_or("everybody");
    Ok(vec![
        PromptMessage::user(ContentBlock::text(format!("Review `{title}` for {reader}. It begins:"))),
        PromptMessage::user(ContentBlock::text(text)),
    ])
}

fn titles(CompletionInput { value, .. }: CompletionInput) -> Vec<String> {
    let fitting = BOOKS.iter().filter(|(title, _)| title.starts_with(&value));
    fitting.map(|(title, _)| (*title).to_owned()).collect()
}

pub(crate) fn server() -> McpServer {
    McpServer::new("library", "1.0.0")
        .resource_template(
            ResourceTemplate::new(TEMPLATE, "book").with_mime_type("text/plain"),
            |uri: UriParameters| first_sentence(uri.parameter("title")),
        )
        .prompt(Prompt::new("review").with_description("Reviews a book"), review)
        .completion(TEMPLATE, "title", titles)
        .completion("review", "title", titles)
}

fn main() -> Result<(), ServerError> {
    Server::new(Router::new().any("/mcp", server().endpoint())).listen("127.0.0.1:8080")?.run()
}
