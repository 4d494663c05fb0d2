//! The client's side of a connection: responses in.

use alloc::collections::VecDeque;

use thruway_message::token::is_in_any_case;
use thruway_message::{StatusCode, Version};

use crate::body_length::{BodyLength, LengthFields, ResponseTo};
use crate::chunked::Piece;
use crate::content::ContentDecoder;
use crate::error::Error;
use crate::field_section::{self, PartialSection, SectionLimit};
use crate::head_index::HeadIndex;
use crate::limits::Limits;
use crate::request_fields::ConnectionOptions;
use crate::status_line;

/// Reads the responses of one connection, in the order of the requests, however they are cut into pieces.
///
/// Tell it of each request with [`expect_response`](Self::expect_response) when that is written; feed what
/// arrives to [`handle_input`](Self::handle_input) as with [`ServerConnection`](crate::ServerConnection).
///
/// ```text
/// ExpectResponse ──head──▶ ExpectContent ──end──▶ ExpectResponse
///   │  └─ interim ─▶ (again)                 └─ last ─▶ ExpectNothing
///   └─ 101, or a success of CONNECT ──▶ Tunnel
/// ```
#[derive(Clone, Debug)]
pub struct ClientConnection {
    state: State,
    expected: VecDeque<Expected>,
    /// What is known of the head that is awaited.
    partial: PartialSection,
    interim_count: u32,
    is_persistent: bool,
    limits: Limits,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    ExpectResponse,
    ExpectContent(ContentDecoder),
    ExpectNothing,
    Tunnel,
}

#[derive(Clone, Copy, Debug)]
struct Expected {
    to: ResponseTo,
    asks_for_upgrade: bool,
}

/// What the octets meant. [Heads](HeadIndex::response_head) and the [trailer section](HeadIndex::field_lines)
/// are in the index, which is where they were put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientEvent<'i> {
    /// The head of an interim response; the final one is still to come (RFC 9110 §15.2).
    Interim,
    /// The head of the final response, and how its body ends. If that is not [`BodyLength::NONE`], content
    /// and the end of it follow.
    Response(BodyLength),
    /// Some of the content, never empty.
    Content(&'i [u8]),
    /// The content is complete; the trailer section, if there was one, is in the index.
    EndOfContent,
    /// The head of a response after which the connection is a tunnel: what follows is not HTTP.
    Tunnel,
}

