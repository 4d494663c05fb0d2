//! Lists of gateways.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{Implementation, Resource, Tool};
use thruway_mcp_sdk::{
    EraChoice, McpClient, McpClientError, McpGatewayOptions, McpServer, McpServerOptions, Member, MemberState,
};
use tokio::time::{Instant, sleep};

use super::sites::{ERAS, gateway, in_memory, of_era, over_http, wait_for, with_options};
use crate::client::sites;
use crate::http::{Message, Site};

fn greeter() -> McpServer {
    McpServer::new("greeter", "1.0").tool(Tool::new("greet"), || "Hello!")
}

fn numbered(count: usize, page_entries: usize) -> McpServer {
    let options = McpServerOptions { page_entries, ..McpServerOptions::default() };
    let server = McpServer::with_options(Implementation::new("numbered", "1.0"), options);
    (0..count).fold(server, |server, n| server.tool(Tool::new(format!("tool-{n:04}")), move || n.to_string()))
}

#[tokio::test]
async fn member_with_3000_tools_in_pages_of_50_appears_completely() {
    let numbered = numbered(3000, 50);
    let site = sites::Site::new(&numbered);
    for era in ERAS {
        for member in [of_era("many", &numbered, era), over_http("many", &site.url)] {
            let gateway = gateway([in_memory("greeter", &greeter()), member]);
            for client_era in ERAS {
                let client = McpClient::builder().era(client_era).server(&gateway);
                let tools = client.list_tools().await.unwrap();
                assert_eq!(tools.len(), 3001, "{era:?}");
                assert_eq!((&*tools[0].name, &*tools[3000].name), ("greeter__greet", "many__tool-2999"));
            }
            gateway.close().await;
        }
    }
}

/// A member that never answers.
fn silent(name: &str) -> Member {
    Member::new(name, |builder| {
        let (near, far) = tokio::net::UnixStream::pair().unwrap();
        tokio::spawn(async move {
            let _open = far;
            std::future::pending::<()>().await;
        });
        Ok(builder.unix_stream(near))
    })
}

/// A member that cannot be started.
fn absent(name: &str) -> Member {
    Member::new(name, |_| Err(McpClientError::Start(std::io::ErrorKind::NotFound)))
}

async fn list(site: &Site) -> Value {
    site.send(&Message::modern("tools/list", json!({}))).await.message()
}

#[tokio::test(start_paused = true)]
async fn list_without_missing_members_comes_after_list_wait() {
    for (member, waits) in [(silent("missing"), true), (absent("missing"), false)] {
        let options = McpGatewayOptions { list_wait: Duration::from_secs(1), ..McpGatewayOptions::default() };
        let gateway = with_options(options, [in_memory("greeter", &greeter()), member]);
        wait_for(&gateway, "greeter", MemberState::Connected).await;
        let site = Site::new(&gateway);
        let began = Instant::now();
        let answer = list(&site).await;
        let elapsed = began.elapsed();
        let expected = if waits { Duration::from_secs(1) } else { Duration::ZERO };
        assert!(elapsed >= expected && elapsed <= expected + Duration::from_millis(100), "{elapsed:?}");
        let result = &answer["result"];
        assert_eq!(result["tools"].as_array().unwrap().len(), 1, "{answer}");
        assert_eq!(result["_meta"]["thruway/missing"], json!(["missing"]), "{answer}");
        assert!(result["ttlMs"].as_u64().unwrap() <= 5000, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn list_without_required_member_is_an_error() {
    let gateway = gateway([in_memory("greeter", &greeter()), absent("missing").required(true)]);
    let site = Site::new(&gateway);
    let answer = list(&site).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert_eq!(answer["error"]["data"]["server"], "missing", "{answer}");
    let called = site.send(&Message::modern("tools/call", json!({"name": "greeter__greet"}))).await;
    assert_eq!(called.message()["result"]["content"][0]["text"], "Hello!");
}

#[tokio::test(start_paused = true)]
async fn call_to_missing_member_is_unavailable() {
    let gateway = gateway([in_memory("greeter", &greeter()), absent("absent"), silent("silent")]);
    let site = Site::new(&gateway);
    wait_for(&gateway, "absent", MemberState::Failed).await;
    for member in ["absent", "silent"] {
        let began = Instant::now();
        let call = Message::modern("tools/call", json!({"name": format!("{member}__any")}));
        let response = site.send(&call).await;
        assert_eq!(response.status, 503, "{}", response.text());
        let error = &response.message()["error"];
        assert_eq!((&error["code"], &error["data"]["server"]), (&json!(-32603), &json!(member)), "{error}");
        let retry_after = error["data"]["retryAfterMs"].as_u64().unwrap();
        assert!(retry_after <= 2000, "{error}");
        let seconds = retry_after.div_ceil(1000).max(1).to_string();
        assert_eq!(response.field("retry-after"), Some(&*seconds), "{error}");
        assert!(began.elapsed() <= Duration::from_millis(2100), "{:?}", began.elapsed());
    }
    let legacy = McpClient::builder().era(EraChoice::Legacy).server(&gateway);
    let error = legacy.call_tool("absent__any", json!({})).await.unwrap_err();
    assert!(error.to_string().starts_with("MCP server `absent`: the server is unavailable: "), "{error}");
}

#[tokio::test]
async fn pages_have_stable_cursors_and_invalid_cursors_are_refused() {
    let options = McpGatewayOptions { page_items: 2, ..McpGatewayOptions::default() };
    let gateway = with_options(options, [in_memory("a", &numbered(3, 10)), in_memory("b", &numbered(2, 10))]);
    wait_for(&gateway, "a", MemberState::Connected).await;
    let site = Site::new(&gateway);
    let page = async |cursor: Option<&Value>| {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        site.send(&Message::modern("tools/list", params)).await.message()
    };
    let mut names = Vec::new();
    let mut next = None;
    loop {
        let answer = page(next.as_ref()).await;
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        assert!(tools.len() <= 2, "{answer}");
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match answer["result"].get("nextCursor") {
            Some(cursor) => next = Some(cursor.clone()),
            None => break,
        }
    }
    assert_eq!(names, ["a__tool-0000", "a__tool-0001", "a__tool-0002", "b__tool-0000", "b__tool-0001"]);
    let refused = page(Some(&json!("forged"))).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn resource_of_two_members_belongs_to_the_first() {
    let offering = |text: &'static str| {
        McpServer::new("text", "1.0").resource(Resource::new("test://text", "text"), move || text)
    };
    let gateway = gateway([in_memory("one", &offering("one")), in_memory("two", &offering("two"))]);
    for era in ERAS {
        let client = McpClient::builder().era(era).server(&gateway);
        assert_eq!(client.list_resources().await.unwrap().len(), 1);
        let read = client.read_resource("test://text").await.unwrap();
        assert_eq!(json!(read.contents)[0]["text"], "one");
    }
}

/// The gateway refreshes a list that has changed, and clients learn about the change.
#[tokio::test(start_paused = true)]
async fn list_contains_new_tools_of_a_member() {
    let server = greeter();
    let gateway = gateway([in_memory("greeter", &server)]);
    let client = McpClient::builder().server(&gateway);
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    server.add_tool(Tool::new("part"), || "Bye!").unwrap();
    while client.list_tools().await.unwrap().len() != 2 {
        sleep(Duration::from_millis(1)).await;
    }
}
