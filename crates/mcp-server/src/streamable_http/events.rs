//! Event streams that answer HTTP requests.

use std::collections::VecDeque;
use std::time::Duration;

use thruway_server::Event;
use tokio::time::Instant;

use crate::dispatch::{CloseMessage, Exchange, Outgoing, change_notification};
use crate::http_response::event;
use crate::server::Change;
use crate::session::{EventId, EventKind, InUse, StreamReader};

/// The events of one answer, which are produced on demand.
pub(super) enum Events {
    /// The answer to a request of the modern era. If the client disconnects, the server cancels the
    /// request.
    Exchange {
        /// A message that is available already.
        first: Option<Outgoing>,
        exchange: Exchange,
        /// The final result of a subscription. The server sends this result when it shuts down.
        close_message: Option<CloseMessage>,
    },
    /// The remaining events of a stream that the client can resume.
    Replay(Replay),
    /// Events of a session of an ended process.
    Archived(VecDeque<Event>),
    /// The messages of a session that do not belong to a request.
    Standalone(Standalone),
}

/// The messages of a session that do not belong to a request. If the client disconnects, the session keeps the last
/// changes for its next stream, because the client may not have received them.
pub(super) struct Standalone {
    session: InUse,
    /// `true` if the first event must contain only an id, with which the client can resume the stream.
    is_to_be_primed: bool,
    /// The changes that were sent last, and the time of each.
    sent: VecDeque<(Instant, Change)>,
}

/// A stream, and the client's position in this stream.
pub(super) struct Replay {
    reader: StreamReader,
    /// Keeps the session in use while the client reads the stream.
    _session: InUse,
    is_to_be_primed: bool,
    is_over: bool,
}

impl Events {
    /// Returns the remaining events of the stream that `reader` reads.
    pub(super) const fn replay(reader: StreamReader, session: InUse, is_to_be_primed: bool) -> Self {
        Self::Replay(Replay { reader, _session: session, is_to_be_primed, is_over: false })
    }

    /// Returns the next event, or `None` at the end.
    ///
    /// # Cancel safety
    /// Dropping the future may lose an event. Poll each future until it completes.
    pub(super) async fn next(&mut self) -> Option<Event> {
        match self {
            Self::Exchange { first, exchange, .. } => loop {
                let outgoing = match first.take() {
                    Some(first) => first,
                    None => exchange.next().await?,
                };
                if let Some(message) = outgoing.into_message() {
                    return Some(event(&message));
                }
            },
            Self::Replay(replay) => replay.next().await,
            Self::Standalone(standalone) => standalone.next().await,
            Self::Archived(events) => events.pop_front(),
        }
    }

    /// Takes the final result out of the events, if the events belong to a subscription.
    pub(super) const fn take_close_message(&mut self) -> Option<CloseMessage> {
        if let Self::Exchange { close_message, .. } = self { close_message.take() } else { None }
    }

    /// Returns `true` if the stream of events is finite. Returns `false` if the events continue until the
    /// client disconnects, the session ends or the server shuts down.
    pub(super) const fn is_finite(&self) -> bool {
        match self {
            Self::Exchange { close_message, .. } => close_message.is_none(),
            Self::Replay(_) | Self::Archived(_) => true,
            Self::Standalone(_) => false,
        }
    }
}

impl Standalone {
    pub(super) const fn new(session: InUse, is_to_be_primed: bool) -> Self {
        Self { session, is_to_be_primed, sent: VecDeque::new() }
    }

    async fn next(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.is_to_be_primed) {
            return Some(Event::data("").with_id(STANDALONE_EVENT_ID));
        }
        tokio::select! {
            () = self.session.ended() => None,
            message = self.session.next_out_of_band() => Some(event(&message)),
            change = self.session.subscription.next() => {
                let notification = event(&change_notification(&change, None));
                self.keep(change);
                Some(notification)
            }
        }
    }

    fn keep(&mut self, change: Change) {
        let now = Instant::now();
        self.sent.retain(|(at, other)| *at + UNCERTAIN >= now && *other != change);
        if self.sent.len() >= KEPT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((now, change));
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        let now = Instant::now();
        for (at, change) in self.sent.drain(..) {
            if at + UNCERTAIN >= now {
                self.session.subscription.note(change);
            }
        }
    }
}

impl Replay {
    async fn next(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.is_to_be_primed) {
            return Some(only_id(self.reader.last_id()));
        }
        if self.is_over {
            return None;
        }
        let kind = self.reader.next().await?.kind;
        let id = self.reader.last_id();
        Some(match kind {
            EventKind::Message(message) | EventKind::Answer(message) => {
                event(&message).with_id(&id.to_string())
            }
            EventKind::Disconnect(retry) => {
                self.is_over = true;
                only_id(id).with_retry(retry)
            }
        })
    }
}

/// Returns an event that has an id but no message. The client can resume the stream after this id.
fn only_id(id: EventId) -> Event {
    Event::data("").with_id(&id.to_string())
}

/// The first event id of the standalone stream, which contains the messages that do not belong to a request.
/// A client that resumes the stream with this id gets all pending changes, because the session stores changes
/// until they are sent.
const STANDALONE_EVENT_ID: &str = "0-0";

/// Time after which the client has received a change. The server notices a lost connection after at most one second,
/// and a forwarding gateway needs some time too.
const UNCERTAIN: Duration = Duration::from_secs(5);

/// Maximum number of changes that the session keeps for the next stream.
const KEPT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use serde_json::json;
    use thruway_mcp::Revision;

    use super::*;
    use crate::server::Changes;
    use crate::session::Session;

    fn next(stream: &mut Standalone) -> Option<String> {
        let next = pin!(stream.next()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(event) = next else { return None };
        Some(String::from_utf8(event.unwrap().into_bytes().to_vec()).unwrap())
    }

    /// A change was lost if the client had lost its connection, and the server had not noticed this yet.
    #[test]
    fn next_stream_repeats_the_last_change() {
        let changes = Changes::default();
        let subscription = changes.subscribe([Change::Tools, Change::Resource("note://1".into())]).unwrap();
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"}});
        let params = serde_json::from_value(params).unwrap();
        let session = Arc::new(Session::new(Revision::R20250618, &params, subscription));
        let stream = || Standalone::new(InUse::new(session.clone()), false);
        let mut lost = stream();
        changes.announce(&Change::Resource("note://1".into()));
        assert!(next(&mut lost).unwrap().contains("note://1"));
        drop(lost);
        let mut later = stream();
        assert!(next(&mut later).unwrap().contains("note://1"));
        assert_eq!(next(&mut later), None);
    }
}
