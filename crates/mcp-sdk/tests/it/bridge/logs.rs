//! Log messages that belong to no call.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::LoggingLevel;
use thruway_mcp_sdk::{Bridge, EraChoice, McpClient, McpClientBuilder, ServerNotification};

use super::sites::{clients, options, over_http};
use crate::client::misbehaving::{on_stream_with, response, scripted};
use crate::client::sites::{Recorder, Site, answering};
use crate::http::{self, Message};

/// A legacy server with the tool `log`, which logs once before its answer and three times after it. The tool
/// `hang` has no answer; at its second call, the server logs.
fn logging(builder: McpClientBuilder) -> McpClient {
    let hanging = Mutex::new(0);
    on_stream_with(builder, move |message| {
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-11-25",
                "capabilities": {"logging": {}, "tools": {}}, "serverInfo": {"name": "logging", "version": "1"}}),
            Some("tools/call") if message["params"]["name"] == "hang" => {
                let mut hanging = hanging.lock().unwrap();
                *hanging += 1;
                return if *hanging == 2 { log_message("info", "of a call") } else { Vec::new() };
            }
            Some("tools/call") => {
                let answer = line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}));
                let after = [
                    log_message("debug", "after"),
                    log_message("info", "after"),
                    log_message("error", "after"),
                ];
                return [log_message("info", "before"), answer, after.concat()].concat();
            }
            _ if message["id"].is_null() => return Vec::new(),
            _ => json!({}),
        };
        line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    })
}

