//! Confirmation of calls of destructive tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{InputRequest, Tool, ToolAnnotations};
use thruway_mcp_sdk::{
    Context, EraChoice, McpClient, McpClientBuilder, McpGateway, McpGatewayOptions, McpServer,
};

use super::callers::{TestCaller, guarded};
use super::sites::{ERAS, of_era, with_options};
use crate::client::calls::text;
use crate::client::sites::response;
use crate::fixtures::ask;

/// A gateway whose member counts the calls of the destructive tool `delete`. `ask` is a destructive tool that asks
/// the client a question itself.
fn gateway(calls: &Arc<AtomicUsize>, era: EraChoice) -> McpGateway {
    let destructive = ToolAnnotations { destructive_hint: Some(true), ..ToolAnnotations::default() };
    let tool = |name: &str| Tool { annotations: Some(destructive.clone()), ..Tool::new(name) };
    let calls = calls.clone();
    let server = McpServer::new("files", "1.0")
        .tool(tool("delete"), move || {
            calls.fetch_add(1, Ordering::Relaxed);
            "deleted"
        })
        .tool(tool("ask"), |context: Context| async move { ask(&context, "name").await })
        .tool(Tool::new("read"), || "text");
    let options = McpGatewayOptions { confirm_destructive: true, ..McpGatewayOptions::default() };
    with_options(options, [of_era("files", &server, era)])
}

fn delete(path: &str) -> Value {
    json!({"name": "files__delete", "arguments": {"path": path}})
}

/// Returns the parameters of a repeated call with the user's answer.
fn answered(mut params: Value, state: &Value, answer: &Value) -> Value {
    params["requestState"] = state.clone();
    params["inputResponses"] = json!({"thruway/confirm": answer});
    params
}

fn allow() -> Value {
    json!({"action": "accept", "content": {"allow": true}})
}

