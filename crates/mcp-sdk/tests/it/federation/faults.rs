//! Members that misbehave. Their faults are bounded, name the member, and do not disturb other members.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{
    BridgeOptions, Context, EraChoice, McpClient, McpClientOptions, McpGateway, McpGatewayOptions, McpServer,
    Member, MemberState,
};
use thruway_net::InProcessServer;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::sites::{ERAS, gateway, in_memory, of_era, wait_for, with_options};
use crate::client::calls::text;
use crate::client::misbehaving::on_stream_with;

const TIMEOUT: Duration = Duration::from_secs(20);

fn greeter() -> McpServer {
    McpServer::new("greeter", "1.0").tool(Tool::new("greet"), || "Hello!")
}

/// A gateway with the member `one`, which works, and another member.
fn gateway_with(member: Member) -> McpGateway {
    let client = McpClientOptions { timeout: TIMEOUT, ..McpClientOptions::default() };
    let bridge = BridgeOptions { client, ..BridgeOptions::default() };
    let options =
        McpGatewayOptions { list_wait: Duration::from_secs(1), bridge, ..McpGatewayOptions::default() };
    with_options(options, [in_memory("one", &greeter()), member])
}

/// Checks that the call fails, and that the error names the member `two`.
async fn assert_attributed(client: &McpClient, tool: &str) {
    let error = client.call_tool(tool, json!({})).await.unwrap_err();
    let error = error.server_error().unwrap_or_else(|| panic!("{tool}: {error}"));
    assert_eq!(error.code.0, -32603, "{error}");
    assert!(error.message.starts_with("MCP server `two`: "), "{error}");
    assert_eq!(error.data.as_ref().unwrap()["server"], "two", "{error}");
}

async fn assert_works(client: &McpClient) {
    assert_eq!(text(&client.call_tool("one__greet", json!({})).await.unwrap()), "Hello!");
}

async fn names(client: &McpClient) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

/// A member whose messages are no JSON.
pub(super) fn garbage(name: &str) -> Member {
    Member::new(name, |builder| Ok(on_stream_with(builder, |_| b"no JSON\n".to_vec())))
}

#[tokio::test(start_paused = true)]
async fn member_that_sends_garbage_does_not_disturb_others() {
    let gateway = gateway_with(garbage("two"));
    let client = McpClient::builder().server(&gateway);
    assert_eq!(names(&client).await, ["one__greet"]);
    assert_works(&client).await;
    assert_attributed(&client, "two__greet").await;
    wait_for(&gateway, "two", MemberState::Failed).await;
    let status = &gateway.members()[1];
    assert!(status.last_error.is_some(), "{status:?}");
}

/// A modern server that answers `server/discover` and lists, and answers all calls with `answer(id)`.
fn scripted(name: &str, answer: impl Fn(&Value) -> Vec<u8> + Clone + Send + Sync + 'static) -> Member {
    Member::new(name, move |builder| {
        let answer = answer.clone();
        let builder = builder.era(EraChoice::Modern);
        Ok(on_stream_with(builder, move |message| {
            let result = match message["method"].as_str() {
                Some("server/discover") => json!({
                    "resultType": "complete", "ttlMs": 0, "cacheScope": "public", "capabilities": {"tools": {}},
                    "supportedVersions": ["2026-07-28"],
                }),
                Some("tools/list") => json!({
                    "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
                    "tools": [{"name": "greet", "inputSchema": {"type": "object"}}],
                }),
                Some("tools/call") => return answer(&message["id"]),
                _ => json!({"resultType": "complete"}),
            };
            line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        }))
    })
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

/// Returns the answer to the call with this id.
type Answer = fn(&Value) -> Vec<u8>;

#[tokio::test(start_paused = true)]
async fn fault_in_an_answer_is_attributed_to_the_member() {
    let faults: [(&str, Answer); 4] = [
        ("garbage", |_| b"{{{{\n".to_vec()),
        ("no object", |id| line(&json!({"jsonrpc": "2.0", "id": id, "result": 5}))),
        ("silence", |_| Vec::new()),
        ("too large", |id| {
            let text = "x".repeat(17 << 20);
            let content = json!([{"type": "text", "text": text}]);
            line(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}))
        }),
    ];
    for (fault, answer) in faults {
        let gateway = gateway_with(scripted("two", answer));
        wait_for(&gateway, "two", MemberState::Connected).await;
        for era in ERAS {
            let client = McpClient::builder().era(era).server(&gateway);
            let began = Instant::now();
            assert_attributed(&client, "two__greet").await;
            assert!(began.elapsed() <= 2 * TIMEOUT, "{fault}: {:?}", began.elapsed());
            assert_works(&client).await;
            assert_eq!(names(&client).await, ["one__greet", "two__greet"], "{fault}");
        }
        gateway.close().await;
    }
}

