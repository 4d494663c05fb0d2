//! The examples, used as their users' clients use them, in both eras.

#[expect(dead_code, reason = "`main` is called by those who run an example")]
mod programs;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::ClientCapabilities;
use thruway_mcp_sdk::{LocalClient, McpServer, Revision};
use tower_service::Service;

use programs::{booking, calculator, mcp_in_axum, notes, words};

/// A client of each era, with a user who says yes to everything.
async fn clients(server: &McpServer) -> [LocalClient; 2] {
    let client = || {
        let yes = json!({"action": "accept", "content": {"sure": true}});
        let capabilities = ClientCapabilities::default().with_elicitation();
        server.connect().with_capabilities(&capabilities).with_answers(move |_, _| yes.clone())
    };
    let mut legacy = client();
    legacy.initialize(Revision::R20251125).await.unwrap();
    [client(), legacy]
}

async fn call(client: &mut LocalClient, tool: &str, arguments: Value) -> Value {
    client.request("tools/call", json!({"name": tool, "arguments": arguments})).await.unwrap()
}

#[tokio::test]
async fn the_calculator_adds() {
    for mut client in clients(&calculator::server()).await {
        let result = call(&mut client, "add", json!({"a": 1, "b": 2.5})).await;
        assert_eq!(result["structuredContent"], json!({"sum": 3.5}));
        let refused = call(&mut client, "add", json!({"a": "one", "b": 2})).await;
        assert_eq!(refused["isError"], true);
    }
}

#[tokio::test]
async fn a_hotel_is_booked_when_the_user_agrees() {
    for mut client in clients(&booking::server()).await {
        let result = call(&mut client, "book", json!({"destination": "Oslo", "nights": 2})).await;
        assert_eq!(result["content"][0]["text"], "booked 2 nights in Oslo");
    }
    let refusal = json!({"action": "decline"});
    let capabilities = ClientCapabilities::default().with_elicitation();
    let mut client = booking::server()
        .connect()
        .with_capabilities(&capabilities)
        .with_answers(move |_, _| refusal.clone());
    let result = call(&mut client, "book", json!({"destination": "Oslo", "nights": 2})).await;
    assert_eq!(
        (&result["isError"], &result["content"][0]["text"]),
        (&json!(true), &json!("nothing was booked"))
    );
}

#[tokio::test]
async fn notes_become_resources() {
    let server = notes::server();
    for mut client in clients(&server).await {
        call(&mut client, "write", json!({"name": "milk", "text": "two bottles"})).await;
        call(&mut client, "write", json!({"name": "milk", "text": "three bottles"})).await;
        let list = client.request("resources/list", json!({})).await.unwrap();
        assert_eq!(list["resources"].as_array().map(Vec::len), Some(1));
        let note = client.request("resources/read", json!({"uri": "note://milk"})).await.unwrap();
        assert_eq!(note["contents"][0]["text"], "three bottles");
        let refused = call(&mut client, "write", json!({"name": "../etc", "text": ""})).await;
        assert_eq!(refused["isError"], true);
    }
}

#[tokio::test]
async fn words_are_counted_and_found() {
    for mut client in clients(&words::server()).await {
        let arguments = json!({"text": "a fine word", "letters_min": 2});
        let result = call(&mut client, "count_words", arguments).await;
        assert_eq!(result["structuredContent"], json!({"words": 2}));
        let result = call(&mut client, "longest_word", json!({"texts": ["a fine", "longer word", ""]})).await;
        assert_eq!(result["content"][0]["text"], "longer");
        let refused = call(&mut client, "longest_word", json!({"texts": [" "]})).await;
        assert_eq!(
            (&refused["isError"], &refused["content"][0]["text"]),
            (&json!(true), &json!("there is no word"))
        );
        let refused = call(&mut client, "longest_word", json!({"texts": []})).await;
        assert_eq!(refused["isError"], true);
    }
    assert_eq!(words::count_words("without a server", 0).0.words, 3);
}

#[tokio::test]
async fn an_axum_application_is_an_mcp_server_too() {
    for mut client in clients(&mcp_in_axum::server()).await {
        let result = call(&mut client, "greet", json!({"name": "Ada"})).await;
        assert_eq!(result["content"][0]["text"], "Hello, Ada!");
    }
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let request =
        Request::post("/mcp").header("Host", "localhost").header("Content-Type", "application/json");
    let request = request.body(Body::from(message.to_string())).unwrap();
    let response = mcp_in_axum::app().call(request).await.unwrap();
    assert!(response.status() == 200 && response.headers().contains_key("mcp-session-id"));
    let content = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let answer: Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "greeter");
}
