//! Event streams that answer HTTP requests.

use thruway_server::Event;

use crate::dispatch::{CloseMessage, Exchange, Outgoing, change_notification};
use crate::http_response::event;
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
    /// The messages of a session that do not belong to a request.
    Standalone {
        session: InUse,
        /// `true` if the first event must contain only an id, with which the client can resume the stream.
        is_to_be_primed: bool,
    },
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
            Self::Standalone { session, is_to_be_primed } => {
                if std::mem::take(is_to_be_primed) {
                    return Some(Event::data("").with_id(STANDALONE_EVENT_ID));
                }
                tokio::select! {
                    () = session.ended() => None,
                    message = session.next_out_of_band() => Some(event(&message)),
                    change = session.subscription.next() => Some(event(&change_notification(&change, None))),
                }
            }
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
            Self::Replay(_) => true,
            Self::Standalone { .. } => false,
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
