//! Event streams that can be taken up again (`Last-Event-ID`).

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::client::DroppedMessages;

/// The event streams of one session that are not forgotten.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    inner: Mutex<Inner>,
    /// Behind a bridge: counts the messages that no reader has taken.
    dropped: Option<Arc<DroppedMessages>>,
    /// Octets of all streams that are there, the forgotten ones that handlers still write to among them.
    bytes: Arc<AtomicUsize>,
}

#[derive(Default, Debug)]
struct Inner {
    last: u64,
    streams: VecDeque<Arc<EventStream>>,
}

/// What was sent on one stream, as far as it is remembered.
#[derive(Debug)]
pub(crate) struct EventStream {
    number: u64,
    state: Mutex<State>,
    changed: Notify,
    /// A reader has taken an event, or has gone.
    read: Notify,
    /// Octets of all streams of the session.
    session_bytes: Arc<AtomicUsize>,
    dropped: Option<Arc<DroppedMessages>>,
}

/// Something that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Its place in the stream, from 1.
    pub(crate) number: u64,
    pub(crate) kind: EventKind,
}

#[derive(Clone, Debug)]
pub(crate) enum EventKind {
    /// A message before the answer.
    Message(Arc<[u8]>),
    /// The answer to the request, which is the last.
    Answer(Arc<[u8]>),
    /// The connection ends here, and the client comes back after this time for what follows.
    Disconnect(Duration),
}

#[derive(Default, Debug)]
struct State {
    events: VecDeque<Event>,
    last: u64,
    bytes: usize,
    is_ended: bool,
    /// The last event that any reader has taken.
    taken: u64,
    /// Number of messages that were forgotten before a reader took them.
    dropped: u64,
    /// The connection that the stream is sent on. If there are several, the client opened the latest because
    /// the others broke, so the latest sets the pace.
    reader: Option<Pace>,
    last_reader: u64,
}

/// How far a reader has come.
#[derive(Debug)]
struct Pace {
    reader: u64,
    last: u64,
}

/// A client that is being sent a stream. While there is one, the stream waits for it.
#[derive(Debug)]
pub(crate) struct StreamReader {
    stream: Arc<EventStream>,
    number: u64,
    last: u64,
}

/// Tells events of a session apart: which stream, and which event of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) event: u64,
}

impl Streams {
    /// Returns the streams of a session behind a bridge, whose dropped messages count.
    pub(crate) fn behind_bridge(dropped: Arc<DroppedMessages>) -> Self {
        Self { dropped: Some(dropped), ..Self::default() }
    }

    /// Begins a stream.
    pub(crate) fn begin(&self) -> Arc<EventStream> {
        let mut inner = self.lock();
        inner.last += 1;
        let stream = Arc::new(EventStream::new(inner.last, self.bytes.clone(), self.dropped.clone()));
        while inner.streams.len() >= STREAMS_MAX || self.bytes.load(Ordering::Relaxed) > STREAMS_BYTES_MAX {
            if inner.streams.pop_front().is_none() {
                break;
            }
        }
        inner.streams.push_back(stream.clone());
        stream
    }

    /// Forgets a stream that nobody can take up again, because no event of it was sent.
    pub(crate) fn forget(&self, stream: &EventStream) {
        self.lock().streams.retain(|other| other.number != stream.number);
    }

