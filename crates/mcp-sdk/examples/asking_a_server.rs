//! A client that lists the tools of a server, calls one of them, and answers the elicitation requests of the
//! server.

use std::error::Error;

use serde_json::json;
use thruway_mcp_sdk::schema::{
    ClientCapabilities, ContentBlock, ElicitAction, ElicitResult, InputRequest, InputResponse, JsonObject,
};
use thruway_mcp_sdk::{McpClient, McpClientBuilder, json_rpc};

/// Fills in every form: the field `name` gets the value "Ada". A real client would show the form to its
/// user.
async fn answer(question: InputRequest) -> Result<InputResponse, json_rpc::Error> {
    match question {
        InputRequest::Elicit(_) => {
            let mut content = JsonObject::new();
            content.insert("name".into(), "Ada".into());
            let action = ElicitAction::Accept;
            Ok(InputResponse::Elicit(ElicitResult { action, content: Some(content), meta: None }))
        }
        _ => Err(json_rpc::Error::internal("this client answers only forms")),
    }
}

pub(crate) fn client() -> McpClientBuilder {
    McpClient::builder().answers(ClientCapabilities::default().with_elicitation(), answer)
}

/// Returns the names of the tools, and the answer of the tool `ask`.
pub(crate) async fn talk(client: &McpClient) -> Result<(Vec<String>, String), Box<dyn Error>> {
    let tools = client.list_tools().await?;
    let reporting = client.clone().with_progress(|progress| println!("{} is done", progress.progress));
    let result = reporting.call_tool("ask", json!({})).await?;
    let text = result.content.iter().find_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.clone()),
        _ => None,
    });
    Ok((tools.into_iter().map(|tool| tool.name).collect(), text.unwrap_or_default()))
}

/// Run `thruway mcp serve` before this example.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = client().http("http://127.0.0.1:8080/mcp");
    let (tools, answer) = talk(&client).await?;
    println!("{} speaks {}\n{answer}", tools.join(", "), client.revision().await?);
    client.close().await;
    Ok(())
}