impl ClientConnection {
    /// A connection on which nothing was sent.
    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::ExpectResponse,
            expected: VecDeque::new(),
            partial: PartialSection::default(),
            interim_count: 0,
            is_persistent: true,
            limits,
        }
    }

    /// A request was sent; `asks_for_upgrade` if it had an `Upgrade` field.
    pub fn expect_response(&mut self, to: ResponseTo, asks_for_upgrade: bool) {
        self.expected.push_back(Expected { to, asks_for_upgrade });
    }

    /// Reads `input`. Returns the first event in it and how many octets that used up; `None` asks for more
    /// than what is left then.
    ///
    /// # Errors
    /// The rule that the input breaks. Nothing can be read from the connection any more.
    #[inline]
    pub fn handle_input<'i>(
        &mut self,
        input: &'i [u8],
        index: &mut HeadIndex,
    ) -> Result<(Option<ClientEvent<'i>>, usize), Error> {
        let outcome = match &mut self.state {
            State::ExpectResponse => self.handle_head(input, index),
            State::ExpectContent(_) => self.handle_content(input, index),
            State::ExpectNothing if !input.is_empty() => Err(Error::UnexpectedMessage),
            State::ExpectNothing | State::Tunnel => return Ok((None, 0)),
        };
        if outcome.is_err() {
            self.fail();
        }
        outcome
    }

    /// The server will send nothing more; `unused` is what it sent last. Returns whether that ends content
    /// whose end was the close of the connection. Requests that stay without a response are those still
    /// [expected](Self::expected_count).
    ///
    /// # Errors
    /// [`Error::IncompleteMessage`] if a response was expected, or had begun, and did not end.
    pub fn handle_end_of_input(&mut self, unused: &[u8]) -> Result<bool, Error> {
        let is_end_of_content = matches!(self.state, State::ExpectContent(ContentDecoder::UntilClose { .. }));
        let is_complete = match self.state {
            State::ExpectResponse => self.expected.is_empty() && unused.is_empty(),
            State::ExpectContent(_) => is_end_of_content,
            State::ExpectNothing => self.expected.is_empty(),
            State::Tunnel => true,
        };
        if is_end_of_content {
            self.expected.pop_front();
        }
        self.fail();
        if is_complete { Ok(is_end_of_content) } else { Err(Error::IncompleteMessage) }
    }

    /// Whether another request may be sent: all responses are complete and the server keeps the connection.
    pub fn is_reusable(&self) -> bool {
        self.state == State::ExpectResponse && self.is_persistent && self.expected.is_empty()
    }

    /// Whether the server keeps the connection, as far as its responses have said. If it does not, requests
    /// that were sent behind the last that is answered are not acted on (RFC 9112 §9.6).
    pub const fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// How many responses are expected, one that is being read among them.
    pub fn expected_count(&self) -> usize {
        self.expected.len()
    }

    /// Octets of content still to come in the present response: 0 if it is complete or has not begun, `None`
    /// if that is not known.
    pub const fn content_remaining(&self) -> Option<u64> {
        match &self.state {
            State::ExpectContent(decoder) => decoder.remaining(),
            _ => Some(0),
        }
    }

    /// Passes over `octets` of content of a known length: the caller has taken them from the connection in
    /// another way than through its input. What goes beyond the content is not counted; its end is still an
    /// event.
    pub fn skip_content(&mut self, octets: u64) {
        if let State::ExpectContent(decoder) = &mut self.state {
            decoder.skip(octets);
        }
    }

    /// Takes all of the content that is still to come, if it has a known length and no more octets than have
    /// `arrived`: how many, that is, of those that come next. The response is complete then, without further
    /// events.
    #[inline]
    pub fn take_content(&mut self, arrived: usize) -> Option<usize> {
        let State::ExpectContent(decoder) = &self.state else { return None };
        let remaining =
            usize::try_from(decoder.remaining()?).ok().filter(|remaining| *remaining <= arrived)?;
        self.end_response();
        Some(remaining)
    }

    fn fail(&mut self) {
        self.state = State::ExpectNothing;
        self.is_persistent = false;
    }

    #[inline]
    fn handle_head<'i>(
        &mut self,
        input: &'i [u8],
        index: &mut HeadIndex,
    ) -> Result<(Option<ClientEvent<'i>>, usize), Error> {
        let Some(expected) = self.expected.front().copied() else {
            return if input.is_empty() { Ok((None, 0)) } else { Err(Error::UnexpectedMessage) };
        };
        let limit = SectionLimit::of_header(&self.limits);
        if self.partial.is_same_line(input, limit)? {
            return Ok((None, 0));
        }
        if !status_line::parse(input, &mut index.status_line)? {
            return Ok((None, 0));
        }
        let (status, version, start) = {
            let line = &index.status_line;
            (line.status, line.version, line.end)
        };
        let mut fields = ResponseFields {
            opens_tunnel: expected.to == ResponseTo::Connect && status.is_success(),
            ..ResponseFields::default()
        };
        let observe = |name: &[u8], value: &[u8]| fields.observe(name, value);
        let Some(end) = field_section::parse(input, start, limit, &mut index.spans, observe)? else {
            self.partial = PartialSection::new(start, input);
            return Ok((None, 0));
        };
        Ok((Some(self.start_response(status, version, expected, &fields)?), end))
    }

    #[inline]
    fn start_response<'i>(
        &mut self,
        status: StatusCode,
        version: Version,
        expected: Expected,
        fields: &ResponseFields,
    ) -> Result<ClientEvent<'i>, Error> {
        let body_length = fields.length.of_response(expected.to, status, version)?;
        let opens_tunnel = match status {
            StatusCode::SWITCHING_PROTOCOLS if !expected.asks_for_upgrade => {
                return Err(Error::UnexpectedMessage);
            }
            StatusCode::SWITCHING_PROTOCOLS => true,
            status => expected.to == ResponseTo::Connect && status.is_success(),
        };
        if opens_tunnel {
            self.expected.pop_front();
            self.state = State::Tunnel;
            return Ok(ClientEvent::Tunnel);
        }
        if status.is_interim() {
            if self.interim_count >= self.limits.interim_responses {
                return Err(Error::InterimResponsesTooMany);
            }
            self.interim_count += 1;
            return Ok(ClientEvent::Interim);
        }
        self.interim_count = 0;
        self.is_persistent &=
            fields.connection.is_persistent(version) && body_length != BodyLength::UntilClose;
        if body_length == BodyLength::NONE {
            self.end_response();
        } else {
            self.state = State::ExpectContent(ContentDecoder::new(body_length, &self.limits)?);
        }
        Ok(ClientEvent::Response(body_length))
    }

    #[inline]
    fn handle_content<'i>(
        &mut self,
        input: &'i [u8],
        index: &mut HeadIndex,
    ) -> Result<(Option<ClientEvent<'i>>, usize), Error> {
        let State::ExpectContent(decoder) = &mut self.state else {
            return Ok((None, 0));
        };
        let found = decoder.decode(input, &self.limits, index)?;
        let event = match found.piece {
            Piece::Partial => None,
            Piece::Data(range) => Some(ClientEvent::Content(&input[range])),
            Piece::End => {
                self.end_response();
                Some(ClientEvent::EndOfContent)
            }
        };
        Ok((event, found.used))
    }

    #[inline]
    fn end_response(&mut self) {
        self.expected.pop_front();
        self.state = if self.is_persistent { State::ExpectResponse } else { State::ExpectNothing };
    }
}

/// What the field lines of a response say, gathered while they are parsed.
#[derive(Clone, Copy, Default)]
struct ResponseFields {
    length: LengthFields,
    connection: ConnectionOptions,
    /// Whether this is the success of CONNECT, whose fields about a length are ignored (RFC 9110 §9.3.6).
    opens_tunnel: bool,
}

impl ResponseFields {
    #[inline]
    fn observe(&mut self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        match name.len() {
            10 if is_in_any_case(name, b"connection") => self.connection.observe(value),
            _ if self.opens_tunnel => {}
            14 if is_in_any_case(name, b"content-length") => self.length.observe_content_length(value)?,
            17 if is_in_any_case(name, b"transfer-encoding") => self.length.observe_transfer_encoding(value),
            _ => {}
        }
        Ok(())
    }
}
