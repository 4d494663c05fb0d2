//! Server with the official Rust SDK. It serves stdio, or HTTP with `--listen ADDRESS`.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, InputRequest, InputRequests, InputRequiredResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(address) = std::env::args().skip_while(|argument| argument != "--listen").nth(1) else {
        Server.serve(stdio()).await?.waiting().await?;
        return Ok(());
    };
    let service: StreamableHttpService<Server, LocalSessionManager> =
        StreamableHttpService::new(|| Ok(Server), Arc::default(), Default::default());
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

struct Server;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let number = json!({"type": "number"});
        let add = json!({"type": "object", "properties": {"a": number, "b": number}});
        let tool = |name, description, schema: Value| {
            Tool::new(name, description, schema.as_object().cloned().unwrap_or_default())
        };
        let tools = vec![
            tool("add", "Adds two numbers", add),
            tool("ask", "Asks who you are", json!({"type": "object"})),
        ];
        Ok(ListToolsResult { tools, ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            "add" => add(&request),
            "ask" => ask(&request, context).await,
            _ => Err(ErrorData::invalid_params("unknown tool", None)),
        }
    }
}

fn add(request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let addend = |name| request.arguments.as_ref()?.get(name)?.as_f64();
    let sum = addend("a").zip(addend("b")).map(|(a, b)| a + b);
    sum.map(|sum| text(sum.to_string()))
        .ok_or_else(|| ErrorData::invalid_params("`a` and `b` must be numbers", None))
}

/// Sends an elicitation request in the form of the client's era. With this SDK, the server itself must
/// distinguish the eras.
async fn ask(
    request: &CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let question = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "What is your name?".to_owned(),
        requested_schema: serde_json::from_value(
            json!({"type": "object", "properties": {"name": {"type": "string"}}}),
        )
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
    };
    let is_modern =
        context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    let content = match &request.input_responses {
        Some(responses) => responses.get("name").map(|response| response["content"].clone()),
        None if is_modern => {
            let question = InputRequest::Elicitation(ElicitRequest::new(question));
            let questions = InputRequests::from([("name".to_owned(), question)]);
            return Ok(InputRequiredResult::from_input_requests(questions).into());
        }
        None => {
            let answer = context.peer.create_elicitation(question).await;
            answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?.content
        }
    };
    let name = content.as_ref().and_then(|content| content["name"].as_str());
    Ok(text(name.map_or_else(|| "Hello!".to_owned(), |name| format!("Hello, {name}!"))))
}

fn text(text: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}
