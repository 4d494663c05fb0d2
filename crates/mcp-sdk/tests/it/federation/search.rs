//! Tool search of gateways.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{ClientCapabilities, Prompt, Tool};
use thruway_mcp_sdk::{
    AuditEvent, EraChoice, McpClient, McpGateway, McpGatewayBuilder, McpGatewayError, McpGatewayOptions,
    McpServer, Member, MemberState, NameStyle, Revision, TaskSupport, ToolOutcome, ToolSearch,
};

use super::callers::{TestCaller, guarded, rule};
use super::sites::{ERAS, in_memory, of_era, options, wait_for, with_options};
use crate::bridge::sites::clients;
use crate::client::calls::text;
use crate::client::sites::{Recorder, Site, answering};
use crate::fixtures::{Nothing, server};
use crate::http::Message;

fn tool(name: &str, description: &str) -> Tool {
    Tool { description: Some(description.to_owned()), ..Tool::new(name) }
}

fn issues() -> McpServer {
    McpServer::new("issues", "1.0")
        .tool(tool("create", "Creates an issue."), || "created")
        .tool(tool("close_issue", "Closes an issue that is done."), || "closed")
        .tool(tool("list", "Lists all issues of a project."), || "listed")
}

fn weather() -> McpServer {
    McpServer::new("weather", "1.0").tool(tool("forecast", "Returns the weather of tomorrow."), || "rain")
}

fn searched(pinned: &[&str]) -> McpGatewayOptions {
    let pinned = pinned.iter().map(|name| (*name).to_owned()).collect();
    let search = Some(ToolSearch { pinned, ..ToolSearch::default() });
    McpGatewayOptions { search, ..McpGatewayOptions::default() }
}

fn both(options: McpGatewayOptions) -> McpGateway {
    with_options(options, [in_memory("issues", &issues()), in_memory("weather", &weather())])
}

async fn names(client: &McpClient) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

