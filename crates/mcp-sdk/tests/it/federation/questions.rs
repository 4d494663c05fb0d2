//! Requests of members to clients: elicitation, sampling and roots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{CreateMessageRequestParams, InputRequest, InputResponse, Tool};
use thruway_mcp_sdk::{
    BridgeOptions, Context, EraChoice, HandlerError, McpClient, McpClientBuilder, McpGateway,
    McpGatewayOptions,
};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::sites::{ERAS, gateway, of_era, options, over_http, with_options};
use crate::bridge::sites::clients;
use crate::client::calls::text;
use crate::client::sites::{Site, answering};
use crate::fixtures::{Nothing, ask, capabilities, server, tool};
use crate::http::Message;

#[tokio::test]
async fn questions_reach_the_client_in_all_pairs_of_eras() {
    let (one, two) = (server(), server());
    let site = Site::new(&two);
    for (first, second) in ERAS.into_iter().flat_map(|first| ERAS.map(|second| (first, second))) {
        let remote = over_http("two", &site.url);
        let members = [of_era("one", &one, first), of_era("two", &two, second)];
        for gateway in [gateway(members), with_options(options(second), [of_era("one", &one, first), remote])]
        {
            let near = Site::new(&gateway);
            for (way, client) in clients(&gateway, &near, answering) {
                for member in ["one", "two"] {
                    ask_everything(&client, member, &format!("{way} to {member} of {first:?}, {second:?}"))
                        .await;
                }
                client.close().await;
            }
            gateway.close().await;
        }
    }
}

async fn ask_everything(client: &McpClient, member: &str, way: &str) {
    let call = async |tool: &str| match client
        .call_tool(&format!("{member}__{tool}"), json!({"message": "m"}))
        .await
    {
        Ok(result) => text(&result).to_owned(),
        Err(error) => panic!("{way}: {error}"),
    };
    assert_eq!(call("ask").await, "Ada", "{way}");
    assert_eq!(call("ask_twice").await, "Ada and Ada", "{way}");
    assert_eq!(call("ask_all").await, "Ada 42 file:///home", "{way}");
    let prompt = client.get_prompt(&format!("{member}__asks"), BTreeMap::new()).await;
    assert!(prompt.is_ok_and(|prompt| json!(prompt).to_string().contains("Ada")), "{way}");
    client.read_resource("test://asks").await.unwrap_or_else(|error| panic!("{way}: {error}"));
}

/// A client that answers all elicitation requests with `name`.
fn named(builder: McpClientBuilder, name: &str) -> McpClientBuilder {
    let name: Arc<str> = name.into();
    let capabilities = serde_json::from_value(capabilities()).unwrap();
    builder.answers(capabilities, move |question| {
        let name = name.clone();
        async move {
            assert!(matches!(question, InputRequest::Elicit(_)));
            let answer = json!({"action": "accept", "content": {"name": &*name}});
            Ok::<InputResponse, Error>(serde_json::from_value(answer).unwrap())
        }
    })
}

fn gateway_of_three(server: &thruway_mcp_sdk::McpServer) -> McpGateway {
    gateway([
        of_era("legacy", server, EraChoice::Legacy),
        of_era("modern", server, EraChoice::Modern),
        of_era("auto", server, EraChoice::Auto),
    ])
}

#[tokio::test]
async fn each_question_reaches_only_the_client_of_its_call() {
    let slow = server().tool(Tool::new("ask_slowly"), |_: Nothing, context: Context| async move {
        tokio::task::yield_now().await;
        ask(&context, "name").await
    });
    let gateway = gateway_of_three(&slow);
    let mut calls = JoinSet::new();
    for n in 0..30 {
        let name = format!("client {n}");
        let builder = named(McpClient::builder().era(ERAS[n % 2]), &name);
        let client = builder.server(&gateway);
        let tool = format!("{}__ask_slowly", ["legacy", "modern", "auto"][n % 3]);
        calls.spawn(async move {
            for _ in 0..3 {
                let answer = client.call_tool(&tool, json!({})).await;
                assert_eq!(text(&answer.unwrap_or_else(|error| panic!("{tool}: {error}"))), name, "{tool}");
            }
        });
    }
    calls.join_all().await;
    gateway.close().await;
}

