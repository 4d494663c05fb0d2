//! Messages and questions for one client do not reach other clients.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ClientCapabilities, LoggingLevel, Resource, SubscriptionFilter, Tool};
use thruway_mcp_sdk::{
    Bridge, BridgeOptions, Context, EraChoice, HandlerError, McpClient, McpServer, ServerNotification,
};

use super::sites::{in_memory, options};
use crate::client::calls::text;
use crate::client::sites::{Recorder, Site, answering};
use crate::fixtures::{Echo, ask, server};
use crate::http::{self, Message};

/// A server with the tool `whoami`. It reports its argument as progress, asks for a name, and returns both.
fn asking() -> McpServer {
    McpServer::new("asking", "1").tool(Tool::new("whoami"), |echo: Echo, context: Context| async move {
        tokio::task::yield_now().await;
        context.progress(1.0, None, Some(&echo.message)).await;
        let name = ask(&context, "name").await?;
        Ok::<_, HandlerError>(format!("{} {name}", echo.message))
    })
}

/// Returns a client that answers with `name`.
fn named(era: EraChoice, url: &str, name: String) -> McpClient {
    let capabilities = ClientCapabilities::default().with_elicitation();
    let builder = McpClient::builder().era(era).answers(capabilities, move |_| {
        let answer = json!({"action": "accept", "content": {"name": name}});
        async move { Ok::<_, Error>(serde_json::from_value(answer).unwrap()) }
    });
    builder.http(url)
}