fn log_message(level: &str, data: &str) -> Vec<u8> {
    line(
        &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": data}}),
    )
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

async fn bridge() -> Bridge {
    Bridge::connect(options(EraChoice::Legacy), |builder| Ok(logging(builder))).await.unwrap()
}

/// Waits for as many log messages as `expected` has.
async fn logged(recorder: &Recorder<ServerNotification>, expected: &[(LoggingLevel, &str)], way: &str) {
    let mut messages = Vec::new();
    let waiting = async {
        while messages.len() < expected.len() {
            messages.extend(recorder.take().into_iter().filter_map(|notification| match notification {
                ServerNotification::Message(message) => Some((message.level, message.data)),
                _ => None,
            }));
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    // Over HTTP, messages of a call and messages outside of calls use two streams, so their order may change.
    messages.sort_by_key(|(_, data)| data != "before");
    let expected: Vec<_> = expected.iter().map(|(level, data)| (*level, json!(data))).collect();
    assert!(waited.is_ok() && messages == expected, "{way}: {messages:?}");
}

/// Regression test: only log messages within calls crossed the bridge.
#[tokio::test]
async fn log_messages_outside_calls_reach_legacy_sessions() {
    use LoggingLevel::{Debug, Error, Info};
    for prepare in [|builder| builder, answering] {
        let bridge = bridge().await;
        let site = Site::new(&bridge);
        let recorder = Recorder::new();
        let clients =
            clients(&bridge, &site, |builder| prepare(builder).on_notification(recorder.callback()));
        for (way, client) in clients.into_iter().filter(|(way, _)| way.starts_with("Legacy")) {
            client.call_tool("log", json!({})).await.unwrap();
            logged(&recorder, &[(Info, "before"), (Info, "after"), (Error, "after")], &way).await;
            client.set_logging_level(Debug).await.unwrap();
            client.call_tool("log", json!({})).await.unwrap();
            logged(&recorder, &[(Info, "before"), (Debug, "after"), (Info, "after"), (Error, "after")], &way)
                .await;
            client.close().await;
        }
        assert_eq!(bridge.dropped_messages(), 0);
        bridge.close().await;
    }
}

#[tokio::test]
async fn each_session_gets_log_messages_of_its_own_level() {
    use LoggingLevel::{Error, Info};
    let bridge = bridge().await;
    let session = || {
        let recorder = Recorder::new();
        (
            McpClient::builder().era(EraChoice::Legacy).on_notification(recorder.callback()).server(&bridge),
            recorder,
        )
    };
    let ((usual, usual_recorder), (errors, errors_recorder)) = (session(), session());
    usual.ping().await.unwrap();
    usual.list_tools().await.unwrap_err();
    errors.set_logging_level(Error).await.unwrap();
    errors.call_tool("log", json!({})).await.unwrap();
    logged(&errors_recorder, &[(Error, "after")], "errors").await;
    logged(&usual_recorder, &[(Info, "after"), (Error, "after")], "usual").await;
    bridge.close().await;
}

/// In 2026-07-28, a log message belongs to a request: to the subscription that names a level.
#[tokio::test]
async fn subscription_with_log_level_gets_log_messages_outside_calls() {
    let bridge = bridge().await;
    let site = http::Site::new(&bridge);
    let listen = |level: Value| {
        let meta = json!({"io.modelcontextprotocol/logLevel": level});
        let meta = if level.is_null() { json!({}) } else { meta };
        site.open(&Message::modern("subscriptions/listen", json!({"notifications": {}, "_meta": meta})))
    };
    let (mut listening, mut silent) = (listen(json!("info")), listen(Value::Null));
    for one in [&mut listening, &mut silent] {
        assert_eq!(one.next_message().await["method"], "notifications/subscriptions/acknowledged");
    }
    site.call("tools/call", json!({"name": "log", "arguments": {}})).await;
    for level in ["info", "error"] {
        let message = listening.next_message().await;
        assert_eq!(message["method"], "notifications/message", "{message}");
        assert_eq!(
            (&message["params"]["level"], &message["params"]["data"]),
            (&json!(level), &json!("after"))
        );
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "{message}");
    }
    http::Site::settle().await;
    silent.advance();
    assert_eq!(silent.take_event(), None);
    bridge.close().await;
}

/// Such a message could belong to any of several calls, so no other client may receive it.
#[tokio::test]
async fn log_message_of_a_call_does_not_reach_other_sessions() {
    let bridge = bridge().await;
    let site = http::Site::new(&bridge);
    let recorder = Recorder::new();
    let session =
        McpClient::builder().era(EraChoice::Legacy).on_notification(recorder.callback()).server(&bridge);
    session.set_logging_level(LoggingLevel::Debug).await.unwrap();
    let hang = Message::modern("tools/call", json!({"name": "hang", "arguments": {}}));
    let mut calls = [site.open(&hang), site.open(&hang)];
    let dropping = async {
        while bridge.dropped_messages() == 0 {
            assert!(calls.iter_mut().all(http::Exchange::is_pending));
            http::Site::settle().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), dropping).await.expect("the message should be dropped");
    session.call_tool("log", json!({})).await.unwrap();
    let of_call = recorder
        .take()
        .into_iter()
        .find(|one| matches!(one, ServerNotification::Message(message) if message.data == "of a call"));
    assert_eq!(of_call, None);
}

/// Regression test: after a client canceled its call, the server continued, and the next client received its
/// messages.
#[tokio::test]
async fn log_message_of_canceled_call_does_not_reach_next_caller() {
    let bridge = bridge().await;
    let site = http::Site::new(&bridge);
    let hang = Message::modern("tools/call", json!({"name": "hang", "arguments": {}}));
    let mut canceled_call = site.open(&hang);
    for _ in 0..10 {
        assert!(canceled_call.is_pending());
        http::Site::settle().await;
    }
    drop(canceled_call);
    let recorder = Recorder::new();
    let session =
        McpClient::builder().era(EraChoice::Legacy).on_notification(recorder.callback()).server(&bridge);
    session.set_logging_level(LoggingLevel::Debug).await.unwrap();
    let calling = tokio::spawn(async move { session.call_tool("hang", json!({})).await });
    let dropping = async {
        while bridge.dropped_messages() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), dropping).await.expect("the message should be dropped");
    calling.abort();
    assert!(recorder.take().iter().all(|one| !matches!(one, ServerNotification::Message(_))));
    bridge.close().await;
}

/// Regression test: such messages were dropped, but not counted.
#[tokio::test]
async fn log_messages_in_responses_to_bridge_requests_count_as_dropped() {
    let url = scripted(|_, message| {
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        match message["method"].as_str() {
            Some("initialize") => {
                let initialized = json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}},
                    "serverInfo": {"name": "logging", "version": "1"}});
                response("Content-Type: application/json\r\n", &answer(initialized).to_string())
            }
            Some("logging/setLevel") => {
                let message = String::from_utf8(log_message("info", "set")).unwrap();
                let events = format!("data: {}\n\ndata: {}\n\n", message.trim(), answer(json!({})));
                response("Content-Type: text/event-stream\r\n", &events)
            }
            Some(_) => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
            None => {
                "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
            }
        }
    })
    .await;
    let bridge = over_http(&url, options(EraChoice::Legacy)).await;
    let session = McpClient::builder().era(EraChoice::Legacy).server(&bridge);
    session.set_logging_level(LoggingLevel::Debug).await.unwrap();
    assert_eq!(bridge.dropped_messages(), 1);
}
