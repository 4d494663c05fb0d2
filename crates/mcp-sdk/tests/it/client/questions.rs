//! Questions of the server, answered by one handler in both eras.

use std::collections::BTreeMap;

use serde_json::json;
use thruway_mcp_sdk::json_rpc::{Error, ErrorCode};
use thruway_mcp_sdk::schema::{ClientCapabilities, ContentBlock};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientError, Revision};

use super::calls::text;
use super::sites::{Site, answering, clients};
use crate::fixtures::server;

#[tokio::test]
async fn one_answer_handler_serves_both_eras() {
    let server = server();
    let site = Site::new(&server);
    for (way, client) in clients(&server, &site, answering) {
        if client.revision().await.unwrap() == Revision::R20241105 {
            // This revision has no elicitation.
            continue;
        }
        let call = async |tool: &str| client.call_tool(tool, json!({"message": "m"})).await.unwrap();
        assert_eq!(text(&call("ask").await), "Ada", "{way}");
        assert_eq!(text(&call("ask_twice").await), "Ada and Ada", "{way}");
        assert_eq!(text(&call("ask_all").await), "Ada 42 file:///home", "{way}");
        let prompt = client.get_prompt("asks", BTreeMap::new()).await.unwrap();
        assert!(matches!(&prompt.messages[0].content, ContentBlock::Text(text) if text.text == "Ada"));
        client.read_resource("test://asks").await.unwrap_or_else(|error| panic!("{way}: {error}"));
    }
}

#[tokio::test]
async fn failed_answer_ends_the_call() {
    let server = server();
    let site = Site::new(&server);
    let failing = |builder: thruway_mcp_sdk::McpClientBuilder| {
        builder.answers(ClientCapabilities::default().with_elicitation(), |_| async {
            Err(Error::new(ErrorCode(-1), "no user"))
        })
    };
    for (way, client) in clients(&server, &site, failing) {
        if client.revision().await.unwrap() == Revision::R20241105 {
            continue;
        }
        match client.call_tool("ask", json!({})).await {
            Err(McpClientError::InputRequestFailed(error)) => assert_eq!(error.code, ErrorCode(-1), "{way}"),
            Err(McpClientError::Server(_)) => {}
            Ok(result) => assert_eq!(result.is_error, Some(true), "{way}"),
            other => panic!("{way}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn tool_that_asks_fails_for_client_without_elicitation() {
    let server = server();
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let client = McpClient::builder().era(era).server(&server);
        let failed = match client.call_tool("ask", json!({})).await {
            Ok(result) => result.is_error == Some(true),
            Err(error) => error.server_error().is_some(),
        };
        assert!(failed, "{era:?}");
    }
}
