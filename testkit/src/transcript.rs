//! Events of an `http1` connection for an input, in a form that does not depend on the split of the input.
//!
//! Every reading also checks what must hold for any input: no more is used than was given, content is never
//! empty, asking again changes nothing, and nothing is accepted after an error.

mod cuts;
mod event;

pub use cuts::{Pieces, assert_cuts_do_not_matter, every_single_cut, random_cuts, sizes};
pub use event::{Event, Fields, Response};

use std::fmt;

use thruway_http1::{ClientConnection, Error, HeadIndex, Limits, ResponseTo, ServerConnection, ServerEvent};

/// Which end of a connection reads, and what it has to know beforehand.
#[derive(Clone, Debug)]
pub enum Reader {
    /// A server. It declines every tunnel at once, if so it is said, or else leaves the verdict open.
    Server {
        /// `true` if requests after a tunnel request are read.
        declines_tunnels: bool,
    },
    /// A client that has sent these requests: the kind of each, and `true` if it had an `Upgrade` header.
    Client(Vec<(ResponseTo, bool)>),
}

/// Events of the input, up to the first error or the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transcript {
    /// The events; content between two others is one.
    pub events: Vec<Event>,
    /// Number of unused bytes. Not recorded after an error.
    pub unused: usize,
    /// The error that ended the reading; an [`Error::IncompleteMessage`] comes from the end of the input.
    pub error: Option<Error>,
}

impl Transcript {
    /// Reads `pieces` one after the other and then the end of the input.
    ///
    /// # Panics
    /// The connection broke one of the promises above.
    pub fn read<'p>(reader: &Reader, limits: Limits, pieces: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut reading = Reading::new(reader, limits);
        for piece in pieces {
            reading.feed(piece);
            if reading.transcript.error.is_some() {
                return reading.transcript;
            }
        }
        reading.end()
    }

    /// All content, joined.
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
    /// A line for each event, and one for what is unused and one for the error, if there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.events.iter().map(ToString::to_string);
        let unused = (self.unused > 0).then(|| format!("{} unused", self.unused));
        let error = self.error.map(|error| format!("refused: {error:?}"));
        let lines: Vec<String> = events.chain(unused).chain(error).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// A transcript in the making.
struct Reading {
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

impl Reading {
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
                    assert!(used <= self.buffer.len(), "more bytes were used than there are");
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
        assert!(matches!(again, Ok((None, 0))), "asking again changed the answer: {again:?}");
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
                let (event, used) = connection.handle_input(input, index)?;
                let wants_tunnel = event == Some(ServerEvent::Request) && index.request_facts().wants_tunnel;
                let event = event.map(|event| Event::of_server(event, &input[..used], index));
                if wants_tunnel && *declines_tunnels {
                    connection.decline_tunnel();
                }
                Ok((event, used))
            }
            Self::Client(connection) => {
                let (event, used) = connection.handle_input(input, index)?;
                Ok((event.map(|event| Event::of_client(event, &input[..used], index)), used))
            }
        }
    }

    fn handle_end_of_input(&mut self, unused: &[u8]) -> Result<bool, Error> {
        match self {
            Self::Server { connection, .. } => connection.handle_end_of_input(unused).map(|()| false),
            Self::Client(connection) => connection.handle_end_of_input(unused),
        }
    }

    /// Checks that nothing more is accepted, neither the rest of the input nor a valid message.
    fn assert_nothing_follows(&mut self, left_over: &[u8], index: &mut HeadIndex) {
        for input in [left_over, b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 204 \r\n\r\n"] {
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
