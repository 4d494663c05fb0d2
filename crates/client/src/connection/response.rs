//! Reads the response into buffers that many connections share, and parses the response in these buffers.
//! Events borrow from the shared buffers.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_http1::{BodyLength, ClientEvent, HeadIndex, Limits};
use thruway_message::{FieldLines, ResponseHead};
use thruway_net::{PooledBuffer, Transport};

use super::state::{Phase, State};
use crate::Error;

/// An event of a response. The event borrows from the read buffer.
#[derive(Clone, Copy, Debug)]
pub enum ResponseEvent<'t> {
    /// An interim response. The final response follows later (RFC 9110 §15.2).
    Interim(ResponseHead<'t>),
    /// The final response, and the rule that determines the end of its body. With [`BodyLength::NONE`], the
    /// response is complete. With any other rule, `Content` and `End` follow.
    Final(ResponseHead<'t>, BodyLength),
    /// A part of the body, with at least one byte.
    Content(&'t [u8]),
    /// The end of the response, with its trailer section. The section is empty if the response has no
    /// trailers.
    End(FieldLines<'t>),
    /// The connection has become a tunnel: see [`Exchange::into_tunnel`](super::Exchange::into_tunnel).
    Tunnel(ResponseHead<'t>),
}

/// A poll that reads a response. At the end of the poll, the connection keeps the data that was read but
/// not consumed.
///
/// If the caller cannot accept more of the body now, the caller ends the poll and begins another poll later.
/// Between the polls, the connection reads no data.
pub struct ResponsePoll<'e, T: Transport> {
    state: &'e mut State<T>,
    buffers: &'e ReadBuffers,
    scratch: Option<Box<ScratchBuffers>>,
    /// `true` if the parser input is `State::kept`, and `false` if it is the shared buffer.
    is_kept: bool,
    /// The input bytes `parsed..filled` are still to be parsed.
    parsed: usize,
    filled: usize,
    /// Length of the body part in the most recent event.
    given: usize,
    read_bytes_max: usize,
}

/// An event without its data. The data is at `start..end` of the input.
#[derive(Clone, Copy)]
struct Found {
    kind: Kind,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Interim,
    Final(BodyLength),
    Content,
    /// The body has ended. If the response has a trailer section, the index has the positions of its
    /// fields.
    End {
        has_section: bool,
    },
    Tunnel,
}

impl<'e, T: Transport> ResponsePoll<'e, T> {
    #[inline]
    pub(super) fn new(state: &'e mut State<T>, buffers: &'e ReadBuffers) -> Self {
        let is_kept = !state.kept.is_empty();
        let (parsed, filled) = (state.kept_parsed, state.kept.len());
        Self { state, buffers, scratch: None, is_kept, parsed, filled, given: 0, read_bytes_max: usize::MAX }
    }

    /// Limits the number of bytes in one read to `bytes`, or to 1 if `bytes` is 0. By default, a read can
    /// fill the buffer, which has at least 256 KiB. If the receiver of the body is slow, a low limit
    /// reduces the data that the connection must keep.
    pub const fn read_at_most(&mut self, bytes: usize) {
        self.read_bytes_max = if bytes == 0 { 1 } else { bytes };
    }

    /// Returns the next event of the response. Before it reads, this function writes the buffered bytes of
    /// the request. After the `End` event, the function returns `End` again.
    ///
    /// # Errors
    /// Returns an error if the connection has ended too early, a timeout has expired, or the upstream
    /// server broke a rule. The exchange cannot continue after an error.
    #[inline]
    pub fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Poll<Result<ResponseEvent<'_>, Error>> {
        if !self.state.output.is_empty()
            && let Poll::Ready(Err(error)) = self.state.poll_flush(cx, now)
        {
            return Poll::Ready(Err(error));
        }
        let found = ready!(self.poll_found(cx, now))?;
        Poll::Ready(Ok(self.event(found)))
    }

    /// Puts back the last `bytes` bytes of the most recent body part. The next event returns these bytes
    /// again.
    ///
    /// # Panics
    /// Panics if `bytes` is larger than the most recent body part.
    pub fn put_back(&mut self, bytes: usize) {
        assert!(bytes <= self.given, "only bytes of the last event can be put back");
        self.parsed -= bytes;
        self.state.put_back = bytes;
        self.given = 0;
    }

    /// Returns the remaining bytes of the body if the length of the body is known and all of these bytes have
    /// arrived. The response is then complete, as after an `End` event.
    #[inline]
    pub fn take_content(&mut self) -> Option<&[u8]> {
        if self.state.put_back > 0 {
            return None;
        }
        let length = self.state.http1.take_content(self.filled - self.parsed)?;
        let start = self.parsed;
        self.parsed += length;
        self.given = 0;
        self.state.handle_end();
        let input = match &self.scratch {
            _ if self.is_kept => &self.state.kept[..],
            Some(scratch) => &scratch.input[..],
            None => &[],
        };
        Some(&input[start..self.parsed])
    }

    #[inline]
    fn poll_found(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<Found, Error>> {
        self.given = 0;
        loop {
            if let Some(found) = self.parse()? {
                return Poll::Ready(Ok(found));
            }
            if self.state.is_input_ended {
                return Poll::Ready(self.handle_end_of_input());
            }
            match self.poll_read(cx) {
                Poll::Pending => {
                    self.state.wait_to_read(now)?;
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => self.state.is_input_ended = true,
                Poll::Ready(Ok(read)) => {
                    self.filled += read;
                    self.state.note_received();
                }
                Poll::Ready(Err(_)) if self.state.may_end_by_reset() => self.state.is_input_ended = true,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(self.state.closed())),
            }
        }
    }

    /// Parses the next event. Returns `None` if the event has not arrived completely.
    #[inline]
    fn parse(&mut self) -> Result<Option<Found>, Error> {
        let start = self.parsed;
        if self.state.put_back > 0 {
            self.given = std::mem::take(&mut self.state.put_back);
            self.parsed += self.given;
            return Ok(Some(Found { kind: Kind::Content, start, end: self.parsed }));
        }
        match self.state.phase {
            // An empty input contains no event.
            Phase::ExpectHead { .. } if start == self.filled => return Ok(None),
            Phase::ExpectHead { .. } | Phase::ExpectContent { .. } => {}
            Phase::Complete | Phase::Tunnel => {
                return Ok(Some(Found { kind: Kind::End { has_section: false }, start, end: start }));
            }
        }
        let ScratchBuffers { input, index } =
            &mut **self.scratch.get_or_insert_with(|| self.buffers.take(self.state.input_bytes));
        let input = if self.is_kept { &self.state.kept[..] } else { &input[..self.filled] };
        let (event, used) = match self.state.http1.handle_input(&input[start..], index) {
            Ok(found) => found,
            Err(rule) => return Err(self.state.malformed(rule)),
        };
        self.parsed += used;
        let end = self.parsed;
        let status = || index.response_head(&input[start..end]).status;
        let found = match event {
            None => return Ok(None),
            Some(ClientEvent::Content(content)) => {
                self.given = content.len();
                return Ok(Some(Found { kind: Kind::Content, start: end - content.len(), end }));
            }
            Some(ClientEvent::Interim) => {
                self.state.handle_interim(status());
                Kind::Interim
            }
            Some(ClientEvent::Response(body_length)) => {
                self.state.handle_final(status(), body_length);
                Kind::Final(body_length)
            }
            Some(ClientEvent::EndOfContent) => {
                self.state.handle_end();
                Kind::End { has_section: true }
            }
            Some(ClientEvent::Tunnel) => {
                self.state.handle_tunnel()?;
                Kind::Tunnel
            }
        };
        Ok(Some(Found { kind: found, start, end }))
    }

    /// Returns the event with its borrowed data.
    #[inline]
    fn event(&mut self, found: Found) -> ResponseEvent<'_> {
        let ScratchBuffers { input, index } =
            &**self.scratch.get_or_insert_with(|| self.buffers.take(self.state.input_bytes));
        let input = if self.is_kept { &self.state.kept[..] } else { &input[..] };
        let bytes = &input[found.start..found.end];
        match found.kind {
            Kind::Content => ResponseEvent::Content(bytes),
            Kind::Interim => ResponseEvent::Interim(index.response_head(bytes)),
            Kind::Final(body_length) => ResponseEvent::Final(index.response_head(bytes), body_length),
            Kind::Tunnel => ResponseEvent::Tunnel(index.response_head(bytes)),
            Kind::End { has_section: true } => ResponseEvent::End(index.field_lines(bytes)),
            Kind::End { has_section: false } => ResponseEvent::End(FieldLines::default()),
        }
    }

    /// Moves the unparsed bytes to the start of the shared buffer, and reads more bytes after them.
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let ScratchBuffers { input, .. } =
            &mut **self.scratch.get_or_insert_with(|| self.buffers.take(self.state.input_bytes));
        let left = self.filled - self.parsed;
        if self.is_kept {
            input[..left].copy_from_slice(&self.state.kept[self.parsed..]);
            self.state.kept = PooledBuffer::default();
            self.is_kept = false;
        } else if left > 0 {
            input.copy_within(self.parsed..self.filled, 0);
        }
        (self.parsed, self.filled) = (0, left);
        let end = input.len().min(left.saturating_add(self.read_bytes_max));
        self.state.transport.poll_read(cx, &mut input[left..end])
    }

    /// Handles the end of the input. Completes the response if its body lasts until the connection
    /// closes. Otherwise, returns an error.
    #[cold]
    fn handle_end_of_input(&mut self) -> Result<Found, Error> {
        let closed = self.state.closed();
        let input = match (&self.scratch, self.is_kept) {
            (_, true) => &self.state.kept[self.parsed..],
            (Some(scratch), false) => &scratch.input[self.parsed..self.filled],
            (None, false) => &[],
        };
        match self.state.http1.handle_end_of_input(input) {
            Ok(true) => {
                self.parsed = self.filled;
                self.state.handle_end();
                Ok(Found { kind: Kind::End { has_section: false }, start: self.parsed, end: self.parsed })
            }
            Ok(false) | Err(_) => Err(closed),
        }
    }
}

impl<T: Transport> Drop for ResponsePoll<'_, T> {
    /// Keeps the unconsumed data for the next poll.
    #[inline]
    fn drop(&mut self) {
        let is_left = self.parsed < self.filled;
        self.state.kept_parsed = 0;
        if !self.is_kept {
            if is_left && let Some(scratch) = &self.scratch {
                self.state.kept = PooledBuffer::copy_of(&scratch.input[self.parsed..self.filled]);
            }
        } else if is_left {
            self.state.kept_parsed = self.parsed;
        } else {
            self.state.kept = PooledBuffer::default();
        }
        if let Some(scratch) = self.scratch.take() {
            self.buffers.give_back(scratch);
        }
    }
}

