//! Resumption of event streams.

use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::Context;
use thruway_mcp_sdk::schema::Tool;
use tokio::time::sleep;

use crate::fixtures::{Nothing, answer, server, text, tool, with_waiting};
use crate::http::{Message, Session, Site};

fn with_progress(name: &str) -> serde_json::Value {
    let mut params = tool(name);
    params["_meta"] = json!({"progressToken": "p"});
    params
}

fn after(session: &Session, id: &str) -> Message {
    session.get().with_field("Last-Event-ID", id)
}

#[tokio::test(start_paused = true)]
async fn reconnected_client_receives_remaining_messages() {
    let (server, gate) = with_waiting(server());
    let site = Site::new(&server);
    let session = site.initialize("2025-06-18").await;
    let mut exchange = site.open(&session.request(1, "tools/call", &with_progress("wait")));
    let first = exchange.next_event().await.unwrap();
    assert_eq!(first.message.unwrap()["method"], "notifications/progress");
    exchange.leave();
    let id = first.id.unwrap();
    // The client can resume before the response arrives, and afterwards.
    let waiting = site.open(&after(&session, &id));
    gate.notify_one();
    let messages = waiting.response().await.messages();
    assert_eq!((text(&messages[0]["result"]), messages.len()), ("waited", 1));
    let again = site.send(&after(&session, &id)).await.messages();
    assert_eq!(again, messages);
}

#[tokio::test(start_paused = true)]
async fn resumption_replays_only_later_events() {
    let site = Site::new(&server());
    let session = site.initialize("2025-06-18").await;
    let mut exchange = site.open(&session.request(1, "tools/call", &with_progress("progress")));
    let mut events = Vec::new();
    while let Some(event) = exchange.next_event().await {
        events.push(event);
    }
    assert_eq!(events.len(), 4);
    for (place, event) in events.iter().enumerate() {
        let replayed = site.open(&after(&session, event.id.as_ref().unwrap())).response().await;
        let expected: Vec<_> =
            events[place + 1..].iter().map(|event| event.message.clone().unwrap()).collect();
        assert_eq!(replayed.messages(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn client_can_answer_elicitation_after_reconnecting() {
    let site = Site::new(&server());
    let session = site.initialize("2025-11-25").await;
    let mut exchange = site.open(&session.request(1, "tools/call", &tool("ask")));
    let primed = exchange.next_event().await.unwrap();
    assert_eq!(
        primed.message, None,
        "the client should be able to resume the stream before its first message"
    );
    exchange.leave();
    let mut exchange = site.open(&after(&session, &primed.id.unwrap()));
    let question = exchange.next_message().await;
    assert_eq!(question["method"], "elicitation/create");
    let response = session.respond(&question["id"], &answer("elicitation/create", &json!({})));
    assert_eq!(site.send(&response).await.status, 202);
    assert_eq!(text(&exchange.next_message().await["result"]), "Ada");
}

#[tokio::test(start_paused = true)]
async fn client_disconnected_by_handler_gets_result_after_reconnecting() {
    let site = Site::new(&server().tool(Tool::new("disconnect"), disconnect));
    let session = site.initialize("2025-11-25").await;
    let mut exchange = site.open(&session.request(1, "tools/call", &tool("disconnect")));
    let [primed, last] = [exchange.next_event().await.unwrap(), exchange.next_event().await.unwrap()];
    assert_eq!((primed.message, last.message), (None, None));
    assert!(exchange.next_event().await.is_none(), "the server should close the connection");
    let messages = site.open(&after(&session, &last.id.unwrap())).response().await.messages();
    assert_eq!((text(&messages[0]["result"]), messages.len()), ("done", 1));
}

#[tokio::test(start_paused = true)]
async fn handler_does_not_disconnect_client_of_older_revision() {
    let site = Site::new(&server().tool(Tool::new("disconnect"), disconnect));
    let session = site.initialize("2025-06-18").await;
    let response = site.send(&session.request(1, "tools/call", &tool("disconnect"))).await;
    assert_eq!(text(&response.message()["result"]), "done");
}

async fn disconnect(context: Context) -> &'static str {
    context.disconnect(Duration::from_millis(50)).await;
    sleep(Duration::from_secs(1)).await;
    "done"
}

#[tokio::test(start_paused = true)]
async fn foreign_and_unknown_event_ids_get_400() {
    let site = Site::new(&server());
    let (session, thief) = (site.initialize("2025-06-18").await, site.initialize("2025-06-18").await);
    let mut exchange = site.open(&session.request(1, "tools/call", &with_progress("progress")));
    let id = exchange.next_event().await.unwrap().id.unwrap();
    assert_eq!(site.send(&after(&thief, &id)).await.status, 400);
    for id in ["", "x", "1", "99-1", "1-x", "-1-1", "1-99999999999999999999"] {
        // Status 404 would mean that the session has ended.
        assert_eq!(site.send(&after(&session, id)).await.status, 400, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn session_stream_can_be_resumed_from_its_first_event() {
    // Regression test: the stream could not be found by the id of its first event.
    let server = server();
    let site = Site::new(&server);
    let session = site.initialize("2025-11-25").await;
    let mut stream = site.open(&session.get());
    let primed = stream.next_event().await.unwrap();
    assert_eq!(primed.message, None);
    stream.leave();
    server.add_tool(Tool::new("new"), |_: Nothing| "").unwrap();
    let mut stream = site.open(&after(&session, &primed.id.unwrap()));
    assert_eq!(stream.next_message().await["method"], "notifications/tools/list_changed");
}

#[tokio::test(start_paused = true)]
async fn stored_events_of_stream_are_bounded() {
    let server = server().tool(Tool::new("talk"), |_: Nothing, context: Context| async move {
        for step in 0..2000 {
            context.progress(f64::from(step), None, None).await;
        }
        "done"
    });
    let site = Site::new(&server);
    let session = site.initialize("2025-06-18").await;
    let mut exchange = site.open(&session.request(1, "tools/call", &with_progress("talk")));
    let id = exchange.next_event().await.unwrap().id.unwrap();
    exchange.leave();
    Site::settle().await;
    let messages = site.send(&after(&session, &id)).await.messages();
    assert!(messages.len() <= 256, "{}", messages.len());
    assert_eq!(text(&messages.last().unwrap()["result"]), "done");
}
