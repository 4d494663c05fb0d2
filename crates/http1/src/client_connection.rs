//! The client side of a connection, which reads responses.

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

/// Reads the responses of one connection, in the order of the requests. The input can be split at any
/// position.
///
/// Call [`expect_response`](Self::expect_response) when you write a request. Pass received bytes to
/// [`handle_input`](Self::handle_input) until the function returns no more events. Keep the unconsumed bytes,
/// and pass them again together with the next bytes.
///
/// ```text
/// ExpectResponse ──head──▶ ExpectContent ──end──▶ ExpectResponse
///   │  └─ interim ─▶ (again)                 └─ last ─▶ ExpectNothing
///   └─ 101, or a success of CONNECT ──▶ Tunnel
/// ```
///
/// ```
/// use thruway_http1::{BodyLength, ClientConnection, ClientEvent, HeadIndex, Limits, ResponseTo};
///
/// let mut connection = ClientConnection::new(Limits::default());
/// let mut index = HeadIndex::default();
/// connection.expect_response(ResponseTo::Other, false);
/// let input = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
/// let (event, used) = connection.handle_input(input, &mut index)?;
/// assert_eq!(event, Some(ClientEvent::Response(BodyLength::Bytes(2))));
/// let (event, _) = connection.handle_input(&input[used..], &mut index)?;
/// assert_eq!(event, Some(ClientEvent::Content(b"hi")));
/// # Ok::<_, thruway_http1::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientConnection {
    state: State,
    expected: VecDeque<Expected>,
    /// The state of an incomplete head.
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

/// An event in the input. The parser stores [heads](HeadIndex::response_head) and the [trailer
/// section](HeadIndex::field_lines) in the [`HeadIndex`], to avoid a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientEvent<'i> {
    /// The head of an interim response. The final response follows later (RFC 9110 §15.2).
    Interim,
    /// The head of the final response, and the rule that determines the end of its body. With
    /// [`BodyLength::NONE`], the response is complete. With any other rule, the events `Content` and
    /// `EndOfContent` follow.
    Response(BodyLength),
    /// A part of the content, with at least one byte.
    Content(&'i [u8]),
    /// The end of the content. If the response has a trailer section, the section is in the index.
    EndOfContent,
    /// The head of a response that makes the connection a tunnel. The bytes after the head are not HTTP/1.1.
    Tunnel,
}

impl ClientConnection {
    /// Creates the client side of a new connection.
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

    /// Records that the caller sent a request. `asks_for_upgrade` is `true` if the request has an
    /// `Upgrade` field.
    pub fn expect_response(&mut self, to: ResponseTo, asks_for_upgrade: bool) {
        self.expected.push_back(Expected { to, asks_for_upgrade });
    }

    /// Reads `input`. Returns the first event in `input`, and the number of consumed bytes. If the event
    /// is `None`, the parser needs more input: call this function again with the unconsumed bytes and the
    /// bytes that follow.
    ///
    /// # Errors
    /// Returns the rule that `input` breaks. After an error, the parser cannot read further responses on this
    /// connection.
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

    /// Handles the end of the input. `unused` contains the input bytes that the parser has not consumed.
    /// Returns `true` if the end of the input is also the end of a body ([`BodyLength::UntilClose`]).
    /// Responses that did not arrive still count in [`expected_count`](Self::expected_count).
    ///
    /// # Errors
    /// Returns [`Error::IncompleteMessage`] if an expected response is missing or incomplete.
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

    /// Returns `true` if the client can send another request: all responses are complete, and the server
    /// keeps the connection open.
    pub fn is_reusable(&self) -> bool {
        self.state == State::ExpectResponse && self.is_persistent && self.expected.is_empty()
    }

    /// Returns `true` if the server keeps the connection open, according to its responses so far. If the
    /// result is `false`, the server ignores all requests after the request to which it last responded (RFC
    /// 9112 §9.6).
    pub const fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// Returns the number of expected responses, including the response that the parser currently reads.
    pub fn expected_count(&self) -> usize {
        self.expected.len()
    }

    /// Returns the number of content bytes that are still to come in the current response. The result is 0 if
    /// the response is complete or has not started, and `None` if the number is unknown.
    pub const fn content_remaining(&self) -> Option<u64> {
        match &self.state {
            State::ExpectContent(decoder) => decoder.remaining(),
            _ => Some(0),
        }
    }

    /// Skips `bytes` bytes of content that the caller has read directly from the connection. Has an effect
    /// only if the length of the content is known. If `bytes` is larger than the number of remaining content
    /// bytes, the function skips only the remaining bytes. [`handle_input`](Self::handle_input) still reports
    /// the end of the content.
    pub fn skip_content(&mut self, bytes: u64) {
        if let State::ExpectContent(decoder) = &mut self.state {
            decoder.skip(bytes);
        }
    }

    /// Completes the response if all remaining content bytes have arrived. `arrived` is the number of input
    /// bytes that the parser has not consumed. Returns the number of remaining content bytes, or `None` if
    /// this number is unknown or larger than `arrived`. After success, the caller takes the remaining content
    /// from the start of its input, and gets no further events for this response.
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
        let Some(end) = field_section::parse(input, start, limit, index.clear(), observe)? else {
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

/// The response fields that affect the framing of the response and the reuse of the connection.
#[derive(Clone, Copy, Default)]
struct ResponseFields {
    length: LengthFields,
    connection: ConnectionOptions,
    /// `true` if this is a successful response to CONNECT. The parser ignores the length fields of a
    /// successful response to CONNECT (RFC 9110 §9.3.6).
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