    /// The stream, if it is remembered.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<EventStream>> {
        self.lock().streams.iter().find(|stream| stream.number == number).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStream {
    fn new(number: u64, session_bytes: Arc<AtomicUsize>, dropped: Option<Arc<DroppedMessages>>) -> Self {
        let (changed, read) = (Notify::new(), Notify::new());
        Self { number, state: Mutex::default(), changed, read, session_bytes, dropped }
    }

    /// The id of event `event` of this stream.
    pub(crate) const fn id(&self, event: u64) -> EventId {
        EventId { stream: self.number, event }
    }

    /// Returns a reader of the events after event `after`.
    pub(crate) fn read_after(self: &Arc<Self>, after: u64) -> StreamReader {
        let mut state = self.lock();
        state.last_reader += 1;
        let number = state.last_reader;
        state.reader = Some(Pace { reader: number, last: after });
        drop(state);
        self.read.notify_waiters();
        StreamReader { stream: self.clone(), number, last: after }
    }

    /// Adds an event. Waits while a client reads the stream and an event would be forgotten that it has not
    /// read, for at most `wait_left`, which it reduces by the time that it waited: a client that reads a little
    /// now and then must not keep a handler for ever.
    pub(crate) async fn send(&self, kind: EventKind, wait_left: &mut Duration) {
        let end = Instant::now() + *wait_left;
        loop {
            let read = self.read.notified();
            if self.has_capacity(kind.bytes()) || timeout_at(end, read).await.is_err() {
                break;
            }
        }
        *wait_left = end.saturating_duration_since(Instant::now());
        self.push(kind);
    }

    /// Returns `true` if an event of `bytes` bytes displaces no event that the current reader has not read.
    fn has_capacity(&self, bytes: usize) -> bool {
        let state = self.lock();
        let Some(pace) = &state.reader else { return true };
        let unread = state.events.iter().rev().take_while(|event| event.number > pace.last);
        let (count, unread_bytes) =
            unread.fold((0, 0), |(count, bytes), event| (count + 1, bytes + event.kind.bytes()));
        let read_bytes = state.bytes - unread_bytes;
        let session_bytes = self.session_bytes.load(Ordering::Relaxed).saturating_sub(read_bytes);
        count == 0
            || (count < UNREAD_MAX
                && unread_bytes + bytes <= EVENTS_BYTES_MAX
                && session_bytes + bytes <= SESSION_BYTES_MAX)
    }

    /// Adds an event. The oldest of this stream are forgotten when there are too many, of it or of its session.
    pub(crate) fn push(&self, kind: EventKind) {
        let mut state = self.lock();
        state.last += 1;
        state.bytes += kind.bytes();
        self.session_bytes.fetch_add(kind.bytes(), Ordering::Relaxed);
        let event = Event { number: state.last, kind };
        state.events.push_back(event);
        let dropped = state.dropped;
        while state.events.len() > EVENTS_MAX || (state.events.len() > 1 && self.has_too_much(&state)) {
            let Some(forgotten) = state.events.pop_front() else { break };
            state.dropped += u64::from(forgotten.number > state.taken);
            state.bytes -= forgotten.kind.bytes();
            self.session_bytes.fetch_sub(forgotten.kind.bytes(), Ordering::Relaxed);
        }
        let dropped = state.dropped - dropped;
        drop(state);
        if let Some(counter) = &self.dropped {
            counter.note(dropped, "a client does not read the event stream of its request");
        }
        self.changed.notify_waiters();
    }

    fn has_too_much(&self, state: &State) -> bool {
        state.bytes > EVENTS_BYTES_MAX || self.session_bytes.load(Ordering::Relaxed) > SESSION_BYTES_MAX
    }

    /// No more events will come.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_ended = true;
        if state.dropped > 0 && self.dropped.is_none() {
            tracing::debug!(
                dropped = state.dropped,
                "dropped messages of a request whose client does not read"
            );
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The first event after `event`; `None` if there is none and none will come.
    ///
    /// # Cancel safety
    /// No event is lost.
    async fn next_after(&self, event: u64) -> Option<Event> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                if let Some(next) = state.events.iter().find(|next| next.number > event) {
                    return Some(next.clone());
                }
                if state.is_ended {
                    return None;
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamReader {
    /// Returns the next event, which is still the next one afterwards; `None` if none will come.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub(crate) async fn peek(&self) -> Option<Event> {
        self.stream.next_after(self.last).await
    }

    /// Takes the next event; `None` if none will come.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let event = self.peek().await?;
        self.last = event.number;
        let mut state = self.stream.lock();
        state.taken = state.taken.max(event.number);
        if let Some(pace) = state.reader.as_mut().filter(|pace| pace.reader == self.number) {
            pace.last = event.number;
        }
        drop(state);
        self.stream.read.notify_waiters();
        Some(event)
    }

    /// Returns the id of the event that was taken last.
    pub(crate) fn last_id(&self) -> EventId {
        self.stream.id(self.last)
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        if state.reader.as_ref().is_some_and(|pace| pace.reader == self.number) {
            state.reader = None;
        }
        drop(state);
        self.stream.read.notify_waiters();
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.session_bytes.fetch_sub(self.lock().bytes, Ordering::Relaxed);
    }
}

impl EventKind {
    fn bytes(&self) -> usize {
        match self {
            Self::Message(octets) | Self::Answer(octets) => octets.len(),
            Self::Disconnect(_) => 0,
        }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.event)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (stream, event) = text.split_once('-').ok_or(())?;
        Ok(Self { stream: stream.parse().map_err(drop)?, event: event.parse().map_err(drop)? })
    }
}

/// How many streams of a session are remembered.
const STREAMS_MAX: usize = 16;

/// How many octets of all streams are remembered when another begins.
const STREAMS_BYTES_MAX: usize = 1 << 20;

/// How many events of a stream are remembered.
const EVENTS_MAX: usize = 256;

/// Number of events that wait for a client that reads the stream.
const UNREAD_MAX: usize = 64;

/// How many octets of a stream are remembered; the last event is in any case.
const EVENTS_BYTES_MAX: usize = 1 << 20;

/// How many octets of all streams of a session are remembered, the last event of each apart: also of those that a client has
/// left behind, a thousand at most, whose handlers go on.
const SESSION_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests;
