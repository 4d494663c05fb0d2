//! Event streams that clients can resume (`Last-Event-ID`).

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_net::{Admitted, LogLimit};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::DroppedMessages;
use crate::shares::{Holder, LimitReached, Share, Shares};

/// The event streams that one session remembers.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    inner: Mutex<Inner>,
    /// Counts the messages that no reader took before they were forgotten.
    dropped: Option<Arc<DroppedMessages>>,
    /// Bytes of all streams, including forgotten streams that handlers still write to.
    bytes: Arc<AtomicUsize>,
    /// The limit that the sessions of all callers share, if there is one.
    limit: Option<Arc<EventBytes>>,
}

/// Counts the bytes of the events that the sessions of one caller remember.
#[derive(Debug)]
struct EventBytes {
    shares: Arc<Shares>,
    holder: Holder,
}

#[derive(Default, Debug)]
struct Inner {
    last: u64,
    streams: VecDeque<Arc<EventStream>>,
}

/// The events of one stream that are still remembered.
#[derive(Debug)]
pub(crate) struct EventStream {
    number: u64,
    state: Mutex<State>,
    changed: Notify,
    /// Notified when a reader has taken an event or was dropped.
    read: Notify,
    /// Bytes of all streams of the session.
    session_bytes: Arc<AtomicUsize>,
    limit: Option<Arc<EventBytes>>,
    dropped: Option<Arc<DroppedMessages>>,
}

/// An event that was sent on a stream.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// The position in the stream, starting at 1.
    pub(crate) number: u64,
    pub(crate) kind: EventKind,
}

#[derive(Clone, Debug)]
pub(crate) enum EventKind {
    /// A message before the answer.
    Message(Arc<[u8]>),
    /// The answer to the request. It is the last event of the stream.
    Answer(Arc<[u8]>),
    /// The end of the connection. The client reconnects after this time for the following events.
    Disconnect(Duration),
}

#[derive(Default, Debug)]
struct State {
    events: VecDeque<Event>,
    last: u64,
    bytes: usize,
    /// Number of bytes that count against the limit of all sessions.
    counted: usize,
    share: Option<Share>,
    /// `true` once that limit was reached. The stream then keeps events for its current reader only, and no
    /// client can resume it.
    is_forgotten: bool,
    is_ended: bool,
    /// The number of the latest event that any reader has taken.
    taken: u64,
    /// Number of messages that were forgotten before a reader took them.
    dropped: u64,
    /// The connection that the stream is sent on. If there are several, only the latest counts: the client
    /// opened it because the others broke.
    reader: Option<Pace>,
    last_reader: u64,
}

/// The progress of a reader.
#[derive(Debug)]
struct Pace {
    reader: u64,
    last: u64,
}

/// A client that reads a stream. While a reader exists, the stream waits for it.
#[derive(Debug)]
pub(crate) struct StreamReader {
    stream: Arc<EventStream>,
    number: u64,
    last: u64,
}

/// Identifies an event of a session by its stream and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) event: u64,
}

impl Streams {
    /// Returns the streams of a session that counts its dropped messages in `dropped`.
    pub(crate) fn with_dropped_count(dropped: Arc<DroppedMessages>) -> Self {
        Self { dropped: Some(dropped), ..Self::default() }
    }

    /// Limits the events that are remembered. They count against `shares` as those of `holder`.
    pub(super) fn limit(&mut self, shares: Arc<Shares>, holder: Holder) {
        self.limit = Some(Arc::new(EventBytes { shares, holder }));
    }

    /// Begins a stream.
    pub(crate) fn begin(&self) -> Arc<EventStream> {
        let mut inner = self.lock();
        inner.last += 1;
        let stream = Arc::new(EventStream {
            number: inner.last,
            state: Mutex::default(),
            changed: Notify::new(),
            read: Notify::new(),
            session_bytes: self.bytes.clone(),
            limit: self.limit.clone(),
            dropped: self.dropped.clone(),
        });
        while inner.streams.len() >= STREAMS_MAX || self.bytes.load(Ordering::Relaxed) > STREAMS_BYTES_MAX {
            if inner.streams.pop_front().is_none() {
                break;
            }
        }
        inner.streams.push_back(stream.clone());
        stream
    }

    /// Forgets a stream that no client can resume, because none of its events was sent.
    pub(crate) fn forget(&self, stream: &EventStream) {
        self.lock().streams.retain(|other| other.number != stream.number);
    }

    /// Returns the stream if it is still remembered.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<EventStream>> {
        let stream = self.lock().streams.iter().find(|stream| stream.number == number).cloned();
        stream.filter(|stream| !stream.lock().is_forgotten)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventBytes {
    /// Takes `bytes` bytes from the limit.
    ///
    /// # Errors
    /// The limit or the caller's share of it is reached.
    fn take(&self, bytes: usize) -> Result<Option<Share>, LimitReached> {
        if bytes == 0 { Ok(None) } else { self.shares.take(&self.holder, bytes).map(Some) }
    }
}

impl EventStream {
    /// Returns the id of event `event` of this stream.
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

