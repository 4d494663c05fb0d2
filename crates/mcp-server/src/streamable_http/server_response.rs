//! Converts answers to responses of Thruway's HTTP server. The module `tower` does the same for other HTTP
//! servers.

use std::cell::Cell;
use std::rc::Rc;

use thruway_server::{EventSender, Response};

use super::answer::{Answer, Answered, KEEP_ALIVE_INTERVAL};
use super::events::Events;
use crate::dispatch::CloseMessage;
use crate::http_response::event;

impl From<Answer> for thruway_server::Answer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Now(answered) => Self::Now(answered.into()),
            Answer::Later(later) => Self::later(async move { later.await.into() }),
        }
    }
}

impl From<Answered> for Response {
    fn from(answered: Answered) -> Self {
        match answered {
            Answered::Whole(response) => response.into(),
            Answered::Events(events) => response_of(events),
        }
    }
}

/// Returns the response for an event stream. During a graceful shutdown, the HTTP server waits for the end of
/// a finite stream. A subscription gets a final result instead.
fn response_of(mut events: Events) -> Response {
    let is_finite = events.is_finite();
    if let Some(close_message) = events.take_close_message() {
        return subscription(events, close_message);
    }
    let send = async move |mut sender: EventSender| {
        while let Some(event) = events.next().await {
            sender.send(event).await;
        }
        Ok(())
    };
    if is_finite {
        Response::finite_events(KEEP_ALIVE_INTERVAL, send)
    } else {
        Response::events(KEEP_ALIVE_INTERVAL, send)
    }
}

/// Returns the response for a subscription. If the subscription ends, the response ends with the final result.
/// During a graceful shutdown, the HTTP server sends the final result, but only after the acknowledgment.
fn subscription(mut events: Events, close_message: CloseMessage) -> Response {
    let is_acknowledged = Rc::new(Cell::new(false));
    let close_message = Rc::new(close_message);
    let result = {
        let (is_acknowledged, close_message) = (is_acknowledged.clone(), close_message.clone());
        move || is_acknowledged.get().then(|| event(&close_message.to_message()))
    };
    Response::events_with_last_event(KEEP_ALIVE_INTERVAL, result, async move |mut sender: EventSender| {
        while let Some(event) = events.next().await {
            sender.send(event).await;
            is_acknowledged.set(true);
        }
        // The HTTP server must not send the final result a second time.
        is_acknowledged.set(false);
        sender.send(event(&close_message.to_message())).await;
        Ok(())
    })
}
