//! The server side of a connection: it reads requests.

use crate::body_length::BodyLength;
use crate::chunked::Piece;
use crate::content::ContentDecoder;
use crate::error::Error;
use crate::field_section::{self, PartialSection, SectionLimit};
use crate::head_index::HeadIndex;
use crate::limits::Limits;
use crate::request_facts::RequestFacts;
use crate::request_fields::RequestFields;
use crate::request_line;

/// Reads the requests of one connection, one after the other. The boundaries of the input pieces do not
/// matter.
///
/// Pass received bytes to [`handle_input`](Self::handle_input) until it returns no more events. Keep the
/// unconsumed bytes, and pass them again together with the next ones. The caller sends the responses, in the
/// order of the requests: see [`write_response_head`](crate::write_response_head).
///
/// ```text
/// ExpectRequest ──head──▶ ExpectContent ──end──▶ ExpectRequest
///   └─ after the end of a request that …
///        ends the connection ──▶ ExpectNothing
///        wants a tunnel ──▶ ExpectVerdict ──decline_tunnel──▶ ExpectRequest or ExpectNothing
/// ```
///
/// ```
/// use thruway_http1::{BodyLength, HeadIndex, Limits, ServerConnection, ServerEvent};
///
/// let mut connection = ServerConnection::new(Limits::default());
/// let mut index = HeadIndex::default();
/// let input = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
/// let (event, used) = connection.handle_input(input, &mut index)?;
/// assert_eq!(event, Some(ServerEvent::Request));
/// assert_eq!(index.request_facts().body_length, BodyLength::Bytes(2));
/// let (event, _) = connection.handle_input(&input[used..], &mut index)?;
/// assert_eq!(event, Some(ServerEvent::Content(b"hi")));
/// # Ok::<_, thruway_http1::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerConnection {
    state: State,
    /// `true` if the current request asks for a tunnel. The caller must accept or decline it after the end of
    /// the request.
    awaits_tunnel_decision: bool,
    /// `true` if no request is read after the current one.
    is_last: bool,
    /// The state of the incomplete head.
    partial: PartialSection,
    request_count: u64,
    limits: Limits,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    ExpectRequest,
    ExpectContent(ContentDecoder),
    ExpectVerdict,
    ExpectNothing,
}

/// An event in the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerEvent<'i> {
    /// A request. Its [head](HeadIndex::request_head) and [facts](HeadIndex::request_facts) are stored in the
    /// index, to avoid a copy. If the request has a body, `Content` and `EndOfContent` follow.
    Request,
    /// A part of the content, never empty.
    Content(&'i [u8]),
    /// The end of the content. The [trailer section](HeadIndex::field_lines), if there was one, is in the
    /// index.
    EndOfContent,
}