/// Returns a text of 10 MiB that contains escape sequences and line feeds in JSON.
fn text_of_10_mb() -> String {
    "0123456789 \"é\"\n".repeat((10 << 20) / 17 + 1)
}

#[tokio::test]
async fn result_of_10_mb_arrives_completely_in_all_pairs_of_eras() {
    let server = McpServer::new("large", "1.0").tool(Tool::new("large"), text_of_10_mb);
    for (far, era) in ERAS.into_iter().flat_map(|far| ERAS.map(|era| (far, era))) {
        let gateway = gateway([in_memory("one", &greeter()), of_era("two", &server, far)]);
        let client = McpClient::builder().era(era).server(&gateway);
        let large = client.call_tool("two__large", json!({})).await.unwrap();
        assert!(text(&large) == text_of_10_mb(), "{far:?} {era:?}");
        gateway.close().await;
    }
}

/// A member that sends half of its answer of 10 MB, and the other half after `gate` has a permit.
fn halting(name: &str, gate: &Arc<Semaphore>) -> Member {
    let gate = gate.clone();
    let server = McpServer::new("large", "1.0").tool(Tool::new("large"), text_of_10_mb);
    Member::new(name, move |builder| {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (mut pipe, other_end) = tokio::io::duplex(1 << 16);
        server.serve_pipe(other_end);
        let gate = gate.clone();
        tokio::spawn(async move {
            let (mut answers, mut requests) = tokio::io::split(&mut pipe);
            let (mut input, mut output) = far.split();
            let answering = async {
                tokio::io::copy(&mut (&mut answers).take(5 << 20), &mut output).await.unwrap();
                let _permit = gate.acquire().await.unwrap();
                tokio::io::copy(&mut answers, &mut output).await
            };
            let _ = tokio::join!(answering, tokio::io::copy(&mut input, &mut requests));
        });
        Ok(builder.unix_stream(near))
    })
}

#[tokio::test]
async fn half_of_a_result_of_10_mb_does_not_block_other_members() {
    for era in ERAS {
        let gate = Arc::new(Semaphore::new(0));
        let gateway = gateway([in_memory("one", &greeter()), halting("two", &gate)]);
        let client = McpClient::builder().era(era).server(&gateway);
        let large = async { text(&client.call_tool("two__large", json!({})).await.unwrap()).len() };
        let others = async {
            for _ in 0..100 {
                timeout(TIMEOUT, assert_works(&client)).await.expect("the call does not wait");
            }
            gate.add_permits(1);
        };
        assert_eq!(tokio::join!(large, others).0, text_of_10_mb().len());
        gateway.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slow_member_delays_only_its_own_calls() {
    let slow = McpServer::new("slow", "1.0").tool(Tool::new("wait"), |_: Context| async {
        sleep(TIMEOUT / 2).await;
        "done"
    });
    let gateway = gateway_with(in_memory("two", &slow));
    for era in ERAS {
        let client = McpClient::builder().era(era).server(&gateway);
        assert_eq!(names(&client).await, ["one__greet", "two__wait"]);
        let began = Instant::now();
        let slow = client.call_tool("two__wait", json!({}));
        let others = async {
            for _ in 0..100 {
                assert_works(&client).await;
            }
            began.elapsed()
        };
        let (slow, others) = tokio::join!(slow, others);
        assert_eq!(text(&slow.unwrap()), "done");
        assert!(others < TIMEOUT / 2, "{others:?}");
    }
}
