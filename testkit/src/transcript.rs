//! Transcripts: the events that an `http1` connection reports for an input. A transcript must not depend on
//! how the input is split.
//!
//! [`Transcript::read`] also checks rules for all inputs:
//! - The connection uses no more bytes than it gets.
//! - Content events are not empty.
//! - A repeated call without new input changes nothing.
//! - The connection accepts nothing after an error.

mod splits;
mod event;

pub use event::{Event, Fields, Response};
pub use splits::{Pieces, assert_same_for_all_splits, fixed_size_splits, random_splits, two_piece_splits};

use std::fmt;

use thruway_http1::{ClientConnection, Error, HeadIndex, Limits, ResponseTo, ServerConnection, ServerEvent};

/// The side of a connection that parses the input, with the facts that this side knows in advance.
#[derive(Clone, Debug)]
pub enum Reader {
    /// A server.
    Server {
        /// `true` if the server declines each tunnel immediately, and then parses the following requests.
        /// `false` if the server neither accepts nor declines tunnels.
        declines_tunnels: bool,
    },
    /// A client that has sent these requests. Each request has its kind, and `true` if it asked for an
    /// upgrade.
    Client(Vec<(ResponseTo, bool)>),
}

/// Events of an input, up to the first error or the end of the input.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transcript {
    /// The events. Consecutive content events are joined.
    pub events: Vec<Event>,
    /// Number of unused bytes at the end of the input. 0 after an error.
    pub unused: usize,
    /// The first error. The end of the input can cause [`Error::IncompleteMessage`].
    pub error: Option<Error>,
}

impl Transcript {
    /// Passes `pieces` in order to a connection, and then the end of the input.
    ///
    /// # Panics
    /// Panics if the connection breaks one of the rules in the [module documentation](self).
    pub fn read<'p>(reader: &Reader, limits: Limits, pieces: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut builder = TranscriptBuilder::new(reader, limits);
        for piece in pieces {
            builder.feed(piece);
            if builder.transcript.error.is_some() {
                return builder.transcript;
            }
        }
        builder.end()
    }

    /// Returns the content of all messages, joined.
    pub fn content(&self) -> Vec<u8> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::Content(bytes) => Some(bytes.as_slice()),
                _ => None,
            })
            .collect::<Vec<_>>()
            .concat()
    }

    fn push(&mut self, event: Event) {
        if let (Event::Content(more), Some(Event::Content(content))) = (&event, self.events.last_mut()) {
            content.extend_from_slice(more);
        } else {
            self.events.push(event);
        }
    }
}

impl fmt::Display for Transcript {
    /// Writes one line per event, then the number of unused bytes and the error, if any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.events.iter().map(ToString::to_string);
        let unused = (self.unused > 0).then(|| format!("{} unused", self.unused));
        let error = self.error.map(|error| format!("refused: {error:?}"));
        let lines: Vec<String> = events.chain(unused).chain(error).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// Builds a transcript.
struct TranscriptBuilder {
    connection: Connection,
    index: HeadIndex,
    /// Unused input.
    buffer: Vec<u8>,
    transcript: Transcript,
}

enum Connection {
    Server { connection: ServerConnection, declines_tunnels: bool },
    Client(ClientConnection),
}

impl TranscriptBuilder {
    fn new(reader: &Reader, limits: Limits) -> Self {
        let connection = match reader {
            Reader::Server { declines_tunnels } => Connection::Server {
                connection: ServerConnection::new(limits),
                declines_tunnels: *declines_tunnels,
            },
            Reader::Client(requests) => {
                let mut connection = ClientConnection::new(limits);
                for (to, asks_for_upgrade) in requests {
                    connection.expect_response(*to, *asks_for_upgrade);
                }
                Connection::Client(connection)
            }
        };
        Self {
            connection,
            index: HeadIndex::default(),
            buffer: Vec::new(),
            transcript: Transcript::default(),
        }
    }

    fn feed(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
        let mut used = 0;
        loop {
            match self.connection.next_event(&self.buffer[used..], &mut self.index) {
                Ok((event, more)) => {
                    used += more;
                    assert!(used <= self.buffer.len(), "the connection used more bytes than it got");
                    match event {
                        Some(event) => self.transcript.push(event),
                        None => break,
                    }
                }
                Err(error) => {
                    self.transcript.error = Some(error);
                    self.connection.assert_nothing_follows(&self.buffer[used..], &mut self.index);
                    return;
                }
            }
        }
        let again = self.connection.next_event(&self.buffer[used..], &mut self.index);
        assert!(matches!(again, Ok((None, 0))), "a repeated call without new input returned {again:?}");
        self.buffer.drain(..used);
    }

    fn end(mut self) -> Transcript {
        match self.connection.handle_end_of_input(&self.buffer) {
            Ok(true) => self.transcript.push(Event::EndedByClose),
            Ok(false) => {}
            Err(error) => self.transcript.error = Some(error),
        }
        self.connection.assert_nothing_follows(&[], &mut self.index);
        if self.transcript.error.is_none() {
            self.transcript.unused = self.buffer.len();
        }
        self.transcript
    }
}

impl Connection {
    fn next_event(&mut self, input: &[u8], index: &mut HeadIndex) -> Result<(Option<Event>, usize), Error> {
        match self {
            Self::Server { connection, declines_tunnels } => {
                let (event, used) = match connection.repeat_request(input, index) {
                    Some(used) => (Some(ServerEvent::Request), used),
                    None => connection.handle_input(input, index)?,
                };
                let wants_tunnel = event == Some(ServerEvent::Request) && index.request_facts().wants_tunnel;
                let event = event.map(|event| Event::from_server(event, &input[..used], index));
                if wants_tunnel && *declines_tunnels {
                    connection.decline_tunnel();
                }
                Ok((event, used))
            }
            Self::Client(connection) => {
                let (event, used) = connection.handle_input(input, index)?;
                Ok((event.map(|event| Event::from_client(event, &input[..used], index)), used))
            }
        }
    }

    fn handle_end_of_input(&mut self, unused: &[u8]) -> Result<bool, Error> {
        match self {
            Self::Server { connection, .. } => connection.handle_end_of_input(unused).map(|()| false),
            Self::Client(connection) => connection.handle_end_of_input(unused),
        }
    }

    /// Checks that the connection accepts neither the rest of the input nor a valid message.
    fn assert_nothing_follows(&mut self, rest: &[u8], index: &mut HeadIndex) {
        for input in [rest, b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 204 \r\n\r\n"] {
            match self.next_event(input, index) {
                Ok((None, 0)) | Err(Error::UnexpectedMessage) => {}
                other => panic!("accepted after the end: {other:?}"),
            }
        }
        match self {
            Self::Server { connection, .. } => {
                assert!(connection.is_finished() && !connection.is_reading_content());
                assert_eq!(connection.content_remaining(), Some(0));
            }
            Self::Client(connection) => assert!(!connection.is_reusable()),
        }
    }
}