#[tokio::test(start_paused = true)]
async fn modern_call_of_a_destructive_tool_needs_an_answer_of_the_user() {
    for era in ERAS {
        let calls = Arc::<AtomicUsize>::default();
        let gateway = gateway(&calls, era);
        let site = guarded(&gateway);
        let [_, ada] = TestCaller::in_both_eras(&site, Some("ada:eng")).await;
        let [_, bob] = TestCaller::in_both_eras(&site, Some("bob:eng")).await;
        let read = ada.request("tools/call", json!({"name": "files__read", "arguments": {}})).await;
        assert_eq!(read["result"]["content"][0]["text"], "text", "{read}");

        let asked = ada.call_with_forms(delete("/a")).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let question = &asked["result"]["inputRequests"]["thruway/confirm"];
        assert_eq!(question["method"], "elicitation/create", "{asked}");
        assert_eq!(question["params"]["requestedSchema"]["required"], json!(["allow"]), "{asked}");
        let message = question["params"]["message"].as_str().unwrap();
        assert!(message.contains("files__delete") && message.contains(r#"{"path":"/a"}"#), "{message}");
        let state = &asked["result"]["requestState"];

        // Another caller, other arguments, another tool, and a forged state.
        let forged = json!(format!("{}x", state.as_str().unwrap()));
        let other_tool = json!({"name": "files__ask", "arguments": {"path": "/a"}});
        for (caller, params, state) in [
            (&bob, delete("/a"), state),
            (&ada, delete("/b"), state),
            (&ada, other_tool, state),
            (&ada, delete("/a"), &forged),
        ] {
            let answer = caller.call_with_forms(answered(params, state, &allow())).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        assert_eq!(calls.load(Ordering::Relaxed), 0);

        let call = answered(delete("/a"), state, &allow());
        let answer = ada.call_with_forms(call.clone()).await;
        assert_eq!(answer["result"]["content"][0]["text"], "deleted", "{answer}");
        // The state permits one call only.
        assert_eq!(ada.call_with_forms(call).await["error"]["code"], -32602);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        gateway.close().await;
    }
}

/// Regression test: after one confirmation, a client could repeat the call with the `requestState` of the member.
#[tokio::test(start_paused = true)]
async fn request_state_of_the_member_permits_one_call_only() {
    for era in ERAS {
        let gateway = gateway(&Arc::default(), era);
        let site = guarded(&gateway);
        let [_, ada] = TestCaller::in_both_eras(&site, Some("ada:eng")).await;
        // Two calls at the same time get different states.
        let mut states = Vec::new();
        for _ in 0..2 {
            let call = json!({"name": "files__ask", "arguments": {}});
            let asked = ada.call_with_forms(call.clone()).await;
            let confirmed = answered(call.clone(), &asked["result"]["requestState"], &allow());
            let asked = ada.call_with_forms(confirmed).await;
            assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
            let name = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
            let mut call = call;
            call["requestState"] = asked["result"]["requestState"].clone();
            call["inputResponses"] = json!({name: {"action": "accept", "content": {"name": "Ada"}}});
            states.push(call);
        }
        for call in &states {
            let done = ada.call_with_forms(call.clone()).await;
            assert_eq!(done["result"]["content"][0]["text"], "Ada", "{era:?}: {done}");
        }
        for call in &states {
            let refused = ada.call_with_forms(call.clone()).await;
            assert_eq!(refused["error"]["code"], -32602, "{era:?}: {refused}");
        }
        gateway.close().await;
    }
}

/// Regression test: a member that ignores the case of names could use other arguments than the user confirmed.
#[tokio::test(start_paused = true)]
async fn second_member_for_the_arguments_is_refused() {
    let gateway = gateway(&Arc::default(), ERAS[1]);
    let site = guarded(&gateway);
    let [_, ada] = TestCaller::in_both_eras(&site, Some("ada:eng")).await;
    let mut params = delete("/a");
    params["Arguments"] = json!({"path": "/b"});
    let answer = ada.call_with_forms(params).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn declined_call_is_not_forwarded() {
    let calls = Arc::<AtomicUsize>::default();
    let gateway = gateway(&calls, ERAS[1]);
    let site = guarded(&gateway);
    let [_, ada] = TestCaller::in_both_eras(&site, Some("ada:eng")).await;
    for answer in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept", "content": {"allow": false}}),
    ] {
        let asked = ada.call_with_forms(delete("/a")).await;
        let state = &asked["result"]["requestState"];
        let result = ada.call_with_forms(answered(delete("/a"), state, &answer)).await;
        assert_eq!(result["result"]["isError"], true, "{result}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn client_without_elicitation_gets_an_error() {
    let calls = Arc::<AtomicUsize>::default();
    let gateway = gateway(&calls, ERAS[1]);
    let site = guarded(&gateway);
    for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
        for params in [delete("/a"), json!({"name": "files__unlisted", "arguments": {}})] {
            let error = caller.request("tools/call", params).await["error"].clone();
            if caller.is_legacy() {
                assert_eq!(error["code"], -32603, "{error}");
                assert!(
                    error["message"].as_str().unwrap().contains("does not support elicitation"),
                    "{error}"
                );
            } else {
                assert_eq!(error["code"], -32021, "{error}");
                assert_eq!(error["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
            }
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    gateway.close().await;
}

/// A client that allows all calls, and counts the questions.
fn confirming(era: EraChoice, asked: Arc<AtomicUsize>) -> McpClientBuilder {
    let capabilities = serde_json::from_value(json!({"elicitation": {"form": {}}})).unwrap();
    McpClient::builder().era(era).answers(capabilities, move |question| {
        asked.fetch_add(1, Ordering::Relaxed);
        let is_confirmation = matches!(&question, InputRequest::Elicit(form)
            if serde_json::to_string(form).unwrap().contains("Allow this call?"));
        let answer =
            if is_confirmation { serde_json::from_value(allow()).unwrap() } else { response(&question) };
        async move { Ok::<_, Error>(answer) }
    })
}

/// The tool asks a question too, so the call has several rounds.
#[tokio::test]
async fn clients_of_both_eras_confirm_calls_that_ask_further_questions() {
    for era in ERAS {
        for client_era in ERAS {
            let calls = Arc::<AtomicUsize>::default();
            let gateway = gateway(&calls, era);
            let asked = Arc::<AtomicUsize>::default();
            let client = confirming(client_era, asked.clone()).server(&gateway);
            let outcome = client.call_tool("files__ask", json!({})).await.unwrap();
            assert_eq!(text(&outcome), "Ada", "{era:?} {client_era:?}");
            assert_eq!(asked.load(Ordering::Relaxed), 2, "{era:?} {client_era:?}");
            let outcome = client.call_tool("files__delete", json!({"path": "/a"})).await.unwrap();
            assert_eq!(text(&outcome), "deleted", "{era:?} {client_era:?}");
            assert_eq!((asked.load(Ordering::Relaxed), calls.load(Ordering::Relaxed)), (3, 1));
            client.close().await;
            gateway.close().await;
        }
    }
}