/// A client that answers all elicitation and sampling requests with `name`. It answers when all clients have a
/// question.
fn named_twice(builder: McpClientBuilder, name: &str, all_asked: &Arc<Barrier>) -> McpClientBuilder {
    let (name, all_asked): (Arc<str>, _) = (name.into(), all_asked.clone());
    let capabilities = serde_json::from_value(capabilities()).unwrap();
    builder.answers(capabilities, move |question| {
        let (name, all_asked) = (name.clone(), all_asked.clone());
        async move {
            all_asked.wait().await;
            let answer = match question {
                InputRequest::Elicit(_) => json!({"action": "accept", "content": {"name": &*name}}),
                InputRequest::CreateMessage(_) => {
                    json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": &*name}})
                }
                InputRequest::ListRoots(_) => panic!("the tool does not request the roots"),
            };
            Ok::<InputResponse, Error>(serde_json::from_value(answer).unwrap())
        }
    })
}

#[tokio::test]
async fn questions_reach_only_their_own_clients_with_200_concurrent_callers() {
    let server = server().tool(Tool::new("ask_both"), |_: Nothing, context: Context| async move {
        let name = ask(&context, "name").await?;
        let sampled = context.sample("model", CreateMessageRequestParams::new("Who are you?", 10)).await?;
        Ok::<_, HandlerError>(format!("{name}, {}", sampled.text()))
    });
    let bridge = BridgeOptions { servers_max: 2000, questions_max: 2000, ..BridgeOptions::default() };
    let eras = [("legacy", EraChoice::Legacy), ("modern", EraChoice::Modern), ("auto", EraChoice::Auto)];
    let members = eras.map(|(name, era)| of_era(name, &server, era));
    let gateway = with_options(McpGatewayOptions { bridge, ..McpGatewayOptions::default() }, members);
    let all_asked = Arc::new(Barrier::new(CALLERS));
    let mut calls = JoinSet::new();
    for n in 0..CALLERS {
        let name = format!("client {n}");
        let client = named_twice(McpClient::builder().era(ERAS[n % 2]), &name, &all_asked);
        let (client, tool) = (client.server(&gateway), format!("{}__ask_both", eras[n % 3].0));
        calls.spawn(async move {
            let answer = client.call_tool(&tool, json!({})).await;
            let answer = answer.unwrap_or_else(|error| panic!("{name} {tool}: {error}"));
            assert_eq!(text(&answer), format!("{name}, {name}"), "{tool}");
        });
    }
    timeout(Duration::from_mins(2), calls.join_all()).await.expect("all questions wait at the same time");
    gateway.close().await;
}

/// A member could otherwise get the state of another member, because both may have a tool of the same name.
#[tokio::test]
async fn request_state_is_valid_only_for_its_member() {
    let modern = |name: &str| of_era(name, &server(), EraChoice::Modern);
    let gateway = gateway([modern("one"), modern("two")]);
    let near = crate::http::Site::new(&gateway);
    let call = async |params: Value| {
        near.send(&Message::modern_with("tools/call", params, &capabilities())).await.message()
    };
    let asked = call(tool("one__ask")).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let answered = |name: &str| {
        json!({"name": name, "arguments": {}, "requestState": asked["result"]["requestState"],
            "inputResponses": {"name": {"action": "accept", "content": {"name": "Ada"}}}})
    };
    let refused = call(answered("two__ask")).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let done = call(answered("one__ask")).await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada", "{done}");
}

/// Number of callers at the same time.
const CALLERS: usize = 200;
