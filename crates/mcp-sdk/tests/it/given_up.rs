//! Elicitation requests that a legacy server cancels. The user's dialogs close, also behind bridges.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ClientCapabilities, InputResponse};
use thruway_mcp_sdk::{Bridge, BridgeOptions, EraChoice, McpClient, McpClientBuilder, McpClientOptions};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::misbehaving::on_stream_with;
use crate::http::{self, Message};

/// A server with a tool that sends two elicitation requests, `first` and `second`. The server cancels `first`
/// when the client lists tools or answers `second`. The answer to `second` also ends the call.
fn canceling_server(builder: McpClientBuilder) -> McpClient {
    let call = AtomicI64::default();
    on_stream_with(builder, move |message| {
        let id = &message["id"];
        let answer = |id: Value, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let ask = |id: u32, message: &str| {
            let params = json!({"message": message, "requestedSchema": {"type": "object", "properties": {}}});
            json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
        };
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}});
        let messages = match message["method"].as_str() {
            Some("initialize") => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "fickle", "version": "1"}});
                vec![answer(id.clone(), result)]
            }
            Some("tools/call") => {
                call.store(id.as_i64().unwrap(), Ordering::Relaxed);
                vec![ask(77, "first"), ask(78, "second")]
            }
            Some("tools/list") => vec![cancel, answer(id.clone(), json!({"tools": []}))],
            None if *id == 78 => {
                let call = call.load(Ordering::Relaxed);
                vec![cancel, answer(call.into(), json!({"content": []}))]
            }
            _ => Vec::new(),
        };
        messages.iter().flat_map(|message| format!("{message}\n").into_bytes()).collect()
    })
}

async fn bridge() -> Bridge {
    let client = McpClientOptions { era: EraChoice::Legacy, ..McpClientOptions::default() };
    let options = BridgeOptions { client, ..BridgeOptions::default() };
    Bridge::connect(options, |builder| Ok(canceling_server(builder))).await.unwrap()
}

/// Reports when a dialog opens and closes.
struct Dialog(mpsc::UnboundedSender<&'static str>);

impl Drop for Dialog {
    fn drop(&mut self) {
        let _ = self.0.send("closed");
    }
}

/// A client with a user that does not answer. Also returns the events of its dialogs.
fn unresponsive_client() -> (McpClientBuilder, mpsc::UnboundedReceiver<&'static str>) {
    let (dialogs, seen) = mpsc::unbounded_channel();
    let capabilities = ClientCapabilities::default().with_elicitation();
    let builder = McpClient::builder().era(EraChoice::Legacy).answers(capabilities, move |_| {
        let dialog = Dialog(dialogs.clone());
        async move {
            let _ = dialog.0.send("opened");
            std::future::pending::<Result<InputResponse, Error>>().await
        }
    });
    (builder, seen)
}

/// Regression test: the dialog stayed open although its answer was useless.
#[tokio::test]
async fn elicitation_dialog_closes_when_server_cancels_request() {
    let bridge = bridge().await;
    let direct = unresponsive_client();
    let through_bridge = unresponsive_client();
    for (client, mut seen) in
        [(canceling_server(direct.0), direct.1), (through_bridge.0.server(&bridge), through_bridge.1)]
    {
        let calling = client.clone();
        let call = tokio::spawn(async move { calling.call_tool("any", json!({})).await });
        let mut next = async || timeout(Duration::from_mins(1), seen.recv()).await.unwrap().unwrap();
        assert_eq!((next().await, next().await), ("opened", "opened"));
        client.list_tools().await.unwrap();
        assert_eq!(next().await, "closed");
        call.abort();
    }
    bridge.close().await;
}

/// Regression test: the server repeated the canceled elicitation, and the call did not end without its
/// answer.
#[tokio::test]
async fn modern_client_need_not_answer_canceled_elicitation() {
    let bridge = bridge().await;
    let site = http::Site::new(&bridge);
    let mut params = json!({"name": "any", "arguments": {}});
    let rounds = async {
        loop {
            let call = Message::modern_with("tools/call", params.clone(), &json!({"elicitation": {}}));
            let response = site.send(&call).await.message();
            let result = &response["result"];
            if result["resultType"] == "complete" {
                return;
            }
            let input_requests = result["inputRequests"].as_object().unwrap_or_else(|| panic!("{response}"));
            let second =
                input_requests.iter().filter(|(_, question)| question["params"]["message"] == "second");
            let answers = second.map(|(name, _)| (name.clone(), json!({"action": "decline"})));
            params["inputResponses"] = Value::Object(answers.collect());
            params["requestState"] = result["requestState"].clone();
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_mins(1), rounds).await.expect("the call should end");
    bridge.close().await;
}
