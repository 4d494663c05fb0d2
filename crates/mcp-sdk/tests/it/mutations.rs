//! Messages with random errors: the server answers each one and continues.

use serde_json::{Value, json};
use thruway_mcp_sdk::LocalClient;
use thruway_testkit::Random;

use crate::fixtures::{server, tool};
use crate::http::{Message, Session, Site, request, with_meta};
use crate::stream::next;

/// Messages of both eras.
fn messages() -> Vec<Value> {
    let meta = |params: Value| with_meta(params, &json!({"elicitation": {}, "sampling": {}, "roots": {}}));
    let mut call = meta(tool("progress"));
    call["_meta"]["progressToken"] = "p".into();
    let mut answered = meta(tool("ask"));
    answered["inputResponses"] = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    answered["requestState"] = "e30.e30".into();
    vec![
        request(1, "server/discover", &meta(json!({}))),
        request(2, "tools/list", &meta(json!({"cursor": "1"}))),
        request(3, "tools/call", &call),
        request(4, "tools/call", &answered),
        request(5, "resources/read", &meta(json!({"uri": "test://item/5"}))),
        request(
            6,
            "completion/complete",
            &meta(json!({
                "ref": {"type": "ref/prompt", "name": "greeting"},
                "argument": {"name": "message", "value": "x"},
                "context": {"arguments": {"a": "b"}},
            })),
        ),
        request(7, "tools/call", &tool("progress")),
        request("8", "logging/setLevel", &json!({"level": "info"})),
        request(9, "resources/subscribe", &json!({"uri": "test://text"})),
        json!([request(10, "ping", &json!({})), request(11, "tools/call", &tool("progress"))]),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}),
    ]
}

/// Changes some bytes, or replaces a value.
fn mutate(message: &Value, random: &mut Random) -> Vec<u8> {
    let mut message = message.clone();
    for _ in 0..random.below(3) {
        replace_some_value(&mut message, random);
    }
    let mut bytes = message.to_string().into_bytes();
    for _ in 0..random.below(3) {
        let place = random.below(bytes.len());
        match random.below(3) {
            0 => bytes[place] = *random.pick(b"\"{}[]:,0\\\xff \0"),
            1 => bytes.truncate(place + 1),
            _ => bytes.insert(place, *random.pick(b"\"{}[],1")),
        }
    }
    bytes.retain(|byte| *byte != b'\n');
    bytes
}

fn replace_some_value(value: &mut Value, random: &mut Random) {
    let inner: Vec<&mut Value> = match value {
        Value::Object(object) => object.values_mut().collect(),
        Value::Array(array) => array.iter_mut().collect(),
        _ => Vec::new(),
    };
    let count = inner.len();
    if count > 0 && !random.one_in(4) {
        let place = random.below(count);
        return replace_some_value(
            inner.into_iter().nth(place).expect("`place` is below the number of values"),
            random,
        );
    }
    let others = [
        json!(null),
        json!({}),
        json!([]),
        json!(""),
        json!("tools/call"),
        json!(-1),
        json!(1e300),
        json!(true),
    ];
    *value = random.pick(&others).clone();
}

async fn assert_still_responds(client: &mut LocalClient) {
    client.send(&request("alive", "server/discover", &with_meta(json!({}), &json!({})))).await;
    while next(client).await["id"] != "alive" {}
}

#[tokio::test(start_paused = true)]
async fn stream_connection_survives_random_messages() {
    let server = server();
    let mut random = Random::new(5);
    for _ in 0..20 {
        let mut client = server.connect();
        if random.one_in(2) {
            client.initialize(thruway_mcp_sdk::Revision::R20250326).await.unwrap();
        }
        for _ in 0..100 {
            let message = mutate(random.pick(&messages()), &mut random);
            client.send_bytes(&message).await;
            client.send_bytes(b"\n").await;
        }
        assert_still_responds(&mut client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn http_endpoint_answers_random_messages() {
    let site = Site::new(&server());
    let session = site.initialize("2025-03-26").await;
    let mut random = Random::new(6);
    for _ in 0..2000 {
        let content = mutate(random.pick(&messages()), &mut random);
        let shape = match random.below(3) {
            0 => Message::post(&json!({})),
            1 => session.post(&json!({})),
            _ => Message::modern("tools/call", tool("progress")),
        };
        let message = Message { content, ..shape };
        let mut exchange = site.open(&message);
        let head = exchange.head().await;
        assert!(["200", "202", "400", "404"].contains(&&head[9..12]), "{head} {message:?}");
    }
    assert_eq!(site.send(&Session::initialize("2025-03-26", &json!({}))).await.status, 200);
}
