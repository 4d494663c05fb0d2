//! Server connections, with a model of the expected state.

use arbitrary::Arbitrary;
use thruway_http1::{BodyLength, Error, HeadIndex, Limits, ServerConnection, ServerEvent};
use thruway_testkit::transcript::Event;

/// Operation on a server connection.
#[derive(Arbitrary, Debug)]
pub(crate) enum Operation {
    Bytes(Vec<u8>),
    Request(Request),
    Stop,
    Abandon,
    DeclineTunnel,
    EndOfInput,
}

/// Input that a server connection is likely to accept.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Request {
    Get,
    GetLast,
    GetHttp10,
    Upgrade,
    UpgradeLast,
    Connect,
    PostBytes { announced: u8, sent: u8 },
    PostChunked,
    Chunk { bytes: u8 },
    LastChunk { with_trailer: bool },
}

impl Request {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Get => b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            Self::GetLast => b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec(),
            Self::GetHttp10 => b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_vec(),
            Self::Upgrade => {
                b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: b\r\n\r\n".to_vec()
            }
            Self::UpgradeLast => {
                b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: b\r\n\r\n".to_vec()
            }
            Self::Connect => b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            Self::PostBytes { announced, sent } => {
                let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {announced}\r\n\r\n");
                [head.as_bytes(), &vec![b'a'; sent.into()]].concat()
            }
            Self::PostChunked => b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
            Self::Chunk { bytes } => {
                [format!("{bytes:x}\r\n").as_bytes(), &vec![b'a'; bytes.into()], b"\r\n"].concat()
            }
            Self::LastChunk { with_trailer: true } => b"0\r\nA: b\r\n\r\n".to_vec(),
            Self::LastChunk { with_trailer: false } => b"0\r\n\r\n".to_vec(),
        }
    }
}

/// Performs the operations, with input in pieces of at most `size` bytes. Returns the events and the final
/// error.
pub(crate) fn run(limits: Limits, operations: &[Operation], size: usize) -> (Vec<Event>, Option<Error>) {
    let mut run = Run {
        connection: ServerConnection::new(limits),
        limits,
        index: HeadIndex::default(),
        buffer: Vec::new(),
        events: Vec::new(),
        requests: 0,
        expected: None,
        error: None,
        is_stopped: false,
    };
    for operation in operations {
        run.perform(operation, size);
        run.check();
    }
    (run.events, run.error)
}

struct Run {
    connection: ServerConnection,
    limits: Limits,
    index: HeadIndex,
    buffer: Vec<u8>,
    events: Vec<Event>,
    requests: u64,
    /// Remaining content of the current request, if one is being read.
    expected: Option<BodyLength>,
    error: Option<Error>,
    is_stopped: bool,
}

impl Run {
    fn perform(&mut self, operation: &Operation, size: usize) {
        match operation {
            Operation::Bytes(bytes) => self.feed(bytes, size),
            Operation::Request(request) => self.feed(&request.bytes(), size),
            Operation::Stop => {
                self.connection.stop();
                self.is_stopped = true;
            }
            Operation::Abandon => {
                self.connection.abandon();
                self.expected = None;
                self.is_stopped = true;
                assert!(self.connection.is_finished());
            }
            Operation::DeclineTunnel => {
                self.connection.decline_tunnel();
                self.read();
            }
            Operation::EndOfInput => {
                let was_finished = self.connection.is_finished();
                let outcome = self.connection.handle_end_of_input(&self.buffer);
                assert!(!was_finished || outcome.is_ok());
                assert!(self.connection.is_finished());
                self.error = self.error.or(outcome.err());
                self.expected = None;
            }
        }
    }

    fn feed(&mut self, bytes: &[u8], size: usize) {
        for piece in bytes.chunks(size) {
            self.buffer.extend_from_slice(piece);
            self.read();
        }
    }

    fn read(&mut self) {
        let mut used = 0;
        loop {
            let was_finished = self.connection.is_finished();
            let input = &self.buffer[used..];
            let outcome = match self.connection.repeat_request(input, &self.index) {
                Some(used) => Ok((Some(ServerEvent::Request), used)),
                None => self.connection.handle_input(input, &mut self.index),
            };
            match outcome {
                Ok((event, more)) => {
                    used += more;
                    let bytes = &input[..more];
                    let Some(event) = event else { break };
                    assert!(!was_finished && self.error.is_none(), "event after the end: {event:?}");
                    let length = match &event {
                        ServerEvent::Request => Some(self.index.request_facts().body_length),
                        _ => None,
                    };
                    let event = Event::from_server(event, bytes, &self.index);
                    self.record(event, length);
                }
                Err(error) => {
                    assert!(self.error.is_none() && !was_finished);
                    assert!(self.connection.is_finished());
                    self.error = Some(error);
                    self.expected = None;
                    break;
                }
            }
        }
        self.buffer.drain(..used);
    }

    /// Updates the model for `event`, and records the event.
    fn record(&mut self, event: Event, length: Option<BodyLength>) {
        match (&event, self.expected) {
            (Event::Request { .. }, None) => {
                assert!(!self.is_stopped, "request after stop");
                self.requests += 1;
                self.expected = length.filter(|length| *length != BodyLength::NONE);
            }
            (Event::Content(bytes), Some(BodyLength::Bytes(remaining))) => {
                let remaining = remaining
                    .checked_sub(bytes.len() as u64)
                    .expect("the content should not exceed its length");
                self.expected = Some(BodyLength::Bytes(remaining));
            }
            (Event::Content(_), Some(BodyLength::Chunked)) => {}
            (Event::EndOfContent(_), Some(BodyLength::NONE | BodyLength::Chunked)) => self.expected = None,
            other => panic!("unexpected event: {other:?}"),
        }
        match (event, self.events.last_mut()) {
            (Event::Content(more), Some(Event::Content(content))) => {
                content.extend(more);
                assert!(content.len() as u64 <= self.limits.content_bytes);
            }
            (event, _) => self.events.push(event),
        }
    }

    fn check(&self) {
        let limit = self.limits.requests_per_connection;
        assert!(limit == 0 || self.requests <= limit, "more requests than allowed");
        // The connection may already count a rejected request.
        assert!(self.connection.request_count() - self.requests <= 1);
        assert_eq!(self.connection.is_reading_content(), self.expected.is_some());
        assert_eq!(self.connection.content_remaining(), self.expected.map_or(Some(0), BodyLength::bytes));
    }
}
