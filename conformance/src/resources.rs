//! Resources and resource templates.

use thruway_mcp_sdk::schema::{Resource, ResourceTemplate};
use thruway_mcp_sdk::{McpServer, UriParameters};

use crate::samples::PNG;

/// Adds all resources to `server`.
pub(crate) fn register(server: McpServer) -> McpServer {
    server
        .resource(
            Resource::new("test://static-text", "static-text")
                .with_description("Text that never changes")
                .with_mime_type("text/plain"),
            || "This is the content of the static text resource.",
        )
        .resource(
            Resource::new("test://static-binary", "static-binary")
                .with_description("A picture that never changes")
                .with_mime_type("image/png"),
            || PNG.to_vec(),
        )
        .resource(
            Resource::new("test://watched-resource", "watched-resource")
                .with_description("Something to subscribe to")
                .with_mime_type("text/plain"),
            || "This is the content of the watched resource.",
        )
        .resource_template(
            ResourceTemplate::new("test://template/{id}/data", "template")
                .with_description("Data for any id")
                .with_mime_type("application/json"),
            |uri: UriParameters| data_of(uri.parameter("id")),
        )
}

fn data_of(id: &str) -> String {
    serde_json::json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string()
}
