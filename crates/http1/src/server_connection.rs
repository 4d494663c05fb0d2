//! The server's side of a connection: requests in.

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

/// Reads the requests of one connection, one after the other, however they are cut into pieces.
///
/// Feed what has arrived to [`handle_input`](Self::handle_input) until it finds nothing more in it; keep what
/// it did not use and feed it again with what arrives next. The responses, in the order of the requests, are
/// the caller's: see [`write_response_head`](crate::write_response_head).
///
/// ```text
/// ExpectRequest ──head──▶ ExpectContent ──end──▶ ExpectRequest
///   └─ after the end of a request that …
///        ends the connection ──▶ ExpectNothing
///        wants a tunnel ──▶ ExpectVerdict ──decline_tunnel──▶ ExpectRequest or ExpectNothing
/// ```
#[derive(Clone, Debug)]
pub struct ServerConnection {
    state: State,
    /// Whether the end of the present request is followed by a verdict on the tunnel that it wants.
    awaits_verdict: bool,
    /// Whether no request is read after the present one.
    is_last: bool,
    /// What is known of the head that is awaited.
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

/// What the octets meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerEvent<'i> {
    /// A request: its [head](HeadIndex::request_head) and the [facts](HeadIndex::request_facts) are in the
    /// index, which is where they were put together. If its body has a length, its content and the end of it
    /// follow.
    Request,
    /// Some of the content, never empty.
    Content(&'i [u8]),
    /// The content is complete; the [trailer section](HeadIndex::field_lines), if there was one, is in the
    /// index.
    EndOfContent,
}

impl ServerConnection {
    /// A connection on which nothing has arrived.
    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::ExpectRequest,
            awaits_verdict: false,
            is_last: false,
            partial: PartialSection::default(),
            request_count: 0,
            limits,
        }
    }

    /// Reads `input`. Returns the first event in it and how many octets that used up; `None` asks for more
    /// than what is left then.
    ///
    /// # Errors
    /// The rule that the input breaks. Nothing can be read from the connection any more.
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

    /// The client will send nothing more; `unused` is what it sent last.
    ///
    /// # Errors
    /// [`Error::IncompleteMessage`] if a request had begun and not ended.
    pub fn handle_end_of_input(&mut self, unused: &[u8]) -> Result<(), Error> {
        let is_incomplete = match self.state {
            State::ExpectRequest => !matches!(unused, [] | [b'\r'] | [b'\r', b'\n']),
            State::ExpectContent(_) => true,
            State::ExpectVerdict | State::ExpectNothing => false,
        };
        self.state = State::ExpectNothing;
        if is_incomplete { Err(Error::IncompleteMessage) } else { Ok(()) }
    }

    /// Passes over the content of a known length of the request that was read last: the caller has found all
    /// of it in its input.
    #[inline]
    pub fn skip_content(&mut self) {
        if self.content_remaining().is_some_and(|remaining| remaining > 0) {
            self.end_request();
        }
    }

    /// Passes over `octets` of content of a known length: the caller has taken them from the connection in
    /// another way than through its input. What goes beyond the content is not counted; its end is still an
    /// event.
    pub fn skip_octets(&mut self, octets: u64) {
        if let State::ExpectContent(decoder) = &mut self.state {
            decoder.skip(octets);
        }
    }

    /// Whether nothing is parsed until it is clear whether the last request makes a tunnel of the connection.
    pub const fn awaits_verdict(&self) -> bool {
        self.awaits_verdict
    }

    /// Goes on after a request that wanted a tunnel and did not get it: with the next request, unless the
    /// connection ends with this one.
    pub fn decline_tunnel(&mut self) {
        self.awaits_verdict = false;
        if self.state == State::ExpectVerdict {
            self.end_request();
        }
    }

    /// Reads no further request after the present one.
    pub fn stop(&mut self) {
        self.is_last = true;
        self.awaits_verdict = false;
        if matches!(self.state, State::ExpectRequest | State::ExpectVerdict) {
            self.state = State::ExpectNothing;
        }
    }

    /// Reads nothing any more, not even the rest of the present request.
    pub fn abandon(&mut self) {
        self.state = State::ExpectNothing;
    }

    /// Whether the content of a request is being read.
    pub const fn is_reading_content(&self) -> bool {
        matches!(self.state, State::ExpectContent(_))
    }

    /// Octets of content still to come in the present request: 0 if it is complete, `None` if that is not
    /// known.
    pub const fn content_remaining(&self) -> Option<u64> {
        match &self.state {
            State::ExpectContent(decoder) => decoder.remaining(),
            _ => Some(0),
        }
    }

    /// Whether no request can come any more.
    pub const fn is_finished(&self) -> bool {
        matches!(self.state, State::ExpectNothing)
    }

    /// How many requests came on this connection.
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
        self.awaits_verdict = facts.wants_tunnel;
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
        self.state = match (self.awaits_verdict, self.is_last) {
            (true, _) => State::ExpectVerdict,
            (false, true) => State::ExpectNothing,
            (false, false) => State::ExpectRequest,
        };
    }
}
