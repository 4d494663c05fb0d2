//! The tools, prompts and resources of the server. A doc comment becomes the description that models read.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::{McpServer, offer, prompt, resource, tool};

/// Returns the server with all tools, prompts and resources.
pub(crate) fn server() -> McpServer {
    McpServer::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with(Notes::default())
}

/// Notes in memory. All clients share them.
#[derive(Default)]
struct Notes {
    notes: Mutex<Vec<Note>>,
}

/// A note.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Note {
    number: usize,
    text: String,
}

#[offer]
impl Notes {
    /// Stores a note, and returns its number.
    #[tool(destructive = false)]
    fn add_note(
        &self,
        /// The text of the note.
        text: String,
    ) -> Result<usize, String> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= NOTES_MAX {
            return Err(format!("the server already has {NOTES_MAX} notes"));
        }
        let number = notes.len() + 1;
        notes.push(Note { number, text });
        Ok(number)
    }

    /// Finds the notes that contain a text. Ignores the case of letters.
    #[tool(read_only)]
    fn find_notes(
        &self,
        /// The text to find.
        query: &str,
    ) -> Vec<Note> {
        let query = query.to_lowercase();
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.iter().filter(|note| note.text.to_lowercase().contains(&query)).cloned().collect()
    }

    /// Asks for a summary of all notes.
    #[prompt(title = "Summarize the notes")]
    fn summarize(
        &self,
        /// The maximum number of words. Default: 50
        words: Option<u32>,
    ) -> String {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let texts: Vec<_> = notes.iter().map(|note| format!("- {}", note.text)).collect();
        format!("Summarize these notes in at most {} words:\n\n{}", words.unwrap_or(50), texts.join("\n"))
    }

    /// All notes.
    #[resource("notes://all", title = "All notes", mime_type = "application/json")]
    fn all_notes(&self) -> Vec<Note> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Maximum number of notes. Without such a limit, a client could fill the memory.
const NOTES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use thruway_mcp_sdk::McpClient;

    use super::*;

    #[tokio::test]
    async fn added_notes_are_found() {
        let client = McpClient::builder().server(&server());
        for text in ["Buy milk", "Call Ada"] {
            let result = client.call_tool("add_note", json!({"text": text})).await.unwrap();
            assert_ne!(result.is_error, Some(true));
        }
        let found = client.call_tool("find_notes", json!({"query": "MILK"})).await.unwrap();
        let found: Value = serde_json::to_value(found.structured_content).unwrap();
        assert_eq!(found, json!({"result": [{"number": 1, "text": "Buy milk"}]}));
    }

    #[tokio::test]
    async fn prompt_and_resource_contain_the_notes() {
        let client = McpClient::builder().server(&server());
        client.call_tool("add_note", json!({"text": "Buy milk"})).await.unwrap();
        let prompt = client.get_prompt("summarize", BTreeMap::from([("words".into(), "9".into())])).await;
        let prompt = serde_json::to_string(&prompt.unwrap()).unwrap();
        assert!(prompt.contains("at most 9 words") && prompt.contains("Buy milk"), "{prompt}");
        let notes = serde_json::to_string(&client.read_resource("notes://all").await.unwrap()).unwrap();
        assert!(notes.contains("Buy milk"), "{notes}");
    }
}
