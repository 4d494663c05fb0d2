//! A notebook in which each note is a resource. The server notifies clients with a subscription when a
//! note is added or changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::schema::{Implementation, Resource, Tool};
use thruway_mcp_sdk::{McpServer, McpServerOptions};
use thruway_server::{Router, Server, ServerError};

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// Unique name of the note: letters and digits
    #[schemars(regex(pattern = r"^[a-z0-9]{1,32}$"))]
    name: String,
    text: String,
}

pub(crate) fn server() -> McpServer {
    let notes: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let options = McpServerOptions { may_add_resources: true, ..McpServerOptions::default() };
    let server = McpServer::with_options(Implementation::new("notes", "1.0.0"), options);
    let notebook = server.clone();
    server.tool(Tool::new("write").with_description("Writes a note"), move |Note { name, text }: Note| {
        let uri = format!("note://{name}");
        let is_new =
            notes.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), text).is_none();
        if is_new {
            let (notes, wanted) = (notes.clone(), name.clone());
            notebook.add_resource(Resource::new(&uri, name).with_mime_type("text/plain"), move || {
                let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                notes.get(&wanted).cloned().unwrap_or_default()
            });
        } else {
            notebook.resource_updated(&uri);
        }
        format!("written to {uri}")
    })
}

fn main() -> Result<(), ServerError> {
    Server::new(Router::new().any("/mcp", server().endpoint())).listen("127.0.0.1:8080")?.run()
}
