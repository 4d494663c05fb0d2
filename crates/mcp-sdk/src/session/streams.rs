//! Event streams that can be taken up again (`Last-Event-ID`).

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// The event streams of one session that are not forgotten.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    inner: Mutex<Inner>,
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
    /// Octets of all streams of the session.
    session_bytes: Arc<AtomicUsize>,
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
}

/// Tells events of a session apart: which stream, and which event of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) event: u64,
}

impl Streams {
    /// Begins a stream.
    pub(crate) fn begin(&self) -> Arc<EventStream> {
        let mut inner = self.lock();
        inner.last += 1;
        let stream = Arc::new(EventStream::new(inner.last, self.bytes.clone()));
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
    fn new(number: u64, session_bytes: Arc<AtomicUsize>) -> Self {
        Self { number, state: Mutex::default(), changed: Notify::new(), session_bytes }
    }

    /// The id of event `event` of this stream.
    pub(crate) const fn id(&self, event: u64) -> EventId {
        EventId { stream: self.number, event }
    }

    /// Adds an event. The oldest of this stream are forgotten when there are too many, of it or of its session.
    pub(crate) fn push(&self, kind: EventKind) {
        let mut state = self.lock();
        state.last += 1;
        state.bytes += kind.bytes();
        self.session_bytes.fetch_add(kind.bytes(), Ordering::Relaxed);
        let event = Event { number: state.last, kind };
        state.events.push_back(event);
        while state.events.len() > EVENTS_MAX || (state.events.len() > 1 && self.has_too_much(&state)) {
            let forgotten = state.events.pop_front().map_or(0, |event| event.kind.bytes());
            state.bytes -= forgotten;
            self.session_bytes.fetch_sub(forgotten, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn has_too_much(&self, state: &State) -> bool {
        state.bytes > EVENTS_BYTES_MAX || self.session_bytes.load(Ordering::Relaxed) > SESSION_BYTES_MAX
    }

    /// No more events will come.
    pub(crate) fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_waiters();
    }

    /// The first event after `event`; `None` if there is none and none will come.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub(crate) async fn next_after(&self, event: u64) -> Option<Event> {
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

/// How many octets of a stream are remembered; the last event is in any case.
const EVENTS_BYTES_MAX: usize = 1 << 20;

/// How many octets of all streams of a session are remembered, the last event of each apart: also of those that a client has
/// left behind, a thousand at most, whose handlers go on.
const SESSION_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn next_after(stream: &EventStream, event: u64) -> Option<u64> {
        let next = pin!(stream.next_after(event)).poll(&mut Context::from_waker(Waker::noop()));
        match next {
            Poll::Ready(next) => next.map(|event| event.number),
            Poll::Pending => panic!("nothing is there yet"),
        }
    }

    #[test]
    fn a_client_that_was_let_go_goes_on_behind_that() {
        let stream = EventStream::new(1, Arc::default());
        stream.push(EventKind::Message(b"before".as_slice().into()));
        stream.push(EventKind::Disconnect(Duration::ZERO));
        stream.push(EventKind::Answer(b"after".as_slice().into()));
        stream.end();
        assert_eq!((next_after(&stream, 0), next_after(&stream, 1)), (Some(1), Some(2)));
        assert_eq!((next_after(&stream, 2), next_after(&stream, 3)), (Some(3), None));
    }

    #[test]
    fn what_all_streams_of_a_session_remember_is_bounded() {
        let streams = Streams::default();
        for _ in 0..100 {
            let stream = streams.begin();
            stream.push(EventKind::Answer(vec![b'x'; 600 << 10].into()));
            stream.end();
        }
        let bytes = streams.bytes.load(Ordering::Relaxed);
        assert!(bytes <= STREAMS_BYTES_MAX + (600 << 10), "{bytes}");
        assert_eq!(streams.lock().streams.back().map(|stream| stream.number), Some(100));
    }

    /// A client could begin a thousand requests and leave them: each of them kept 1 MiB of what its handler said.
    #[test]
    fn what_a_client_has_left_behind_is_bounded_too() {
        let streams = Streams::default();
        let left: Vec<_> = (0..1000).map(|_| streams.begin()).collect();
        for stream in left.iter().cycle().take(10_000) {
            stream.push(EventKind::Message(vec![b'x'; 64 << 10].into()));
        }
        let bytes = streams.bytes.load(Ordering::Relaxed);
        let last = left.len() * (64 << 10);
        assert!(bytes <= SESSION_BYTES_MAX + last, "{bytes}");
        assert_eq!(next_after(&left[0], 9), Some(10), "the last event is there");
        drop((left, std::mem::take(&mut streams.lock().streams)));
        assert_eq!(streams.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_oldest_streams_are_forgotten() {
        let streams = Streams::default();
        for _ in 0..=STREAMS_MAX {
            streams.begin();
        }
        assert!(streams.find(1).is_none() && streams.find(2).is_some());
        let second = streams.find(2).unwrap();
        streams.forget(&second);
        assert!(streams.find(2).is_none() && streams.find(3).is_some());
    }
}
