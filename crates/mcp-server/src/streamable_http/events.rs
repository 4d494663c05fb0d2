//! Answers that come as events.

use thruway_server::Event;

use crate::dispatch::{Exchange, Farewell, Outgoing, change_notification};
use crate::http_response::event;
use crate::session::{EventId, EventKind, InUse, StreamReader};

/// The events of one answer. They are made when they are asked for: nothing goes on without being sent.
pub(super) enum Events {
    /// What a request of the modern era is answered with. If the client goes, the exchange goes too.
    Exchange {
        /// What was there already.
        first: Option<Outgoing>,
        exchange: Exchange,
        /// What ends a subscription, which does not end by itself.
        farewell: Option<Farewell>,
    },
    /// What comes after an event of a stream that can be taken up again.
    Replay(Replay),
    /// What the server says by itself in a session.
    Standalone {
        session: InUse,
        /// The client is to be told where it can begin again.
        is_to_be_primed: bool,
    },
}

/// A stream, and how far the client has got in it.
pub(super) struct Replay {
    reader: StreamReader,
    /// Keeps the session in use while its client reads.
    _session: InUse,
    is_to_be_primed: bool,
    is_over: bool,
}

impl Events {
    /// The rest of a stream.
    pub(super) const fn replay(reader: StreamReader, session: InUse, is_to_be_primed: bool) -> Self {
        Self::Replay(Replay { reader, _session: session, is_to_be_primed, is_over: false })
    }

    /// The next event; `None` at the end.
    ///
    /// # Cancel safety
    /// An event may be lost: go on with the same future.
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
                    message = session.next_aside() => Some(event(&message)),
                    change = session.subscription.next() => Some(event(&change_notification(&change, None))),
                }
            }
        }
    }

    /// What is said at the end if they are a subscription.
    pub(super) const fn take_farewell(&mut self) -> Option<Farewell> {
        if let Self::Exchange { farewell, .. } = self { farewell.take() } else { None }
    }

    /// Whether they come to an end by themselves.
    pub(super) const fn is_finite(&self) -> bool {
        match self {
            Self::Exchange { farewell, .. } => farewell.is_none(),
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

/// An event without a message: a client that has seen it can come back for what follows.
fn only_id(id: EventId) -> Event {
    Event::data("").with_id(&id.to_string())
}

/// The id that the standalone stream begins with. What is told there is noted with the session until it is
/// sent, so a client that comes back with it just listens again.
const STANDALONE_EVENT_ID: &str = "0-0";
