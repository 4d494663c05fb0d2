//! Defines tools as functions with `#[tool]`. The doc comments become descriptions for models. Tests and
//! other functions can still call the functions.

use schemars::JsonSchema;
use serde::Serialize;
use thruway_mcp_sdk::{BoxError, Context, McpServer, Structured, tool};
use thruway_server::{Router, Server, ServerError};

#[derive(Serialize, JsonSchema)]
pub(crate) struct Count {
    pub(crate) words: usize,
}

/// Counts the words of a text.
///
/// Words are separated by white space.
#[tool(title = "Word count", read_only, idempotent)]
pub(crate) fn count_words(
    /// The text.
    text: &str,
    /// Words with fewer letters are not counted.
    #[serde(default)]
    letters_min: usize,
) -> Structured<Count> {
    let words = text.split_whitespace().filter(|word| word.chars().count() >= letters_min).count();
    Structured(Count { words })
}

/// Finds the longest word of several texts.
#[tool(read_only, idempotent)]
async fn longest_word(
    /// The texts.
    #[schemars(length(min = 1))]
    texts: &[String],
    context: Context,
) -> Result<String, BoxError> {
    let mut longest = "";
    for (number, text) in (1_u32..).zip(texts) {
        context.progress(f64::from(number), None, Some("reading")).await;
        for word in text.split_whitespace() {
            if word.chars().count() > longest.chars().count() {
                longest = word;
            }
        }
    }
    if longest.is_empty() {
        return Err("there is no word".into());
    }
    Ok(longest.to_owned())
}

pub(crate) fn server() -> McpServer {
    McpServer::new("words", "1.0.0").with(count_words {}).with(longest_word {})
}

fn main() -> Result<(), ServerError> {
    Server::new(Router::new().any("/mcp", server().endpoint())).listen("127.0.0.1:8080")?.run()
}
