//! The server side of a connection, which reads requests.

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

/// Reads the requests of one connection, one after the other. The input can be split at any position.
///
/// Pass received bytes to [`handle_input`](Self::handle_input) until the function returns no more events.
/// Keep the unconsumed bytes, and pass them again together with the next bytes. The caller sends the
/// responses in the order of the requests: see [`write_response_head`](crate::write_response_head).
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
    /// `true` if the current request asks for a tunnel. The caller must accept or decline the tunnel
    /// after the end of the request.
    awaits_tunnel_decision: bool,
    /// `true` if the current request is the last request on this connection.
    is_last: bool,
    /// The state of an incomplete head.
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
    /// A request. To avoid a copy, the parser stores the [head](HeadIndex::request_head) and the
    /// [facts](HeadIndex::request_facts) of the request in the index. If the request has a body, the events
    /// `Content` and `EndOfContent` follow.
    Request,
    /// A part of the content, with at least one byte.
    Content(&'i [u8]),
    /// The end of the content. If the request has a [trailer section](HeadIndex::field_lines), the
    /// section is in the index.
    EndOfContent,
}

impl ServerConnection {
    /// Creates the server side of a new connection.
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

    /// Reads `input`. Returns the first event in `input`, and the number of consumed bytes. If the event
    /// is `None`, the parser needs more input: call this function again with the unconsumed bytes and the
    /// bytes that follow.
    ///
    /// # Errors
    /// Returns the rule that `input` breaks. After an error, the parser cannot read further requests on this
    /// connection.
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

    /// Reads the next request without parsing it, if its head is equal to the previous head. Returns the number
    /// of consumed bytes. The contents of `index` are then valid for this request too. If the result is `None`,
    /// nothing has changed: call [`handle_input`](Self::handle_input).
    ///
    /// A client that sends many requests at once often repeats the whole head. Comparing two heads is cheaper
    /// than parsing one. The index contains a copy of a head only if more input followed it.
    #[inline]
    pub fn repeat_request(&mut self, input: &[u8], index: &HeadIndex) -> Option<usize> {
        let count = self.request_count + 1;
        // The last request has other facts.
        if self.state != State::ExpectRequest || count == self.limits.requests_per_connection {
            return None;
        }
        let end = index.repeated_head_end(input, &self.limits)?;
        self.start_request(&index.facts).ok()?;
        self.request_count = count;
        Some(end)
    }

    /// Handles the end of the input. `unused` contains the input bytes that the parser has not consumed.
    ///
    /// # Errors
    /// Returns [`Error::IncompleteMessage`] if a request is incomplete.
    pub fn handle_end_of_input(&mut self, unused: &[u8]) -> Result<(), Error> {
        let is_incomplete = match self.state {
            State::ExpectRequest => !matches!(unused, [] | [b'\r'] | [b'\r', b'\n']),
            State::ExpectContent(_) => true,
            State::ExpectVerdict | State::ExpectNothing => false,
        };
        self.state = State::ExpectNothing;
        if is_incomplete { Err(Error::IncompleteMessage) } else { Ok(()) }
    }

    /// Skips the remaining content of the current request. Call this function only if the length of the
    /// content is known and all of the content has arrived. The caller must also skip the remaining content
    /// in its input.
    #[inline]
    pub fn skip_content(&mut self) {
        if self.content_remaining().is_some_and(|remaining| remaining > 0) {
            self.end_request();
        }
    }

    /// Skips `bytes` bytes of content that the caller has read directly from the connection. Has an effect
    /// only if the length of the content is known. If `bytes` is larger than the number of remaining content
    /// bytes, the function skips only the remaining bytes. [`handle_input`](Self::handle_input) still reports
    /// the end of the content.
    pub fn skip_bytes(&mut self, bytes: u64) {
        if let State::ExpectContent(decoder) = &mut self.state {
            decoder.skip(bytes);
        }
    }

    /// Returns `true` if the last request asks for a tunnel, and the caller has not yet declined the tunnel.
    /// The parser reads no further request until the caller declines the tunnel.
    pub const fn awaits_tunnel_decision(&self) -> bool {
        self.awaits_tunnel_decision
    }

    /// Declines the tunnel that the last request asks for. The parser then continues with the next
    /// request, unless the last request ends the connection.
    pub fn decline_tunnel(&mut self) {
        self.awaits_tunnel_decision = false;
        if self.state == State::ExpectVerdict {
            self.end_request();
        }
    }

    /// Makes the current request the last request on this connection. The parser reads no further request.
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

    /// Returns `true` while the parser reads the content of a request.
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

    /// Returns `true` if the parser expects the start or the rest of a request head.
    #[inline]
    pub const fn expects_request(&self) -> bool {
        matches!(self.state, State::ExpectRequest)
    }

    /// Returns the number of requests that the parser has read on this connection.
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
        let Some(end) = self.parse_head(input, limit, index)? else { return Ok((None, 0)) };
        self.request_count += 1;
        if self.request_count == self.limits.requests_per_connection {
            index.facts.is_persistent = false;
            // The changed fact is not valid for a request of another connection with the same head.
            index.forget_head();
        }
        self.start_request(&index.facts)?;
        Ok((Some(ServerEvent::Request), end))
    }

    /// Parses a request head into `index`. Returns its end, or `None` if the head is incomplete.
    #[inline]
    fn parse_head(
        &mut self,
        input: &[u8],
        limit: SectionLimit,
        index: &mut HeadIndex,
    ) -> Result<Option<usize>, Error> {
        if !request_line::parse(input, self.limits.request_target_bytes, &mut index.request_line)? {
            return Ok(None);
        }
        let start = index.request_line.end;
        let mut fields = RequestFields::default();
        let observe = |name, value| fields.observe(name, value);
        let Some(end) = field_section::parse(input, start, limit, index.clear(), observe)? else {
            self.partial = PartialSection::new(start, input);
            return Ok(None);
        };
        fields.settle(index, input)?;
        index.keep_head(input, end, &self.limits);
        Ok(Some(end))
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
