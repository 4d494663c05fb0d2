//! Batches, which only 2025-03-26 permits.

use serde_json::{Value, json};

use crate::fixtures::{answer, server, text, tool, with_hanging};
use crate::http::{Message, Session, Site, request};

async fn start() -> (Site, Session) {
    let site = Site::new(&server());
    let session = site.initialize("2025-03-26").await;
    (site, session)
}

fn ids(messages: &[Value]) -> Vec<i64> {
    messages.iter().map(|message| message["id"].as_i64().unwrap_or_default()).collect()
}

#[tokio::test(start_paused = true)]
async fn immediate_batch_responses_arrive_in_one_array() {
    let (site, session) = start().await;
    let batch = json!([
        request(1, "ping", &json!({})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "tools/call", &json!({"name": "echo", "arguments": {"message": "m"}})),
        request(3, "nothing", &json!({})),
        request(4, "initialize", &json!({})),
        {"jsonrpc": "1.0", "id": 5, "method": "ping"},
        7,
    ]);
    let answers = site.send(&session.post(&batch)).await.message();
    let answers = answers.as_array().unwrap();
    assert_eq!(ids(answers), [1, 2, 3, 4, 5, 0]);
    let codes: Vec<_> =
        answers.iter().map(|answer| answer["error"]["code"].as_i64().unwrap_or_default()).collect();
    assert_eq!(codes, [0, 0, -32601, -32602, -32600, -32600]);
}

#[tokio::test(start_paused = true)]
async fn slow_batch_responses_arrive_separately() {
    let (site, session) = start().await;
    let batch = json!([
        request(1, "ping", &json!({})),
        request(2, "tools/call", &tool("progress")),
        request(3, "tools/call", &tool("panic_later")),
    ]);
    let messages = site.send(&session.post(&batch)).await.messages();
    assert_eq!(ids(messages[0].as_array().unwrap()), [1]);
    let mut rest = ids(&messages[1..]);
    rest.sort_unstable();
    assert_eq!(rest, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn handler_in_batch_can_send_elicitation_request() {
    // Regression test: the elicitation requests were discarded, and the calls waited for their timeouts.
    let (site, session) = start().await;
    let batch = json!([request(1, "tools/call", &tool("ask_roots")), request(2, "tools/call", &tool("ask"))]);
    let mut exchange = site.open(&session.post(&batch));
    let errors = exchange.next_message().await;
    assert_eq!(errors[0]["error"]["code"], -32602, "{errors}");
    let question = exchange.next_message().await;
    let response = session.respond(&question["id"], &answer("elicitation/create", &json!({})));
    assert_eq!(site.send(&response).await.status, 202);
    assert_eq!(text(&exchange.next_message().await["result"]), "Ada");
    assert_eq!(exchange.next_event().await, None);
}

#[tokio::test(start_paused = true)]
async fn client_can_cancel_batch_request_and_duplicate_ids_are_rejected() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    let session = site.initialize("2025-03-26").await;
    let batch = json!([request(1, "tools/call", &tool("hang")), request(1, "tools/call", &tool("hang"))]);
    let mut exchange = site.open(&session.post(&batch));
    assert_eq!(exchange.next_message().await[0]["error"]["code"], -32600);
    assert_eq!(running.count(), 1);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(site.send(&session.post(&json!([cancelled]))).await.status, 202);
    assert_eq!(exchange.next_event().await, None);
    assert_eq!(running.count(), 0);
}

/// Regression test: requests of a batch that were in progress when the session ended got no answer.
#[tokio::test(start_paused = true)]
async fn running_batch_requests_get_errors_when_session_ends() {
    let (server, _running) = with_hanging(server());
    let site = Site::new(&server);
    let session = site.initialize("2025-03-26").await;
    let batch = json!([request(1, "tools/call", &tool("hang")), request(2, "tools/call", &tool("hang"))]);
    let mut exchange = site.open(&session.post(&batch));
    exchange.head().await;
    assert_eq!(site.send(&session.delete()).await.status, 204);
    let mut responses = vec![exchange.next_message().await, exchange.next_message().await];
    responses.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(ids(&responses), [1, 2]);
    assert!(responses.iter().all(|answer| answer["error"]["code"] == -32603));
    assert_eq!(exchange.next_event().await, None);
}

#[tokio::test(start_paused = true)]
async fn empty_malformed_and_oversized_batches_are_rejected() {
    let (site, session) = start().await;
    let many: Vec<_> = (0..101).map(|id| request(id, "ping", &json!({}))).collect();
    for (content, code) in [("[]", -32600), ("[", -32700), (&*Value::from(many).to_string(), -32600)] {
        let message = Message { content: content.into(), ..session.post(&json!([])) };
        assert_eq!(site.refused(&message).await, (400, code));
    }
}

#[tokio::test(start_paused = true)]
async fn revisions_other_than_2025_03_26_reject_batches() {
    let site = Site::new(&server());
    let batch = json!([request(1, "ping", &json!({}))]);
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = site.initialize(revision).await;
        assert_eq!(site.refused(&session.post(&batch)).await, (400, -32600), "{revision}");
    }
    let modern = Message::post(&batch).with_field("MCP-Protocol-Version", "2026-07-28");
    let response = site.send(&modern).await;
    assert!(response.status == 400 && response.text().contains("batches"), "{}", response.text());
}
