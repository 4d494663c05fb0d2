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
    let stream = Streams::default().begin();
    stream.push(EventKind::Message(b"before".as_slice().into()));
    stream.push(EventKind::Disconnect(Duration::ZERO));
    stream.push(EventKind::Answer(b"after".as_slice().into()));
    stream.end();
    assert_eq!((next_after(&stream, 0), next_after(&stream, 1)), (Some(1), Some(2)));
    assert_eq!((next_after(&stream, 2), next_after(&stream, 3)), (Some(3), None));
}

fn is_sent(stream: &EventStream) -> bool {
    let kind = EventKind::Message(b"m".as_slice().into());
    pin!(stream.send(kind, &mut Duration::from_mins(5)))
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

fn read(reader: &mut StreamReader) -> Option<u64> {
    match pin!(reader.next()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => event.map(|event| event.number),
        Poll::Pending => None,
    }
}

/// A client that read an event now and then could block a handler forever: the call's timeout was not checked
/// while the handler waited.
#[tokio::test(start_paused = true)]
async fn a_handler_waits_for_a_slow_reader_for_a_limited_time_in_all() {
    let streams = Streams::default();
    let stream = streams.begin();
    let _reader = stream.read_after(0);
    let mut wait_left = Duration::from_mins(5);
    let began = Instant::now();
    for _ in 0..1000 {
        stream.send(EventKind::Message(b"m".as_slice().into()), &mut wait_left).await;
    }
    assert_eq!((began.elapsed(), wait_left), (Duration::from_mins(5), Duration::ZERO));
}

/// A burst of messages displaced unread messages of a reading client: it got 256 of 1,000.
#[tokio::test(start_paused = true)]
async fn no_event_is_forgotten_before_a_client_that_reads_has_read_it() {
    let streams = Streams::default();
    let stream = streams.begin();
    let mut reader = stream.read_after(0);
    let mut received = Vec::new();
    for _ in 0..1000 {
        while !is_sent(&stream) {
            received.extend(read(&mut reader));
        }
    }
    assert!(stream.lock().events.len() <= EVENTS_MAX);
    received.extend(std::iter::from_fn(|| read(&mut reader)));
    assert_eq!(received, (1..=1000).collect::<Vec<_>>());
    assert_eq!(stream.lock().dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_reads_keeps_the_latest_events() {
    let streams = Streams::default();
    let stream = streams.begin();
    let reader = stream.read_after(0);
    assert!((0..UNREAD_MAX).all(|_| is_sent(&stream)) && !is_sent(&stream));
    drop(reader);
    assert!((0..1000).all(|_| is_sent(&stream)));
    assert_eq!(stream.lock().dropped, (UNREAD_MAX + 1000 - EVENTS_MAX) as u64);
}

/// Such messages were neither counted nor logged.
#[test]
fn a_bridge_counts_the_messages_that_no_client_has_read() {
    let dropped = Arc::<DroppedMessages>::default();
    let stream = Streams::with_dropped_count(dropped.clone()).begin();
    let mut reader = stream.read_after(0);
    for _ in 0..EVENTS_MAX + 10 {
        stream.push(EventKind::Message(b"m".as_slice().into()));
    }
    assert_eq!(dropped.count(), 10);
    while read(&mut reader).is_some() {}
    for _ in 0..EVENTS_MAX {
        stream.push(EventKind::Message(b"m".as_slice().into()));
    }
    assert_eq!(dropped.count(), 10, "the client has read the others");
}

/// After a client reconnects, its old connection may seem open for a long time.
#[tokio::test(start_paused = true)]
async fn the_latest_reader_sets_the_pace() {
    let streams = Streams::default();
    let stream = streams.begin();
    let broken = stream.read_after(0);
    assert!((0..UNREAD_MAX).all(|_| is_sent(&stream)));
    let mut reader = stream.read_after(0);
    while read(&mut reader).is_some() {}
    drop(broken);
    assert!((0..UNREAD_MAX).all(|_| is_sent(&stream)) && !is_sent(&stream));
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

/// A client could begin a thousand requests and disconnect. Each of them kept 1 MiB of its handler's
/// messages.
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

fn limited(shares: &Arc<Shares>, name: &str) -> Streams {
    let mut streams = Streams::default();
    streams.limit(shares.clone(), Holder::new(Some(name.to_owned()), None));
    streams
}

fn send(stream: &EventStream, bytes: usize) {
    stream.push(EventKind::Answer(vec![b'x'; bytes].into()));
}

/// The last event of each stream was kept at any size, and no limit counted it: 30 idle sessions used 176 MB.
#[test]
fn the_events_of_all_sessions_count_against_one_limit() {
    let shares = Shares::new(1 << 20);
    let sessions: Vec<_> = (0..30).map(|n| limited(&shares, &n.to_string())).collect();
    let remembered = |streams: &Streams| streams.find(1).is_some();
    for streams in &sessions {
        let stream = streams.begin();
        let mut reader = stream.read_after(0);
        send(&stream, 300 << 10);
        assert_eq!(read(&mut reader), Some(1), "a connected client gets every event");
    }
    assert_eq!(sessions.iter().filter(|streams| remembered(streams)).count(), 3);
    let bytes: usize = sessions.iter().map(|streams| streams.bytes.load(Ordering::Relaxed)).sum();
    assert_eq!(bytes, 3 * (300 << 10));
    drop(sessions);
    let streams = limited(&shares, "ada");
    send(&streams.begin(), 1 << 20);
    assert!(remembered(&streams), "sessions that have ended give their bytes back");
}

#[test]
fn one_caller_leaves_remembered_bytes_for_others() {
    let shares = Shares::new(1 << 20);
    let [ada, bob] = ["ada", "bob"].map(|name| limited(&shares, name));
    let streams: Vec<_> = (0..4).map(|_| ada.begin()).collect();
    for stream in &streams {
        send(stream, 250 << 10);
    }
    assert_eq!((1..=4).filter(|number| ada.find(*number).is_some()).count(), 2);
    send(&bob.begin(), 250 << 10);
    assert!(bob.find(1).is_some());
}

#[test]
fn a_forgotten_stream_keeps_unread_events_until_its_reader_is_gone() {
    let dropped = Arc::<DroppedMessages>::default();
    let mut streams = Streams::with_dropped_count(dropped.clone());
    streams.limit(Shares::new(8 << 10), Holder::Unknown);
    let stream = streams.begin();
    let mut reader = stream.read_after(0);
    (0..3).for_each(|_| send(&stream, 4 << 10));
    assert!(streams.find(1).is_none());
    assert_eq!(read(&mut reader), Some(1));
    assert_eq!(streams.bytes.load(Ordering::Relaxed), 8 << 10, "the reader needs the other two");
    assert_eq!(read(&mut reader), Some(2));
    drop(reader);
    assert_eq!((streams.bytes.load(Ordering::Relaxed), dropped.count()), (0, 1));
    send(&stream, 1);
    assert_eq!((streams.bytes.load(Ordering::Relaxed), dropped.count()), (0, 2));
}

/// Most answers are short, and all sessions share one lock for the limit.
#[test]
fn a_small_stream_is_remembered_whatever_the_limit() {
    let streams = limited(&Shares::new(1), "ada");
    send(&streams.begin(), COUNTED_STEP - 1);
    assert!(streams.find(1).is_some());
}
