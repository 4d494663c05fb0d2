//! Event streams that can be taken up again (`Last-Event-ID`).

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// The event streams of one session that are not forgotten.
#[derive(Default, Debug)]
pub(crate) struct Streams(Mutex<Inner>);

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
        let stream = Arc::new(EventStream::new(inner.last));
        let mut bytes: usize = inner.streams.iter().map(|stream| stream.lock().bytes).sum();
        while inner.streams.len() >= STREAMS_MAX || bytes > STREAMS_BYTES_MAX {
            let Some(oldest) = inner.streams.pop_front() else { break };
            bytes -= oldest.lock().bytes.min(bytes);
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStream {
    fn new(number: u64) -> Self {
        Self { number, state: Mutex::default(), changed: Notify::new() }
    }

    /// The id of event `event` of this stream.
    pub(crate) const fn id(&self, event: u64) -> EventId {
        EventId { stream: self.number, event }
    }

    /// Adds an event. The oldest are forgotten when there are too many.
    pub(crate) fn push(&self, kind: EventKind) {
        let mut state = self.lock();
        state.last += 1;
        state.bytes += kind.bytes();
        let event = Event { number: state.last, kind };
        state.events.push_back(event);
        while state.events.len() > EVENTS_MAX || (state.bytes > EVENTS_BYTES_MAX && state.events.len() > 1) {
            let forgotten = state.events.pop_front().map_or(0, |event| event.kind.bytes());
            state.bytes -= forgotten;
        }
        drop(state);
        self.changed.notify_waiters();
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
        let stream = EventStream::new(1);
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
        let inner = streams.lock();
        let bytes: usize = inner.streams.iter().map(|stream| stream.lock().bytes).sum();
        assert!(bytes <= STREAMS_BYTES_MAX + (600 << 10), "{bytes}");
        assert_eq!(inner.streams.back().map(|stream| stream.number), Some(100));
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
