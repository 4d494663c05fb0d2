//! Names of tools and prompts at a gateway, and the selection of tools.

use std::collections::BTreeMap;

use serde_json::json;
use thruway_mcp_sdk::schema::{Prompt, Tool};
use thruway_mcp_sdk::{
    McpClient, McpGateway, McpGatewayBuilder, McpGatewayError, McpGatewayOptions, McpServer, Member,
    MemberState, NameStyle, ToolFilter,
};

use super::sites::{ERAS, gateway, in_memory, wait_for, with_options};
use crate::client::calls::text;

/// A server whose tools return the name of the server.
fn server(name: &'static str, tools: &[&'static str]) -> McpServer {
    let server = McpServer::new(name, "1.0").prompt(Prompt::new("describe"), move || name);
    tools.iter().fold(server, |server, tool| server.tool(Tool::new(*tool), move || name))
}

fn files() -> McpServer {
    server("files", &["list", "read", "delete"])
}

fn issues() -> McpServer {
    server("issues", &["list", "close"])
}

fn plain() -> McpGatewayOptions {
    McpGatewayOptions { names: NameStyle::Plain, ..McpGatewayOptions::default() }
}

async fn tools(client: &McpClient) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

/// Returns the result of the tool, or the error.
async fn call(client: &McpClient, tool: &str) -> Result<String, String> {
    match client.call_tool(tool, json!({})).await {
        Ok(result) => Ok(text(&result).to_owned()),
        Err(error) => Err(error.server_error().unwrap().to_string()),
    }
}

fn unknown(tool: &str) -> Result<String, String> {
    Err(format!("Unknown tool: {tool} (-32602)"))
}

#[tokio::test]
async fn prefix_in_a_name_selects_the_member() {
    let gateway = gateway([in_memory("files", &files()), in_memory("issues", &issues())]);
    for era in ERAS {
        let client = McpClient::builder().era(era).server(&gateway);
        let names = ["files__delete", "files__list", "files__read", "issues__close", "issues__list"];
        assert_eq!(tools(&client).await, names);
        assert_eq!(call(&client, "files__list").await.unwrap(), "files");
        assert_eq!(call(&client, "issues__list").await.unwrap(), "issues");
        assert_eq!(call(&client, "list").await, unknown("list"));
        let prompts = client.list_prompts().await.unwrap();
        assert_eq!(prompts.len(), 2);
        let described = client.get_prompt("issues__describe", BTreeMap::new()).await.unwrap();
        assert!(serde_json::to_string(&described.messages).unwrap().contains("issues"));
        assert!(client.get_prompt("describe", BTreeMap::new()).await.is_err());
    }
    let owners = gateway.tools().await.unwrap();
    assert_eq!(owners[3], ("issues__close".to_owned(), "issues".to_owned()));
}

#[tokio::test]
async fn plain_name_of_several_members_is_withheld() {
    let gateway = with_options(plain(), [in_memory("files", &files()), in_memory("issues", &issues())]);
    for era in ERAS {
        let client = McpClient::builder().era(era).server(&gateway);
        assert_eq!(tools(&client).await, ["close", "delete", "read"]);
        assert_eq!(call(&client, "close").await.unwrap(), "issues");
        assert_eq!(call(&client, "list").await, unknown("list"));
        assert!(client.list_prompts().await.unwrap().is_empty());
        assert!(client.get_prompt("describe", BTreeMap::new()).await.is_err());
    }
    for status in gateway.members() {
        let withheld: Vec<_> = status.withheld.iter().map(|item| (&*item.name, &*item.reason)).collect();
        let reason = "several servers have this name: files, issues";
        assert_eq!(withheld, [("list", reason), ("describe", reason)], "{}", status.name);
    }
}

#[tokio::test]
async fn preferred_member_gets_the_plain_name() {
    let options = McpGatewayOptions { prefer: vec!["issues".to_owned()], ..plain() };
    let gateway = with_options(options, [in_memory("files", &files()), in_memory("issues", &issues())]);
    let client = McpClient::builder().server(&gateway);
    assert_eq!(tools(&client).await, ["close", "delete", "list", "read"]);
    assert_eq!(call(&client, "list").await.unwrap(), "issues");
}

