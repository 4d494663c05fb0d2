//! Resumes streams of sessions whose process has ended, from an archive.

use std::collections::VecDeque;

use thruway_mcp::json_rpc::{Error, Id, write_error};
use thruway_server::Event;

use super::answer::{Answer, Incoming};
use super::events::Events;
use crate::http_response::{WholeResponse, event};
use crate::session::{ArchivedEvent, EventId};

/// Answers GET with `Last-Event-ID` for the session `session`, which this process does not have. The client gets the
/// events after `last` once. If the request of the stream has no answer, the last event is an error. Otherwise, the client
/// gets `refusal`.
pub(super) fn resume(
    incoming: &Incoming<'_>,
    session: &str,
    last: EventId,
    refusal: WholeResponse,
) -> Answer {
    let options = &incoming.server.core.options;
    let Some(archive) = options.event_archive.clone() else { return Answer::now(refusal) };
    let owner = options.replica_ids.as_ref().and_then(|ids| ids.replica_of_session(session));
    let own = options.replica_ids.as_ref().map(crate::ReplicaIds::replica);
    // Without a valid signature, the id is forged. This process knows its own sessions.
    if owner.is_none() || owner == own {
        return Answer::now(refusal);
    }
    let (session, caller) = (session.to_owned(), incoming.caller.principal());
    Answer::later(async move {
        let events = archive.read(&session).await;
        let missed = missed(&events, last, caller.as_deref());
        if missed.is_empty() { refusal.into() } else { Events::Archived(missed).into() }
    })
}

/// Returns the events of a stream after `last`, and the end of the stream. Returns no events if there are none after
/// `last`, or if another caller owns the session.
fn missed(events: &[ArchivedEvent], last: EventId, caller: Option<&str>) -> VecDeque<Event> {
    let of_stream: Vec<_> = events
        .iter()
        .filter(|event| event.stream == last.stream && event.caller.as_deref() == caller)
        .collect();
    let Some(newest) = of_stream.last().filter(|_| last.stream > 0) else { return VecDeque::new() };
    let with_id = |number: u64, message: &[u8]| {
        event(message).with_id(&EventId { stream: last.stream, event: number }.to_string())
    };
    let missed = of_stream.iter().filter(|event| event.event > last.event);
    let mut missed: VecDeque<_> =
        missed.map(|event| with_id(event.event, event.message.as_bytes())).collect();
    // A client that has received this error gets 404.
    let end = newest.event + 1;
    if !newest.is_answer && last.event < end {
        let mut message = Vec::new();
        write_error(&mut message, Some(&Id::from(&newest.request)), &Error::internal(ENDED));
        missed.push_back(with_id(end, &message));
    }
    missed
}

/// The error for a request without an answer.
const ENDED: &str =
    "the request was canceled because the gateway with its session has ended: send `initialize` again";

#[cfg(test)]
mod tests {
    use thruway_mcp::schema::RequestId;

    use super::*;

    fn archived(stream: u64, event: u64, is_answer: bool) -> ArchivedEvent {
        let (request, message) = (RequestId::Integer(7), format!("\"{stream}-{event}\""));
        ArchivedEvent { caller: Some("ada".to_owned()), stream, event, request, is_answer, message }
    }

    #[test]
    fn caller_gets_missed_events_once_and_an_error_without_an_answer() {
        let events =
            [archived(1, 1, false), archived(2, 1, false), archived(1, 2, false), archived(2, 2, true)];
        let count = |stream, event, caller| missed(&events, EventId { stream, event }, caller).len();
        // The last event of stream 1 is the error.
        for (event, expected) in [(0, 3), (1, 2), (2, 1), (3, 0), (9, 0)] {
            assert_eq!(count(1, event, Some("ada")), expected, "after event {event}");
        }
        for (event, expected) in [(0, 2), (1, 1), (2, 0)] {
            assert_eq!(count(2, event, Some("ada")), expected, "after event {event}");
        }
        assert_eq!((count(1, 0, Some("bob")), count(1, 0, None), count(0, 0, Some("ada"))), (0, 0, 0));
    }
}
