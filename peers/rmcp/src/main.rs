//! The official Rust SDK of MCP on axum or on pipes, configured for speed. It has one current-thread runtime,
//! no sessions, and JSON responses. A handwritten handler finds the tool without a router. With `--call`, the
//! client instead.

mod client;

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use calls::Load;
use mimalloc::MiMalloc;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio_pipes;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(load) = Load::from_arguments() {
        return client::run(&load);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let server = Server { tools: Arc::new(tools()) };
    if contract::has_flag("--stdio") {
        return runtime.block_on(serve_stdio(server));
    }
    Ok(runtime.block_on(serve_http(server))?)
}

/// Reads and writes the pipes through the reactor. `stdio()` would use a thread for each read and write.
async fn serve_stdio(server: Server) -> Result<(), Box<dyn Error>> {
    server.serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}

async fn serve_http(server: Server) -> std::io::Result<()> {
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = false;
    config.json_response = true;
    let service: StreamableHttpService<Server, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config);
    let listener = TcpListener::bind(contract::listen_address()).await?;
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).expect("setting TCP_NODELAY should succeed");
    });
    axum::serve(listener, Router::new().nest_service("/mcp", service)).await
}

#[derive(Clone)]
struct Server {
    tools: Arc<Vec<Tool>>,
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Serialize)]
struct Echoed {
    echo: String,
    length: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Serialize)]
struct Sum {
    sum: f64,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("bench", "1.0");
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: self.tools.to_vec(), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let invalid = |error: serde_json::Error| ErrorData::invalid_params(error.to_string(), None);
        let result = match &*request.name {
            "echo" => {
                let Echo { message } = serde_json::from_value(arguments).map_err(invalid)?;
                serde_json::to_value(Echoed { length: message.len(), echo: message })
            }
            "add" => {
                let Add { a, b } = serde_json::from_value(arguments).map_err(invalid)?;
                serde_json::to_value(Sum { sum: a + b })
            }
            _ => return Err(ErrorData::invalid_params("unknown tool", None)),
        };
        Ok(CallToolResult::structured(result.map_err(invalid)?).into())
    }
}

fn tools() -> Vec<Tool> {
    let mut tools = vec![
        Tool::new("echo", "Sends a message back", schema::<Echo>()),
        Tool::new("add", "Adds two numbers", schema::<Add>()),
    ];
    let more = (tools.len()..contract::tools())
        .map(|n| Tool::new(contract::tool_name(n), "Does nothing", schema::<Echo>()));
    tools.extend(more);
    tools
}

fn schema<T: JsonSchema>() -> JsonObject {
    match serde_json::Value::from(schemars::schema_for!(T)) {
        serde_json::Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
