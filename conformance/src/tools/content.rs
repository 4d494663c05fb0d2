//! Tools that return each kind of content.

use thruway_mcp_sdk::schema::{ContentBlock, ResourceContents};
use thruway_mcp_sdk::{HandlerError, McpServer};

use super::tool::tool;
use crate::samples::{PNG, WAV};

pub(super) fn register(server: McpServer) -> McpServer {
    server
        .tool(tool("test_simple_text", "Answers with text"), || "This is a simple text response for testing.")
        .tool(tool("test_image_content", "Answers with a picture"), || ContentBlock::image(PNG, "image/png"))
        .tool(tool("test_audio_content", "Answers with sound"), || ContentBlock::audio(WAV, "audio/wav"))
        .tool(tool("test_embedded_resource", "Answers with a resource"), || {
            ContentBlock::resource(ResourceContents::text(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            ))
        })
        .tool(tool("test_multiple_content_types", "Answers with several kinds of content"), mixed)
        .tool(tool("test_error_handling", "Fails"), fail)
}

fn mixed() -> Vec<ContentBlock> {
    vec![
        ContentBlock::text("Multiple content types test:"),
        ContentBlock::image(PNG, "image/png"),
        ContentBlock::resource(ResourceContents::text(
            "test://mixed-content-resource",
            "application/json",
            r#"{"test":"data","value":123}"#,
        )),
    ]
}

fn fail() -> Result<(), HandlerError> {
    Err("This tool intentionally returns an error for testing".into())
}