impl ServerConnection {
    /// Returns a new connection.
    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::ExpectRequest,
            awaits_tunnel_decision: false,
            is_last: false,
            partial: PartialSection::default(),
            request_count: 0,
            limits,
        }
    }

    /// Reads `input`. Returns its first event, and the number of bytes that were consumed. Without an event,
    /// more input is needed: call again with the unconsumed bytes and the next ones.
    ///
    /// # Errors
    /// The rule that the input breaks. The connection is then unreadable.
    pub fn handle_input<'i>(
        &mut self,
        input: &'i [u8],
        index: &mut HeadIndex,
    ) -> Result<(Option<ServerEvent<'i>>, usize), Error> {
        let outcome = match &mut self.state {
            State::ExpectRequest => self.handle_head(input, index),
            State::ExpectContent(_) => self.handle_content(input, index),
            State::ExpectVerdict | State::ExpectNothing => return Ok((None, 0)),
        };
        if outcome.is_err() {
            self.state = State::ExpectNothing;
        }
        outcome
    }

    /// Handles the end of the stream; `unused` are the unconsumed last bytes.
    ///
    /// # Errors
    /// [`Error::IncompleteMessage`] if a request is incomplete.
    pub fn handle_end_of_input(&mut self, unused: &[u8]) -> Result<(), Error> {
        let is_incomplete = match self.state {
            State::ExpectRequest => !matches!(unused, [] | [b'\r'] | [b'\r', b'\n']),
            State::ExpectContent(_) => true,
            State::ExpectVerdict | State::ExpectNothing => false,
        };
        self.state = State::ExpectNothing;
        if is_incomplete { Err(Error::IncompleteMessage) } else { Ok(()) }
    }

    /// Skips the content of the last request. The length of the content is known, and the caller has found
    /// all of it in its input.
    #[inline]
    pub fn skip_content(&mut self) {
        if self.content_remaining().is_some_and(|remaining| remaining > 0) {
            self.end_request();
        }
    }

    /// Skips `bytes` bytes of content of known length that the caller has read from the connection directly.
    /// Bytes beyond the content do not count. The end of the content is still reported as an event.
    pub fn skip_bytes(&mut self, bytes: u64) {
        if let State::ExpectContent(decoder) = &mut self.state {
            decoder.skip(bytes);
        }
    }

    /// Returns `true` if parsing waits for the decision about a tunnel that the last request asks for.
    pub const fn awaits_tunnel_decision(&self) -> bool {
        self.awaits_tunnel_decision
    }

    /// Declines the tunnel that the last request asks for. Parsing continues with the next request, unless
    /// this request is the last one on the connection.
    pub fn decline_tunnel(&mut self) {
        self.awaits_tunnel_decision = false;
        if self.state == State::ExpectVerdict {
            self.end_request();
        }
    }

    /// Reads no more requests after the current one.
    pub fn stop(&mut self) {
        self.is_last = true;
        self.awaits_tunnel_decision = false;
        if matches!(self.state, State::ExpectRequest | State::ExpectVerdict) {
            self.state = State::ExpectNothing;
        }
    }

    /// Stops reading at once, even in the middle of a request.
    pub fn abandon(&mut self) {
        self.state = State::ExpectNothing;
    }

    /// Returns `true` while the content of a request is being read.
    pub const fn is_reading_content(&self) -> bool {
        matches!(self.state, State::ExpectContent(_))
    }

    /// Returns the number of content bytes that are still to come in the current request. The result is 0 if
    /// the request is complete, and `None` if the number is unknown.
    pub const fn content_remaining(&self) -> Option<u64> {
        match &self.state {
            State::ExpectContent(decoder) => decoder.remaining(),
            _ => Some(0),
        }
    }

    /// Returns `true` if no more requests can arrive.
    pub const fn is_finished(&self) -> bool {
        matches!(self.state, State::ExpectNothing)
    }

    /// Returns the number of requests on this connection.
    pub const fn request_count(&self) -> u64 {
        self.request_count
    }

    #[inline]
    fn handle_head<'i>(
        &mut self,
        input: &'i [u8],
        index: &mut HeadIndex,
    ) -> Result<(Option<ServerEvent<'i>>, usize), Error> {
        let limit = SectionLimit::of_header(&self.limits);
        if self.partial.is_same_line(input, limit)? {
            return Ok((None, 0));
        }
        if !request_line::parse(input, self.limits.request_target_bytes, &mut index.request_line)? {
            return Ok((None, 0));
        }
        let start = index.request_line.end;
        let mut fields = RequestFields::default();
        let observe = |name, value| fields.observe(name, value);
        let Some(end) = field_section::parse(input, start, limit, &mut index.spans, observe)? else {
            self.partial = PartialSection::new(start, input);
            return Ok((None, 0));
        };
        fields.settle(index, input)?;
        self.request_count += 1;
        index.facts.is_persistent &= self.request_count != self.limits.requests_per_connection;
        self.start_request(&index.facts)?;
        Ok((Some(ServerEvent::Request), end))
    }

    #[inline]
    fn start_request(&mut self, facts: &RequestFacts) -> Result<(), Error> {
        self.awaits_tunnel_decision = facts.wants_tunnel;
        self.is_last = !facts.is_persistent;
        if facts.body_length == BodyLength::NONE {
            self.end_request();
        } else {
            self.state = State::ExpectContent(ContentDecoder::new(facts.body_length, &self.limits)?);
        }
        Ok(())
    }

    fn handle_content<'i>(
        &mut self,
        input: &'i [u8],
        index: &mut HeadIndex,
    ) -> Result<(Option<ServerEvent<'i>>, usize), Error> {
        let State::ExpectContent(decoder) = &mut self.state else {
            return Ok((None, 0));
        };
        let found = decoder.decode(input, &self.limits, index)?;
        let event = match found.piece {
            Piece::Partial => None,
            Piece::Data(range) => Some(ServerEvent::Content(&input[range])),
            Piece::End => {
                self.end_request();
                Some(ServerEvent::EndOfContent)
            }
        };
        Ok((event, found.used))
    }

    #[inline]
    fn end_request(&mut self) {
        self.state = match (self.awaits_tunnel_decision, self.is_last) {
            (true, _) => State::ExpectVerdict,
            (false, true) => State::ExpectNothing,
            (false, false) => State::ExpectRequest,
        };
    }
}
