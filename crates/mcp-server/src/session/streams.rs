//! Event streams that clients can resume with `Last-Event-ID`.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use thruway_mcp::schema::RequestId;
use thruway_net::{Admitted, LogLimit};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::DroppedMessages;
use super::event_archive::{SessionArchive, StreamArchive};
use crate::shares::{Holder, LimitReached, Share, Shares};

/// The event streams that a session stores, so that its client can reconnect and resume them.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    inner: Mutex<Inner>,
    /// Counts the messages that were discarded before a reader took them.
    dropped: Option<Arc<DroppedMessages>>,
    /// Size of all stored events, including events of discarded streams to which handlers still write.
    bytes: Arc<AtomicUsize>,
    /// The limit that all sessions share, if any.
    limit: Option<Arc<EventBytes>>,
    /// Stores the events outside of this process, if requested.
    archive: OnceLock<Arc<SessionArchive>>,
}

/// Counts the bytes of the events that the sessions of one caller store.
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

/// The stored events of one stream.
#[derive(Debug)]
pub(crate) struct EventStream {
    number: u64,
    state: Mutex<State>,
    changed: Notify,
    /// Wakes senders when a reader takes an event, when a reader is dropped, and when a new reader replaces
    /// it.
    read: Notify,
    /// Size of all stored events of the session.
    session_bytes: Arc<AtomicUsize>,
    limit: Option<Arc<EventBytes>>,
    dropped: Option<Arc<DroppedMessages>>,
    archive: Option<StreamArchive>,
}

/// An event of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// The position of the event in its stream, starting at 1.
    pub(crate) number: u64,
    pub(crate) kind: EventKind,
}

#[derive(Clone, Debug)]
pub(crate) enum EventKind {
    /// A message before the answer.
    Message(Arc<[u8]>),
    /// The answer to the request. It is the last event of the stream.
    Answer(Arc<[u8]>),
    /// The end of the HTTP response. After this duration, the client reconnects to get the next events.
    Disconnect(Duration),
}

#[derive(Default, Debug)]
struct State {
    events: VecDeque<Event>,
    last: u64,
    bytes: usize,
    /// Number of bytes of this stream that count against the limit of all sessions.
    counted: usize,
    share: Option<Share>,
    /// `true` after the limit of all sessions was reached. The stream then stores only the events that its
    /// current reader has not taken yet, so no client can resume the stream.
    is_forgotten: bool,
    is_ended: bool,
    /// Number of the latest event that any reader has taken.
    taken: u64,
    /// Number of messages that were discarded before a reader took them.
    dropped: u64,
    /// The reader of the client's latest connection. Senders wait only for this reader. A client opens a
    /// new connection when its previous connection is broken, so the previous reader may never read again.
    reader: Option<Pace>,
    last_reader: u64,
}

/// The current reader, and its position in the stream.
#[derive(Debug)]
struct Pace {
    reader: u64,
    last: u64,
}

/// A reader of a stream, for one connection of the client. If the stream is full, senders wait for the
/// current reader.
#[derive(Debug)]
pub(crate) struct StreamReader {
    stream: Arc<EventStream>,
    number: u64,
    last: u64,
}

/// Identifies an event of a session: the number of the stream, and the number of the event in this stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) event: u64,
}

impl Streams {
    /// Returns an empty set of streams that counts dropped messages in `dropped`.
    pub(crate) fn with_dropped_count(dropped: Arc<DroppedMessages>) -> Self {
        Self { dropped: Some(dropped), ..Self::default() }
    }

    /// Limits the events that the session stores. The events count toward the limit `shares`, and toward the
    /// share of the caller `holder`.
    pub(super) fn limit(&mut self, shares: Arc<Shares>, holder: Holder) {
        self.limit = Some(Arc::new(EventBytes { shares, holder }));
    }

    /// Stores the events of later streams in `archive`.
    pub(super) fn archive(&self, archive: SessionArchive) {
        self.archive.get_or_init(|| Arc::new(archive));
    }

    /// Begins a stream that answers the request `request`. If the archive of the session is set, it stores the events.
    pub(crate) fn begin_for(&self, request: &RequestId) -> Arc<EventStream> {
        let archive = self.archive.get();
        self.begin_with(
            archive.map(|session| StreamArchive { session: session.clone(), request: request.clone() }),
        )
    }

    /// Begins a stream. If the session stores too many streams or bytes, discards the oldest streams.
    pub(crate) fn begin(&self) -> Arc<EventStream> {
        self.begin_with(None)
    }