    /// Adds an event.
    ///
    /// Waits if the event would displace one that the current reader has not read. It waits for at most
    /// `wait_left`, and reduces `wait_left` by the time that it waited. This bound keeps a slow reader from
    /// blocking a handler forever.
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

    /// Adds an event. Forgets the oldest events of this stream if the stream, its session or all sessions
    /// remember too many bytes.
    pub(crate) fn push(&self, kind: EventKind) {
        let mut state = self.lock();
        state.last += 1;
        state.bytes += kind.bytes();
        self.session_bytes.fetch_add(kind.bytes(), Ordering::Relaxed);
        let event = Event { number: state.last, kind };
        state.events.push_back(event);
        let dropped = state.dropped;
        while state.events.len() > EVENTS_MAX || (state.events.len() > 1 && self.has_too_much(&state)) {
            self.forget_first(&mut state);
        }
        self.count(&mut state);
        let dropped = state.dropped - dropped;
        drop(state);
        self.note_dropped(dropped);
        self.changed.notify_waiters();
    }

    fn forget_first(&self, state: &mut State) {
        if let Some(forgotten) = state.events.pop_front() {
            state.dropped += u64::from(forgotten.number > state.taken);
            state.bytes -= forgotten.kind.bytes();
            self.session_bytes.fetch_sub(forgotten.kind.bytes(), Ordering::Relaxed);
        }
    }

    /// Counts the events against the limit of all sessions. If the limit is reached, marks the stream as
    /// forgotten.
    fn count(&self, state: &mut State) {
        let counted = state.bytes - state.bytes % COUNTED_STEP;
        if let Some(limit) = &self.limit
            && !state.is_forgotten
            && counted != state.counted
        {
            state.counted = counted;
            state.share = None;
            match limit.take(counted) {
                Ok(share) => state.share = share,
                Err(refusal) => {
                    state.is_forgotten = true;
                    log_forgotten(refusal);
                }
            }
        }
        self.forget_read(state);
    }

    /// Removes the events of a forgotten stream that its current reader has read, or all events if there is
    /// no reader.
    fn forget_read(&self, state: &mut State) {
        let last = state.reader.as_ref().map_or(u64::MAX, |pace| pace.last);
        while state.is_forgotten && state.events.front().is_some_and(|event| event.number <= last) {
            self.forget_first(state);
        }
    }

    fn note_dropped(&self, dropped: u64) {
        if let Some(counter) = &self.dropped {
            counter.note(dropped, "a client does not read the event stream of its request");
        }
    }

    fn has_too_much(&self, state: &State) -> bool {
        state.bytes > EVENTS_BYTES_MAX || self.session_bytes.load(Ordering::Relaxed) > SESSION_BYTES_MAX
    }

    /// Marks the stream as complete: no more events follow.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_ended = true;
        if state.dropped > 0 && self.dropped.is_none() {
            tracing::debug!(
                dropped = state.dropped,
                "dropped messages of a request: the client does not read its stream"
            );
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns the first event after event `event`. Returns `None` if the stream ended without one.
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
    /// Returns the next event without taking it. Returns `None` at the end of the stream.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub(crate) async fn peek(&self) -> Option<Event> {
        self.stream.next_after(self.last).await
    }

    /// Takes the next event. Returns `None` at the end of the stream.
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
        self.stream.forget_read(&mut state);
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
        let dropped = state.dropped;
        self.stream.forget_read(&mut state);
        let dropped = state.dropped - dropped;
        drop(state);
        self.stream.note_dropped(dropped);
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
            Self::Message(data) | Self::Answer(data) => data.len(),
            Self::Disconnect(_) => 0,
        }
    }
}

/// Logs that the limit of all sessions is reached, at a limited rate.
fn log_forgotten(refusal: LimitReached) {
    static LIMIT: LogLimit = LogLimit::new();
    let sessions = match refusal {
        LimitReached::Full => "all sessions",
        LimitReached::HolderHasShare => "the sessions of this caller",
    };
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::warn!(
            suppressed,
            "cannot keep an event stream for reconnection: the remembered events of {sessions} have \
             too many bytes; increase `in_flight_bytes_max` to keep more"
        );
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

/// Maximum number of streams that a session remembers.
const STREAMS_MAX: usize = 16;

/// Maximum number of bytes of all older streams of a session when a new stream begins.
const STREAMS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of events that a stream remembers.
const EVENTS_MAX: usize = 256;

/// Maximum number of events that wait for a client that reads the stream.
const UNREAD_MAX: usize = 64;

/// Maximum number of bytes that a stream remembers. A single event may be larger.
const EVENTS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of bytes that all streams of a session remember, without the last event of each stream.
/// Includes up to a thousand streams without a client, while their handlers continue. The limit
/// of all sessions counts every event.
const SESSION_BYTES_MAX: usize = 4 << 20;

/// Step in which the bytes of a stream count against the limit of all sessions. Short answers do not reach
/// one step, so they need no lock.
const COUNTED_STEP: usize = 4 << 10;

#[cfg(test)]
mod tests;