#[tokio::test]
async fn hidden_tool_is_not_listed_and_not_callable() {
    let filter = ToolFilter { deny: vec!["del*".to_owned()], ..ToolFilter::default() };
    for (options, prefix) in [(McpGatewayOptions::default(), "files__"), (plain(), "")] {
        let gateway = with_options(options, [in_memory("files", &files()).tools(filter.clone())]);
        for era in ERAS {
            let client = McpClient::builder().era(era).server(&gateway);
            assert_eq!(tools(&client).await, [format!("{prefix}list"), format!("{prefix}read")]);
            // A client cannot distinguish a hidden tool from an unknown tool.
            for name in ["delete", "deleted", "unknown"] {
                let name = format!("{prefix}{name}");
                assert_eq!(call(&client, &name).await, unknown(&name));
            }
        }
    }
}

#[tokio::test]
async fn renamed_tool_has_only_its_new_name() {
    let rename = BTreeMap::from([("list".to_owned(), "list_files".to_owned())]);
    let filter = ToolFilter { allow: vec!["list".to_owned()], rename, ..ToolFilter::default() };
    let gateway = gateway([in_memory("files", &files()).tools(filter), in_memory("issues", &issues())]);
    let client = McpClient::builder().server(&gateway);
    assert_eq!(tools(&client).await, ["files__list_files", "issues__close", "issues__list"]);
    assert_eq!(call(&client, "files__list_files").await.unwrap(), "files");
    for hidden in ["files__list", "files__read"] {
        assert_eq!(call(&client, hidden).await, unknown(hidden));
    }
}

#[tokio::test]
async fn builder_rejects_invalid_configurations() {
    let member = |name: &str| in_memory(name, &files());
    let build = |options: McpGatewayOptions, members: Vec<Member>| {
        let builder = McpGateway::builder("gateway", "1.0").options(options);
        let builder = members.into_iter().fold(builder, McpGatewayBuilder::member);
        let error = builder.check().expect_err("the configuration should be invalid");
        assert_eq!(builder.build().map(drop).unwrap_err(), error);
        error
    };
    let options = McpGatewayOptions::default;
    assert_eq!(build(options(), Vec::new()), McpGatewayError::NoMembers);
    let duplicate = build(options(), vec![member("files"), member("files")]);
    assert_eq!(duplicate, McpGatewayError::DuplicateName("files".to_owned()));
    for name in ["", "Files", "my_files", "a-name-of-twenty-five-bytes"] {
        assert!(matches!(build(options(), vec![member(name)]), McpGatewayError::InvalidName(_)), "{name}");
    }
    let filter = ToolFilter { allow: vec![String::new()], ..ToolFilter::default() };
    let invalid = build(options(), vec![member("files").tools(filter)]);
    assert!(invalid.to_string().starts_with("invalid tools of the MCP server `files`: "), "{invalid}");
    let prefixed = McpGatewayOptions { prefer: vec!["files".to_owned()], ..options() };
    assert_eq!(build(prefixed, vec![member("files")]), McpGatewayError::PreferWithoutPlainNames);
    let unknown =
        build(McpGatewayOptions { prefer: vec!["file".to_owned()], ..plain() }, vec![member("files")]);
    assert_eq!(unknown, McpGatewayError::UnknownPreferred("file".to_owned()));
}

#[tokio::test]
async fn status_reports_connection_and_numbers_of_items() {
    let gateway = gateway([in_memory("files", &files())]);
    wait_for(&gateway, "files", MemberState::Connected).await;
    let client = McpClient::builder().server(&gateway);
    assert_eq!(tools(&client).await.len(), 3);
    let [status] = &gateway.members()[..] else { panic!("there should be one member") };
    assert_eq!((status.tools, status.prompts, &status.last_error), (Some(3), None, &None));
    assert_eq!(status.revision, Some(thruway_mcp_sdk::Revision::LATEST));
}