/// The buffers that polls share. Only one poll can use the buffers at a time, so use one value for each
/// thread or for each exchange. The first poll allocates the buffers, with at least 256 KiB.
#[derive(Default)]
pub struct ReadBuffers(Cell<Option<Box<ScratchBuffers>>>);

/// The buffers that a connection needs only during a poll.
struct ScratchBuffers {
    input: Box<[u8]>,
    /// The positions of the field lines in the most recently parsed head or trailer section.
    index: HeadIndex,
}

impl ReadBuffers {
    /// Takes the buffers, which have at least `input_bytes` bytes for input. In rare cases, another poll uses
    /// the shared buffers at the same time. The function then allocates new buffers.
    #[inline]
    fn take(&self, input_bytes: usize) -> Box<ScratchBuffers> {
        let known = self.0.take().filter(|buffers| buffers.input.len() >= input_bytes);
        known.unwrap_or_else(|| ScratchBuffers::new(input_bytes))
    }

    /// Keeps the buffers for the next poll.
    #[inline]
    fn give_back(&self, buffers: Box<ScratchBuffers>) {
        self.0.set(Some(buffers));
    }
}

impl ScratchBuffers {
    #[cold]
    fn new(input_bytes: usize) -> Box<Self> {
        let input = vec![0; input_bytes.max(INPUT_BYTES)].into_boxed_slice();
        Box::new(Self { input, index: HeadIndex::with_capacity(FIELD_LINES) })
    }
}

impl fmt::Debug for ReadBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBuffers").finish_non_exhaustive()
    }
}

/// Returns the size of a buffer for the largest head or trailer section, with some reserve. The parser
/// needs a whole head or section in one piece.
pub(super) fn input_bytes(limits: &Limits) -> usize {
    let head_bytes_max = STATUS_LINE_BYTES_MAX + limits.header_section_bytes as usize;
    let trailer_bytes_max = limits.trailer_section_bytes as usize + limits.chunk_extension_bytes as usize;
    head_bytes_max.max(trailer_bytes_max) + FREE_BYTES
}

/// Minimum size of the input buffer in bytes, and usually the maximum of one read. For large bodies, 256
/// KiB saves a fifth of a relay's CPU time compared with 64 KiB.
const INPUT_BYTES: usize = 256 << 10;

/// Initial number of field lines in the index. This capacity is enough for most heads, and the index
/// grows for larger heads.
const FIELD_LINES: usize = 128;

/// Maximum length of a status line in `thruway-http1`, in bytes.
const STATUS_LINE_BYTES_MAX: usize = 1024;

const FREE_BYTES: usize = 16 << 10;