#[tokio::test]
async fn elicitations_and_progress_reach_only_the_calling_client() {
    let server = asking();
    for (near, far) in [
        (EraChoice::Modern, EraChoice::Legacy),
        (EraChoice::Legacy, EraChoice::Legacy),
        (EraChoice::Legacy, EraChoice::Modern),
        (EraChoice::Modern, EraChoice::Modern),
    ] {
        let bridge = in_memory(&server, options(far)).await;
        let site = Site::new(&bridge);
        let calls: Vec<_> = (0..12)
            .map(|n| {
                let client = named(near, &site.url, format!("name{n}"));
                tokio::spawn(async move {
                    let recorder = Recorder::new();
                    let record = recorder.callback();
                    let client = client.with_progress(move |progress| record(progress.message));
                    let message = format!("message{n}");
                    for _ in 0..3 {
                        let result = client.call_tool("whoami", json!({"message": message})).await.unwrap();
                        assert_eq!(text(&result), format!("{message} name{n}"));
                    }
                    let messages = recorder.take();
                    assert!(messages.iter().all(|one| one.as_deref() == Some(&*message)), "{messages:?}");
                    assert!(!messages.is_empty());
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap_or_else(|error| panic!("{near:?} before {far:?}: {error}"));
        }
    }
}

/// A modern request of a client that supports forms. All requests have the same id.
fn modern(method: &str, params: Value) -> Message {
    Message::modern_with(method, params, &json!({"elicitation": {}}))
}

#[tokio::test]
async fn several_clients_can_use_the_same_request_id() {
    let bridge = in_memory(&server(), options(EraChoice::Legacy)).await;
    let site = http::Site::new(&bridge);
    let call = |n: u32| {
        let arguments = json!({"name": "echo", "arguments": {"message": format!("m{n}")}});
        site.open(&modern("tools/call", arguments))
    };
    let open: Vec<_> = (0..8).map(call).collect();
    for (n, exchange) in open.into_iter().enumerate() {
        let answer = exchange.response().await.message();
        assert_eq!(answer["id"], 1);
        assert!(answer["result"].to_string().contains(&format!("m{n}")), "{answer}");
        assert_eq!(answer["result"]["resultType"], "complete");
    }
}

#[tokio::test]
async fn request_state_continues_only_the_same_request_and_only_once() {
    let bridge = in_memory(&asking(), options(EraChoice::Legacy)).await;
    let site = http::Site::new(&bridge);
    let params = |message: &str| json!({"name": "whoami", "arguments": {"message": message}});
    let input_required = site.send(&modern("tools/call", params("a"))).await.message();
    let result = &input_required["result"];
    assert_eq!(result["resultType"], "input_required", "{input_required}");
    let (key, question) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let again = |mut params: Value, responses: Value| {
        params["requestState"] = result["requestState"].clone();
        params["inputResponses"] = responses;
        site.open(&modern("tools/call", params)).response()
    };
    let answer = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    // Another request with the same state.
    let other = again(params("b"), answer.clone()).await.message();
    assert_eq!(other["error"]["code"], -32602, "{other}");
    // Without the answer, the server asks again with a new state.
    let unanswered = again(params("a"), json!({})).await.message();
    assert_eq!(unanswered["result"]["resultType"], "input_required", "{unanswered}");
    let spent = again(params("a"), answer.clone()).await.message();
    assert_eq!(spent["error"]["code"], -32602, "{spent}");
    let mut params = params("a");
    params["requestState"] = unanswered["result"]["requestState"].clone();
    params["inputResponses"] = answer;
    let answered = site.send(&modern("tools/call", params)).await.message();
    assert_eq!(answered["result"]["content"][0]["text"], "a Ada", "{answered}");
}

#[tokio::test(start_paused = true)]
async fn answer_after_question_wait_is_rejected() {
    let options = BridgeOptions { question_wait: Duration::from_mins(1), ..options(EraChoice::Legacy) };
    let bridge = in_memory(&asking(), options).await;
    let site = http::Site::new(&bridge);
    let mut params = json!({"name": "whoami", "arguments": {"message": "a"}});
    let input_required = site.send(&modern("tools/call", params.clone())).await.message();
    tokio::time::sleep(Duration::from_secs(61)).await;
    params["requestState"] = input_required["result"]["requestState"].clone();
    params["inputResponses"] = json!({"question-1": {"action": "decline"}});
    let late = site.send(&modern("tools/call", params)).await.message();
    assert_eq!(late["error"]["code"], -32602, "{late}");
}

/// Returns the log messages of the tool `log` that this client receives.
async fn logged(client: &McpClient, recorder: &Recorder<ServerNotification>) -> Vec<LoggingLevel> {
    client.call_tool("log", json!({})).await.unwrap();
    let levels = recorder.take().into_iter().filter_map(|notification| match notification {
        ServerNotification::Message(message) => Some(message.level),
        _ => None,
    });
    levels.collect()
}

/// Regression test: all sessions received the log level of one. A session that wanted only errors removed all
/// other messages for the others.
#[tokio::test]
async fn each_client_gets_log_messages_of_its_own_level() {
    let bridge = in_memory(&server(), options(EraChoice::Legacy)).await;
    let client = |era: EraChoice| {
        let recorder = Recorder::new();
        (McpClient::builder().era(era).on_notification(recorder.callback()).server(&bridge), recorder)
    };
    let (everything, everything_recorder) = client(EraChoice::Legacy);
    let (errors, errors_recorder) = client(EraChoice::Legacy);
    let (silent, silent_recorder) = client(EraChoice::Legacy);
    let (modern, modern_recorder) = client(EraChoice::Modern);
    silent.ping().await.unwrap();
    errors.set_logging_level(LoggingLevel::Error).await.unwrap();
    let usual = logged(&silent, &silent_recorder).await;
    assert_eq!(usual, LoggingLevel::ALL[1..], "a client without a level gets the usual one");
    modern.set_logging_level(LoggingLevel::Debug).await.unwrap();
    assert_eq!(logged(&modern, &modern_recorder).await, LoggingLevel::ALL);
    everything.set_logging_level(LoggingLevel::Debug).await.unwrap();
    errors.set_logging_level(LoggingLevel::Alert).await.unwrap();
    assert_eq!(logged(&everything, &everything_recorder).await, LoggingLevel::ALL);
    assert_eq!(logged(&errors, &errors_recorder).await, LoggingLevel::ALL[6..]);
    assert_eq!(logged(&silent, &silent_recorder).await, LoggingLevel::ALL[1..]);
}

/// Regression test: the subscription of a client that can answer questions used the shared server. It missed
/// the changes of the client's own calls.
#[tokio::test]
async fn client_with_elicitation_gets_changes_made_by_its_own_calls() {
    let connect = |builder: thruway_mcp_sdk::McpClientBuilder| {
        // Each connection has its own state, like a process.
        let server = McpServer::new("counting", "1").resource(Resource::new("test://n", "n"), || "n");
        let own = server.clone();
        let server = server.tool(Tool::new("count"), move || {
            own.resource_updated("test://n");
            "counted"
        });
        Ok(builder.server(&server))
    };
    let bridge = Bridge::connect(options(EraChoice::Legacy), connect).await.unwrap();
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let client = answering(McpClient::builder().era(era)).server(&bridge);
        let resource_subscriptions = vec!["test://n".to_owned()];
        let filter = SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() };
        let mut subscription = client.listen(filter).await.unwrap();
        client.call_tool("count", json!({})).await.unwrap();
        let notification = tokio::time::timeout(Duration::from_mins(1), subscription.next()).await;
        assert!(
            matches!(notification, Ok(Some(ServerNotification::ResourceUpdated(_)))),
            "{era:?}: {notification:?}"
        );
    }
}

#[tokio::test]
async fn dedicated_servers_are_limited_by_servers_max() {
    let options = BridgeOptions { servers_max: 2, ..options(EraChoice::Legacy) };
    let bridge = in_memory(&asking(), options).await;
    let site = Site::new(&bridge);
    let sessions: Vec<_> = (0..3).map(|n| named(EraChoice::Legacy, &site.url, format!("name{n}"))).collect();
    let mut outcomes = Vec::new();
    for session in &sessions {
        outcomes.push(session.call_tool("whoami", json!({"message": "m"})).await);
    }
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    let refused = outcomes[2].as_ref().unwrap_err().server_error().unwrap();
    assert!(refused.message.contains("servers behind this bridge"), "{refused}");
    // The end of a session frees its server.
    let mut sessions = sessions.into_iter();
    sessions.next().unwrap().close().await;
    let result = sessions.last().unwrap().call_tool("whoami", json!({"message": "m"})).await.unwrap();
    assert_eq!(text(&result), "m name2");
}
