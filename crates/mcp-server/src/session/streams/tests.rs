use super::*;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn next_after(stream: &EventStream, event: u64) -> Option<u64> {
    let next = pin!(stream.next_after(event)).poll(&mut Context::from_waker(Waker::noop()));
    match next {
        Poll::Ready(next) => next.map(|event| event.number),
        Poll::Pending => panic!("no event yet"),
    }
}

#[test]
fn disconnected_client_resumes_after_disconnect_event() {
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

/// Regression test: a client that rarely read an event could block a handler forever, because the server did
/// not check the timeout of the call while the handler waited.
#[tokio::test(start_paused = true)]
async fn total_wait_time_for_slow_reader_is_limited() {
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

/// Regression test: a burst of messages displaced unread messages of a reading client. It got 256 of 1,000.
#[tokio::test(start_paused = true)]
async fn reading_client_receives_every_event() {
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
async fn stream_without_reader_keeps_latest_events() {
    let streams = Streams::default();
    let stream = streams.begin();
    let reader = stream.read_after(0);
    assert!((0..UNREAD_MAX).all(|_| is_sent(&stream)) && !is_sent(&stream));
    drop(reader);
    assert!((0..1000).all(|_| is_sent(&stream)));
    assert_eq!(stream.lock().dropped, (UNREAD_MAX + 1000 - EVENTS_MAX) as u64);
}

/// Regression test: the server neither counted nor logged unread messages that it dropped.
#[test]
fn dropped_unread_messages_are_counted() {
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
    assert_eq!(dropped.count(), 10, "messages that the client has read do not count");
}

/// After a client reconnects, its old connection may seem open for a long time.
#[tokio::test(start_paused = true)]
async fn only_latest_reader_slows_down_the_stream() {
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
fn stored_bytes_of_ended_streams_are_limited() {
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

/// Regression test: a client could start a thousand requests and disconnect. The server stored 1 MiB of
/// messages for each of them.
#[test]
fn stored_bytes_of_running_streams_are_limited() {
    let streams = Streams::default();
    let streams_of_client: Vec<_> = (0..1000).map(|_| streams.begin()).collect();
    for stream in streams_of_client.iter().cycle().take(10_000) {
        stream.push(EventKind::Message(vec![b'x'; 64 << 10].into()));
    }
    let bytes = streams.bytes.load(Ordering::Relaxed);
    let last = streams_of_client.len() * (64 << 10);
    assert!(bytes <= SESSION_BYTES_MAX + last, "{bytes}");
    assert_eq!(next_after(&streams_of_client[0], 9), Some(10), "the last event should be stored");
    drop((streams_of_client, std::mem::take(&mut streams.lock().streams)));
    assert_eq!(streams.bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn oldest_streams_are_removed_at_the_limit() {
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

/// Regression test: the server stored the last event of each stream at any size, outside of all limits. 30
/// idle sessions used 176 MB.
#[test]
fn events_of_all_sessions_share_one_byte_limit() {
    let shares = Shares::new(1 << 20);
    let sessions: Vec<_> = (0..30).map(|n| limited(&shares, &n.to_string())).collect();
    let is_stored = |streams: &Streams| streams.find(1).is_some();
    for streams in &sessions {
        let stream = streams.begin();
        let mut reader = stream.read_after(0);
        send(&stream, 300 << 10);
        assert_eq!(read(&mut reader), Some(1), "a connected client gets every event");
    }
    assert_eq!(sessions.iter().filter(|streams| is_stored(streams)).count(), 3);
    let bytes: usize = sessions.iter().map(|streams| streams.bytes.load(Ordering::Relaxed)).sum();
    assert_eq!(bytes, 3 * (300 << 10));
    drop(sessions);
    let streams = limited(&shares, "ada");
    send(&streams.begin(), 1 << 20);
    assert!(is_stored(&streams), "ended sessions should release their bytes");
}

#[test]
fn caller_cannot_exceed_its_share_of_stored_bytes() {
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
fn removed_stream_keeps_unread_events_until_reader_is_dropped() {
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
fn small_stream_is_stored_regardless_of_the_limit() {
    let streams = limited(&Shares::new(1), "ada");
    send(&streams.begin(), COUNTED_STEP - 1);
    assert!(streams.find(1).is_some());
}