/// Returns the names of the tools that `find_tool` returns.
async fn find(client: &McpClient, query: &str) -> Vec<String> {
    let result = client.call_tool("find_tool", json!({"query": query})).await.unwrap();
    let found: Value = serde_json::from_str(text(&result)).unwrap();
    let tools = found["tools"].as_array().unwrap_or_else(|| panic!("{found}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn call(name: &str) -> Value {
    json!({"name": "call_tool", "arguments": {"name": name, "arguments": {}}})
}

#[tokio::test]
async fn list_contains_only_the_search_tools_and_the_pinned_tools() {
    let gateway = both(searched(&["issues__list"]));
    let near = Site::new(&gateway);
    for (way, client) in clients(&gateway, &near, |builder| builder) {
        assert_eq!(names(&client).await, ["call_tool", "find_tool", "issues__list"], "{way}");
        assert_eq!(find(&client, "weather tomorrow").await, ["weather__forecast"], "{way}");
        assert_eq!(find(&client, "create issue").await[0], "issues__create", "{way}");
        for (tool, result) in [("weather__forecast", "rain"), ("issues__list", "listed")] {
            let arguments = json!({"name": tool, "arguments": {}});
            assert_eq!(text(&client.call_tool("call_tool", arguments).await.unwrap()), result, "{way}");
            // Clients can also call tools that the list lacks.
            assert_eq!(text(&client.call_tool(tool, json!({})).await.unwrap()), result, "{way}");
        }
        client.close().await;
    }
    let all: Vec<_> = gateway.tools().await.unwrap().into_iter().map(|(tool, _)| tool).collect();
    assert_eq!(all, ["issues__close_issue", "issues__create", "issues__list", "weather__forecast"]);
}

#[tokio::test]
async fn first_page_begins_with_the_search_tools() {
    let pinned = searched(&["issues__close_issue", "issues__create", "issues__list"]);
    let gateway = both(McpGatewayOptions { page_items: 2, ..pinned });
    let mut client = gateway.connect();
    let first = client.request("tools/list", json!({})).await.unwrap();
    assert_eq!(first["tools"].as_array().unwrap().len(), 4, "{first}");
    let second = client.request("tools/list", json!({"cursor": first["nextCursor"]})).await.unwrap();
    assert_eq!(second["tools"][0]["name"], "issues__list", "{second}");
    assert_eq!(second["tools"].as_array().unwrap().len(), 1, "{second}");
    let gateway = both(searched(&[]));
    let client = McpClient::builder().server(&gateway);
    assert_eq!(names(&client).await, ["call_tool", "find_tool"]);
}

#[tokio::test]
async fn found_tools_have_their_description_and_schema() {
    let gateway = both(searched(&[]));
    for (revision, has_structure) in
        [(Revision::LATEST, true), (Revision::R20251125, true), (Revision::R20250326, false)]
    {
        let client = McpClient::builder().era(EraChoice::Revision(revision)).server(&gateway);
        let arguments = json!({"query": "create issue", "limit": 1});
        let result = json!(client.call_tool("find_tool", arguments).await.unwrap());
        let found: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        let tools = found["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 1, "{found}");
        assert_eq!(tools[0]["name"], "issues__create", "{found}");
        assert_eq!(tools[0]["description"], "Creates an issue.", "{found}");
        assert_eq!(tools[0]["inputSchema"]["type"], "object", "{found}");
        let structure = if has_structure { found } else { Value::Null };
        assert_eq!(result["structuredContent"], structure, "{revision:?}");
        let listed = client.list_tools().await.unwrap();
        assert_eq!(listed[1].output_schema.is_some(), has_structure, "{revision:?}");
    }
}

#[tokio::test]
async fn invalid_arguments_give_a_result_that_the_model_can_read() {
    let gateway = both(searched(&[]));
    for era in ERAS {
        let client = McpClient::builder().era(era).server(&gateway);
        for (tool, arguments, part) in [
            ("find_tool", json!({}), "missing field `query`"),
            ("find_tool", json!({"query": 1}), "expected the text `query`"),
            ("find_tool", json!({"query": "a", "top": 1}), "unknown field `top`"),
            ("call_tool", json!({}), "missing field `name`"),
            ("call_tool", json!({"name": "issues__list", "args": {}}), "unknown field `args`"),
            ("call_tool", json!({"name": "find_tool"}), "missing field `query`"),
            ("call_tool", call("issues__list"), "call_tool cannot call itself"),
        ] {
            let result = client.call_tool(tool, arguments).await.unwrap();
            assert_eq!(result.is_error, Some(true), "{result:?}");
            assert!(text(&result).contains(part), "{result:?}");
        }
        for inner in ["list", "issues__unknown", ""] {
            let error = client.call_tool("call_tool", json!({"name": inner})).await.unwrap_err();
            assert_eq!(error.server_error().unwrap().code.0, -32602, "{inner}: {error}");
        }
    }
}

#[tokio::test]
async fn questions_and_progress_reach_the_caller_of_call_tool() {
    for far in ERAS {
        let options = McpGatewayOptions { bridge: options(far).bridge, ..searched(&[]) };
        let gateway = with_options(options, [of_era("far", &server(), far), in_memory("issues", &issues())]);
        let near = Site::new(&gateway);
        for (way, client) in clients(&gateway, &near, answering) {
            let way = format!("{way} to {far:?}");
            let asked = json!({"name": "far__ask_twice", "arguments": {"message": "m"}});
            let asked = client.call_tool("call_tool", asked).await;
            assert_eq!(text(&asked.unwrap_or_else(|error| panic!("{way}: {error}"))), "Ada and Ada", "{way}");
            let recorder = Recorder::new();
            let record = recorder.callback();
            let reporting = client.clone().with_progress(move |progress| record(progress.progress));
            let done = reporting.call_tool("call_tool", json!({"name": "far__progress"})).await.unwrap();
            assert_eq!(text(&done), "done", "{way}");
            let steps = recorder.take();
            assert!(steps.starts_with(&[1.0, 2.0]) && steps.ends_with(&[3.0]), "{way}: {steps:?}");
            client.close().await;
        }
        gateway.close().await;
    }
}

#[tokio::test]
async fn request_state_is_valid_for_both_forms_of_a_call() {
    let gateway = with_options(searched(&[]), [of_era("far", &server(), EraChoice::Modern)]);
    let near = crate::http::Site::new(&gateway);
    let capabilities = crate::fixtures::capabilities();
    let send = async |params: Value| {
        near.send(&Message::modern_with("tools/call", params, &capabilities)).await.message()
    };
    let asked = send(call("far__ask")).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let answers = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    for mut params in [call("far__ask"), json!({"name": "far__ask", "arguments": {}})] {
        params["requestState"] = asked["result"]["requestState"].clone();
        params["inputResponses"] = answers.clone();
        let done = send(params).await;
        assert_eq!(done["result"]["content"][0]["text"], "Ada", "{done}");
    }
    let mut other = call("far__ask_twice");
    other["requestState"] = asked["result"]["requestState"].clone();
    assert_eq!(send(other).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn call_tool_can_begin_a_task() {
    let work = |_: Nothing, _: thruway_mcp_sdk::Context| async move {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        "worked"
    };
    let far = McpServer::new("far", "1.0").task_tool(Tool::new("work"), TaskSupport::REQUIRED, work);
    let gateway = with_options(searched(&[]), [in_memory("far", &far)]);
    let client = McpClient::builder()
        .era(EraChoice::Modern)
        .answers(ClientCapabilities::default().with_tasks(), |_| async {
            Err::<_, thruway_mcp_sdk::json_rpc::Error>(thruway_mcp_sdk::json_rpc::Error::internal("no user"))
        })
        .server(&gateway);
    let begun = client.begin_tool("call_tool", json!({"name": "far__work"})).await.unwrap();
    let ToolOutcome::Task(task) = begun else { panic!("it should become a task: {begun:?}") };
    assert!(task.state.task_id.starts_with("far."), "{task:?}");
    assert_eq!(text(&client.wait_for_task(&task.state.task_id).await.unwrap()), "worked");
}

#[tokio::test(start_paused = true)]
async fn hidden_tools_are_neither_found_nor_callable() {
    let rules = vec![rule(&[], &["weather__*"]), rule(&["eng"], &["issues__list", "issues__create"])];
    let builder =
        McpGateway::builder("gateway", "1.0").options(searched(&["issues__list", "issues__close_issue"]));
    let members = [in_memory("issues", &issues()), in_memory("weather", &weather())];
    let gateway = members.into_iter().fold(builder, McpGatewayBuilder::member).rules(rules).build().unwrap();
    let site = guarded(&gateway);
    let own = ["call_tool", "find_tool"];
    for (token, found, listed) in [
        ("bob:sales", &[][..], &own[..]),
        ("ada:eng", &["issues__create", "issues__list"], &["call_tool", "find_tool", "issues__list"]),
    ] {
        for caller in TestCaller::in_both_eras(&site, Some(token)).await {
            assert_eq!(caller.list("tools/list", "tools", "name").await, listed, "{token}");
            let query = json!({"name": "find_tool", "arguments": {"query": "issue"}});
            let answer = caller.request("tools/call", query).await;
            let tools = answer["result"]["structuredContent"]["tools"].as_array().unwrap().clone();
            let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
            assert_eq!(names, found, "{token}");
            for tool in ["issues__create", "issues__close_issue", "issues__unknown"] {
                let answer = caller.request("tools/call", call(tool)).await;
                let direct = caller.request("tools/call", json!({"name": tool, "arguments": {}})).await;
                assert_eq!(answer, direct, "{token}");
                let is_callable = answer["error"].is_null();
                assert_eq!(is_callable, found.contains(&tool), "{token} {tool}: {answer}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn both_forms_of_a_call_have_the_same_audit_event() {
    let events = Arc::<Mutex<Vec<_>>>::default();
    let recorded = events.clone();
    let sink = Sink(Box::new(move |event| {
        let outcome = (event.member.map(str::to_owned), event.name.map(str::to_owned), event.outcome);
        recorded.lock().unwrap().push(outcome);
    }));
    let builder = McpGateway::builder("gateway", "1.0").options(searched(&[])).audit(sink);
    let gateway = builder.member(in_memory("issues", &issues())).build().unwrap();
    let site = guarded(&gateway);
    for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
        caller.request("tools/call", call("issues__list")).await;
        caller.request("tools/call", json!({"name": "issues__list", "arguments": {}})).await;
        let mut events = std::mem::take(&mut *events.lock().unwrap());
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(events[0], events[1]);
        assert_eq!((events[0].0.as_deref(), events[0].1.as_deref()), (Some("issues"), Some("issues__list")));
        events.clear();
    }
}

/// Calls a function for each audit event.
struct Sink(Box<dyn Fn(&AuditEvent<'_>) + Send + Sync>);

impl thruway_mcp_sdk::AuditSink for Sink {
    fn record(&self, event: &AuditEvent<'_>) {
        (self.0)(event);
    }
}

#[tokio::test]
async fn plain_tool_with_the_name_of_a_search_tool_is_withheld() {
    let far = McpServer::new("far", "1.0")
        .tool(Tool::new("find_tool"), || "far")
        .tool(Tool::new("other"), || "other")
        .prompt(Prompt::new("find_tool"), || "far");
    for (names, member) in [(NameStyle::Plain, "find_tool"), (NameStyle::Prefixed, "far__find_tool")] {
        let is_plain = names == NameStyle::Plain;
        let gateway = with_options(McpGatewayOptions { names, ..searched(&[]) }, [in_memory("far", &far)]);
        wait_for(&gateway, "far", MemberState::Connected).await;
        let client = McpClient::builder().server(&gateway);
        assert_eq!(find(&client, "find other").await.len(), 2 - usize::from(is_plain), "{names:?}");
        let withheld = gateway.members().remove(0).withheld;
        assert_eq!(withheld.len(), usize::from(is_plain), "{withheld:?}");
        for item in withheld {
            assert_eq!(item.reason, "the tool search of the endpoint uses this name");
            assert!(!item.is_intended);
        }
        let called = client.call_tool("call_tool", json!({"name": member})).await.unwrap();
        assert_eq!(text(&called) == "far", !is_plain, "{called:?}");
        assert_eq!(client.list_prompts().await.unwrap()[0].name, member);
    }
}

#[tokio::test]
async fn search_follows_changes_of_the_catalog() {
    let (issues, far) = (issues(), weather());
    let members = [in_memory("issues", &issues), in_memory("weather", &far)];
    let gateway = with_options(searched(&["issues__list"]), members);
    let client = McpClient::builder().server(&gateway);
    assert_eq!(find(&client, "translate text").await, [""; 0]);
    far.add_tool(tool("translate", "Translates a text."), || "text").unwrap();
    let found = async {
        while find(&client, "translate text").await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), found).await.unwrap();
    assert_eq!(find(&client, "translate text").await, ["weather__translate"]);
}

#[tokio::test]
async fn search_names_missing_servers() {
    let down = Member::new("down", |_| Err(thruway_mcp_sdk::McpClientError::Closed));
    let options = McpGatewayOptions { list_wait: std::time::Duration::from_millis(50), ..searched(&[]) };
    let gateway = with_options(options, [in_memory("issues", &issues()), down]);
    let client = McpClient::builder().server(&gateway);
    let result = client.call_tool("find_tool", json!({"query": "create"})).await.unwrap();
    let found: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(found["missingServers"], json!(["down"]), "{found}");
    assert_eq!(found["tools"][0]["name"], "issues__create", "{found}");
}

#[tokio::test]
async fn pinned_name_that_no_member_can_have_is_an_error() {
    for name in ["list", "other__list", "find_tool", ""] {
        let builder = McpGateway::builder("gateway", "1.0").options(searched(&["issues__list", name]));
        let error = builder.member(in_memory("issues", &issues())).build().err();
        assert_eq!(error, Some(McpGatewayError::UnknownPinned(name.to_owned())));
    }
}
