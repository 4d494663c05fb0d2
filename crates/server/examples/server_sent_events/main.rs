//! Server-sent events. Each connected client gets all posted messages. A client that reconnects gets the
//! messages that it has missed.
//!
//! ```sh
//! cargo run --release --example server_sent_events
//! curl -N http://127.0.0.1:8080/events                            # in another terminal, stays open
//! curl http://127.0.0.1:8080/messages -d 'hello'
//! curl -N http://127.0.0.1:8080/events -H 'Last-Event-ID: 1'      # all messages after the first
//! ```
//! Or open `http://127.0.0.1:8080/` in a browser.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use thruway_server::{
    BoxError, Event, EventSender, Request, Response, Router, Server, ServerError, StatusCode, with_state,
};
use tokio::sync::watch;

/// The latest messages with their ids, which begin at 1. A new message wakes all event streams.
type Messages = watch::Sender<VecDeque<(u64, String)>>;

pub(crate) fn app() -> Router {
    let messages = Arc::new(Messages::default());
    Router::new()
        .get("/", || Response::html(include_str!("index.html")))
        .get("/events", with_state(&messages, listen))
        .post("/messages", with_state(&messages, post))
}

fn post(messages: &Messages, request: &Request<'_>) -> StatusCode {
    let Ok(text) = str::from_utf8(request.content()) else { return StatusCode::BAD_REQUEST };
    messages.send_modify(|messages| {
        let id = messages.back().map_or(1, |(last, _)| last + 1);
        messages.push_back((id, text.to_owned()));
        if messages.len() > MESSAGES_KEPT {
            messages.pop_front();
        }
    });
    StatusCode::ACCEPTED
}

fn listen(messages: &Messages, request: &Request<'_>) -> Response {
    let last = messages.borrow().back().map_or(0, |(last, _)| *last);
    // A browser that reconnects reports the last id that it has received. This id may be higher than all
    // current ids, because they begin at 1 again when the server restarts. A browser that connects for the
    // first time gets only new messages.
    let seen = request.field("last-event-id").and_then(|value| value.as_str()?.parse().ok());
    let seen = seen.map_or(last, |seen: u64| seen.min(last));
    let watched = messages.subscribe();
    Response::events(KEEP_ALIVE_INTERVAL, move |events| send(events, watched, seen))
}

/// Sends the messages after `seen`. The future is dropped when the client leaves.
async fn send(
    mut events: EventSender,
    mut watched: watch::Receiver<VecDeque<(u64, String)>>,
    mut seen: u64,
) -> Result<(), BoxError> {
    loop {
        let unseen: Vec<_> =
            watched.borrow_and_update().iter().filter(|(id, _)| *id > seen).cloned().collect();
        for (id, text) in unseen {
            events.send(Event::data(&text).with_id(&id.to_string())).await;
            seen = id;
        }
        watched.changed().await?;
    }
}

fn main() -> Result<(), ServerError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    Server::new(app()).listen("127.0.0.1:8080")?.run()
}

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const MESSAGES_KEPT: usize = 100;
