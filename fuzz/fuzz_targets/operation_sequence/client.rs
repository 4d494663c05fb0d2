//! Client connections, with a model of the expected state.

use arbitrary::Arbitrary;
use thruway_http1::{BodyLength, ClientConnection, Error, HeadIndex, Limits, ResponseTo};
use thruway_testkit::transcript::Event;

/// Operation on a client connection.
#[derive(Arbitrary, Debug)]
pub(crate) enum Operation {
    Bytes(Vec<u8>),
    Response(Response),
    Expect { kind: RequestKind, asks_for_upgrade: bool },
    Skip { bytes: u8 },
    EndOfInput,
}

/// The kind of a request.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    Connect,
    Head,
    Other,
}

/// Input that a client connection is likely to accept.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Response {
    Empty,
    Last,
    Http10,
    Interim,
    Switching,
    NotModified { announced: u8 },
    Bytes { announced: u8, sent: u8 },
    Chunked,
    Chunk { bytes: u8 },
    LastChunk,
    UntilClose,
}

impl Response {
    fn bytes(self) -> Vec<u8> {
        let text = match self {
            Self::Empty => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
            Self::Last => "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
            Self::Http10 => "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
            Self::Interim => "HTTP/1.1 103 Early Hints\r\n\r\n".to_owned(),
            Self::Switching => "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n".to_owned(),
            Self::NotModified { announced } => {
                format!("HTTP/1.1 304 x\r\nContent-Length: {announced}\r\n\r\n")
            }
            Self::Bytes { announced, sent } => {
                let content = "a".repeat(sent.into());
                format!("HTTP/1.1 200 OK\r\nContent-Length: {announced}\r\n\r\n{content}")
            }
            Self::Chunked => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            Self::Chunk { bytes } => format!("{bytes:x}\r\n{}\r\n", "a".repeat(bytes.into())),
            Self::LastChunk => "0\r\n\r\n".to_owned(),
            Self::UntilClose => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        };
        text.into_bytes()
    }
}

/// Performs the operations, with input in pieces of at most `size` bytes. Returns the events and the final
/// error.
pub(crate) fn run(limits: Limits, operations: &[Operation], size: usize) -> (Vec<Event>, Option<Error>) {
    let mut run = Run {
        connection: ClientConnection::new(limits),
        limits,
        index: HeadIndex::default(),
        buffer: Vec::new(),
        events: Vec::new(),
        outstanding: 0,
        expected: None,
        error: None,
        has_ended: false,
    };
    for operation in operations {
        run.perform(operation, size);
        assert_eq!(run.connection.expected_count(), run.outstanding);
        assert_eq!(run.connection.content_remaining(), run.expected.map_or(Some(0), BodyLength::bytes));
        if run.connection.is_reusable() {
            assert!(run.outstanding == 0 && run.expected.is_none() && run.error.is_none() && !run.has_ended);
        }
    }
    (run.events, run.error)
}

struct Run {
    connection: ClientConnection,
    limits: Limits,
    index: HeadIndex,
    buffer: Vec<u8>,
    events: Vec<Event>,
    /// Number of outstanding responses, including the current one.
    outstanding: usize,
    /// Remaining content of the current response, if one is being read.
    expected: Option<BodyLength>,
    error: Option<Error>,
    has_ended: bool,
}

impl Run {
    fn perform(&mut self, operation: &Operation, size: usize) {
        match operation {
            Operation::Bytes(bytes) => self.feed(bytes, size),
            Operation::Response(response) => self.feed(&response.bytes(), size),
            Operation::Expect { kind, asks_for_upgrade } => {
                let kind = match kind {
                    RequestKind::Connect => ResponseTo::Connect,
                    RequestKind::Head => ResponseTo::Head,
                    RequestKind::Other => ResponseTo::Other,
                };
                self.connection.expect_response(kind, *asks_for_upgrade);
                self.outstanding += 1;
            }
            Operation::Skip { bytes } => self.skip((*bytes).into()),
            Operation::EndOfInput => self.end(),
        }
    }

    fn end(&mut self) {
        match self.connection.handle_end_of_input(&self.buffer) {
            Ok(true) => {
                assert_eq!(self.expected, Some(BodyLength::UntilClose));
                self.outstanding -= 1;
            }
            Ok(false) => assert_eq!(self.expected, None),
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self.expected = None;
        self.has_ended = true;
        assert!(!self.connection.is_reusable());
    }

    /// Skips content. The connection ignores this for content of unknown length.
    fn skip(&mut self, bytes: u64) {
        self.connection.skip_content(bytes);
        if let Some(BodyLength::Bytes(remaining)) = &mut self.expected {
            *remaining = remaining.saturating_sub(bytes);
        }
        self.read();
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
            let input = &self.buffer[used..];
            match self.connection.handle_input(input, &mut self.index) {
                Ok((event, more)) => {
                    used += more;
                    assert!(used <= self.buffer.len());
                    let Some(event) = event else { break };
                    let event = Event::from_client(event, &input[..more], &self.index);
                    assert!(self.error.is_none() && !self.has_ended, "event after the end: {event:?}");
                    self.record(event);
                }
                Err(error) => {
                    assert!(!self.connection.is_reusable());
                    assert!(self.error.is_none() || error == Error::UnexpectedMessage);
                    self.error = self.error.or(Some(error));
                    self.expected = None;
                    break;
                }
            }
        }
        self.buffer.drain(..used);
    }

    /// Updates the model for `event`, and records the event.
    fn record(&mut self, event: Event) {
        match (&event, self.expected) {
            (Event::Interim(_), None) => assert!(self.outstanding > 0),
            (Event::Tunnel(_), None) => self.outstanding -= 1,
            (Event::Response(_, BodyLength::NONE), None) => self.outstanding -= 1,
            (Event::Response(_, length), None) => self.expected = Some(*length),
            (Event::Content(bytes), Some(BodyLength::Bytes(remaining))) => {
                let remaining = remaining
                    .checked_sub(bytes.len() as u64)
                    .expect("the content should not exceed its length");
                self.expected = Some(BodyLength::Bytes(remaining));
            }
            (Event::Content(_), Some(BodyLength::Chunked | BodyLength::UntilClose)) => {}
            (Event::EndOfContent(_), Some(BodyLength::NONE | BodyLength::Chunked)) => {
                self.outstanding -= 1;
                self.expected = None;
            }
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
}