    fn begin_with(&self, archive: Option<StreamArchive>) -> Arc<EventStream> {
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
            archive,
        });
        while inner.streams.len() >= STREAMS_MAX || self.bytes.load(Ordering::Relaxed) > STREAMS_BYTES_MAX {
            if inner.streams.pop_front().is_none() {
                break;
            }
        }
        inner.streams.push_back(stream.clone());
        stream
    }

    /// Discards a stream from which the client has received no event. The client cannot resume such a stream,
    /// because it knows no event id.
    pub(crate) fn forget(&self, stream: &EventStream) {
        self.lock().streams.retain(|other| other.number != stream.number);
    }

    /// Returns the stream `number`. Returns `None` if the session does not store this stream, or if no
    /// client can resume the stream.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<EventStream>> {
        let stream = self.lock().streams.iter().find(|stream| stream.number == number).cloned();
        stream.filter(|stream| !stream.lock().is_forgotten)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventBytes {
    /// Takes `bytes` bytes of the limit that all sessions share.
    ///
    /// # Errors
    /// Returns an error if the limit, or the caller's share of this limit, is reached.
    fn take(&self, bytes: usize) -> Result<Option<Share>, LimitReached> {
        if bytes == 0 { Ok(None) } else { self.shares.take(&self.holder, bytes).map(Some) }
    }
}

impl EventStream {
    /// Returns the id of the event with the number `event` in this stream.
    pub(crate) const fn id(&self, event: u64) -> EventId {
        EventId { stream: self.number, event }
    }

    /// Returns a reader that begins after the event with the number `after`. The new reader replaces the
    /// current reader.
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
    /// Waits while the event would displace an event that the current reader has not read. The wait lasts
    /// at most `wait_left`. Afterwards, `wait_left` is reduced by the duration of the wait. So a slow
    /// reader cannot block a handler forever.
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

    /// Returns `true` if the stream has capacity for an event of `bytes` bytes. The stream has no capacity
    /// if the event would displace an event that the current reader has not read.
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

    /// Adds an event without waiting. If the stream or its session has reached its limit, discards the oldest
    /// events of this stream. If all sessions together have reached their limit, no client can resume this
    /// stream anymore.
    pub(crate) fn push(&self, kind: EventKind) {
        let mut state = self.lock();
        state.last += 1;
        state.bytes += kind.bytes();
        self.session_bytes.fetch_add(kind.bytes(), Ordering::Relaxed);
        if let Some(archive) = &self.archive {
            // The lock keeps the order of the events.
            match &kind {
                EventKind::Message(data) => archive.append(self.number, state.last, false, data),
                EventKind::Answer(data) => archive.append(self.number, state.last, true, data),
                EventKind::Disconnect(_) => {}
            }
        }
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

    /// Counts the events toward the limit of all sessions. If this limit is reached, no client can resume
    /// this stream anymore.
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

    /// Discards events of a stream that no client can resume: the events that the current reader has taken,
    /// or all events if the stream has no reader.
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

    /// Returns the first event after the event with the number `event`. Waits for this event if necessary.
    /// Returns `None` if the stream ends first.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
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
    /// Dropping the future loses no event.
    pub(crate) async fn peek(&self) -> Option<Event> {
        self.stream.next_after(self.last).await
    }

    /// Takes the next event. Returns `None` at the end of the stream.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
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

    /// Returns the id of the event that this reader took last.
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

/// Logs that the limit of all sessions is reached. The rate of these log lines is limited.
fn log_forgotten(refusal: LimitReached) {
    static LIMIT: LogLimit = LogLimit::new();
    let sessions = match refusal {
        LimitReached::Full => "all sessions",
        LimitReached::HolderHasShare => "the sessions of this caller",
    };
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::warn!(
            suppressed,
            "cannot store an event stream for a client that reconnects: the stored events of {sessions} have \
             reached the limit on their total size; increase `in_flight_bytes_max` to keep more"
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

/// Maximum number of streams that a session stores.
const STREAMS_MAX: usize = 16;

/// Maximum total size of the older streams of a session when a new stream begins, in bytes.
const STREAMS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of events that a stream stores.
const EVENTS_MAX: usize = 256;

/// Maximum number of events that wait for the current reader of a stream.
const UNREAD_MAX: usize = 64;

/// Maximum number of bytes that a stream stores. A single event may be larger.
const EVENTS_BYTES_MAX: usize = 1 << 20;

/// Maximum total size of the events that a session stores, in bytes. The last event of each stream does not
/// count toward this maximum, but it counts toward the limit of all sessions. Streams without a reader count
/// too, because up to 1000 handlers may still write to such streams.
const SESSION_BYTES_MAX: usize = 4 << 20;

/// Streams count toward the limit of all sessions in steps of this number of bytes. A short answer does not
/// reach the first step, so it does not lock the shared limit.
const COUNTED_STEP: usize = 4 << 10;

#[cfg(test)]
mod tests;
