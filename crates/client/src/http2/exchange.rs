//! A request and its response on an HTTP/2 stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use thruway_http1::{self as http1, BodyLength, ResponseTo};
use thruway_message::{FieldLines, FieldLinesBuf};
use thruway_net::Http2Stream;

use super::head::{Received, field_map};
use super::state::Counted;
use crate::timers::{Awaited, Timers};
use crate::upgrade::Upgrade;
use crate::{Config, Error, ResponseEvent, Timeouts};

/// A request and its response while they are in progress. Dropping an unfinished exchange resets its
/// stream. The connection stays open.
pub struct Exchange {
    sending: Sending,
    phase: Phase,
    timers: Timers,
    config: Config,
    response_to: ResponseTo,
    upgrade: Option<Upgrade>,

    // the outgoing request
    send: SendStream<Bytes>,
    /// The part of the body that was written together with the head.
    first: Bytes,

    // the incoming response
    response: ResponseFuture,
    content: Option<RecvStream>,
    interim_responses: u32,
    /// The most recent head or trailer section, from which events borrow.
    head: Received,
    piece: Bytes,

    counted: Counted,
}

/// A stream that has become a tunnel. Dropping the tunnel resets the stream, unless the stream has ended.
pub type Tunnel = Http2Stream<Counted>;

/// The initial values of an exchange.
pub(super) struct Parts {
    pub(super) response: ResponseFuture,
    pub(super) send: SendStream<Bytes>,
    pub(super) content: Bytes,
    pub(super) sending: Sending,
    pub(super) upgrade: Option<Upgrade>,
    pub(super) counted: Counted,
}

/// The part of the request that is still to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sending {
    /// The remaining bytes of a body of known length.
    Bytes { remaining: u64 },
    /// The remaining part of a body of unknown length.
    Chunked,
    /// The client has sent the whole request.
    Complete,
    /// The client has stopped before the whole request was sent, because the upstream server does not want
    /// the unsent part.
    Stopped,
}

/// The part of the response that is still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    ExpectHead,
    ExpectContent,
    Complete,
    Tunnel,
}

impl Exchange {
    pub(super) fn new(parts: Parts, response_to: ResponseTo, config: Config, now: Duration) -> Self {
        let Parts { response, send, content, sending, upgrade, counted } = parts;
        Self {
            sending,
            phase: Phase::ExpectHead,
            timers: Timers::new(now, None),
            config,
            response_to,
            upgrade,
            send,
            first: content,
            response,
            content: None,
            interim_responses: 0,
            head: Received::default(),
            piece: Bytes::new(),
            counted,
        }
    }

    /// Returns the timeouts of this exchange.
    pub const fn timeouts(&self) -> Timeouts {
        self.config.timeouts
    }

    /// Replaces the timeouts of this exchange.
    pub const fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.config.timeouts = timeouts;
    }

    /// Returns `true` if the response is complete. If a part of the request is still unsent, the exchange
    /// never sends this part.
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Complete
    }

    /// Returns `true` if the caller can send more of the request body. Returns `false` after the whole
    /// body was sent, after the end of the response, and after the upstream server has reset the stream.
    /// After an error status, the result can be `true`, because the server may still read the body (RFC
    /// 9113 §8.1).
    pub const fn wants_content(&self) -> bool {
        matches!(self.sending, Sending::Bytes { .. } | Sending::Chunked)
    }

    /// Returns `true` if the whole request was passed to the h2 library.
    fn is_request_sent(&self) -> bool {
        self.first.is_empty() && !self.wants_content()
    }

    /// Becomes ready when the flow-control windows allow the caller to send more of the body.
    ///
    /// # Errors
    /// Returns an error if a timeout has expired.
    pub fn poll_write_capacity(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        if self.poll_first(cx, now)?.is_pending() {
            return Poll::Pending;
        }
        self.poll_capacity(cx, now, 1).map_ok(drop)
    }

    /// Sends bytes from the start of `content`, and removes these bytes from `content`. If the upstream
    /// server no longer [wants](Self::wants_content) the body, removes all bytes without sending them.
    ///
    /// # Errors
    /// Returns an error if a timeout has expired, or if the body is longer than the head has announced.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &mut Bytes,
    ) -> Poll<Result<(), Error>> {
        if let Sending::Bytes { remaining } = self.sending
            && content.len() as u64 > remaining
        {
            return Poll::Ready(Err(Error::RequestContentTooLong));
        }
        let capacity = ready!(self.poll_capacity(cx, now, content.len()))?;
        let part = content.split_to(capacity.min(content.len()));
        if let Sending::Bytes { remaining } = &mut self.sending {
            *remaining -= part.len() as u64;
        }
        let is_last = self.sending == Sending::Bytes { remaining: 0 };
        if is_last {
            self.sending = Sending::Complete;
        }
        self.send(part, is_last);
        Poll::Ready(Ok(()))
    }

    /// Ends the request body. Sends `trailers` at the end of a body of unknown length.
    ///
    /// # Errors
    /// Returns an error if the body is shorter than the head has announced.
    pub fn finish_content(&mut self, trailers: &FieldLinesBuf) -> Result<(), Error> {
        match self.sending {
            Sending::Bytes { .. } => return Err(Error::RequestContentTooShort),
            Sending::Chunked if trailers.bytes().is_empty() => {
                self.sending = Sending::Complete;
                self.send(Bytes::new(), true);
            }
            Sending::Chunked => {
                self.sending = Sending::Complete;
                // `send_trailers` fails if the stream has ended. Reading the response reports the same
                // error.
                let _ = self.send.send_trailers(field_map(trailers));
            }
            Sending::Complete | Sending::Stopped => {}
        }
        Ok(())
    }

    /// Sends the part of the body that was written together with the head.
    fn poll_first(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        while !self.first.is_empty() {
            let capacity = ready!(self.poll_capacity(cx, now, self.first.len()))?;
            let part = self.first.split_to(capacity.min(self.first.len()));
            let is_last = self.first.is_empty() && !self.wants_content();
            self.send(part, is_last);
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until the flow-control windows allow sending data. Returns the number of bytes that can be
    /// sent, which is at least 1 if `wanted` is not 0.
    fn poll_capacity(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        wanted: usize,
    ) -> Poll<Result<usize, Error>> {
        self.send.reserve_capacity(wanted);
        let mut capacity = self.send.capacity();
        while capacity == 0 && wanted > 0 {
            match self.send.poll_capacity(cx) {
                Poll::Pending => {
                    self.wait_to_write(now)?;
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(granted))) => capacity = granted,
                // Reading the response reports the end of the stream.
                Poll::Ready(Some(Err(_)) | None) => {
                    self.stop_sending();
                    return Poll::Ready(Ok(usize::MAX));
                }
            }
        }
        self.timers.stalled_since = None;
        Poll::Ready(Ok(capacity))
    }

    /// Sends data. Ignores the error of an ended stream, because reading the response reports this error.
    fn send(&mut self, data: Bytes, is_last: bool) {
        if self.sending != Sending::Stopped {
            let _ = self.send.send_data(data, is_last);
        }
    }

    fn stop_sending(&mut self) {
        self.sending = Sending::Stopped;
        self.first = Bytes::new();
        self.timers.stalled_since = None;
    }

    /// Returns the next event of the response. First sends the part of the body that was written together
    /// with the head. After the `End` event, returns `End` again.
    ///
    /// # Errors
    /// Returns an error if the stream or connection ended too early, a timeout has expired, or the
    /// upstream server broke a rule. The exchange cannot continue after an error.
    pub fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Poll<Result<ResponseEvent<'_>, Error>> {
        if let Poll::Ready(Err(error)) = self.poll_first(cx, now) {
            return Poll::Ready(Err(error));
        }
        match self.phase {
            Phase::ExpectHead => self.poll_head(cx, now),
            Phase::ExpectContent => self.poll_content(cx, now),
            Phase::Complete | Phase::Tunnel => Poll::Ready(Ok(ResponseEvent::End(FieldLines::default()))),
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<ResponseEvent<'_>, Error>> {
        if let Poll::Ready(Some(Ok(interim))) = self.response.poll_informational(cx) {
            self.interim_responses += 1;
            self.note_answered();
            if self.interim_responses > self.config.limits.interim_responses {
                return Poll::Ready(Err(Error::HeadMalformed(http1::Error::InterimResponsesTooMany)));
            }
            // HTTP/2 has no status 101 (RFC 9113 §8.6). A client that received this status would
            // interpret the following bytes as another protocol.
            if interim.status() == http::StatusCode::SWITCHING_PROTOCOLS {
                return Poll::Ready(Err(Error::HeadMalformed(http1::Error::UnexpectedMessage)));
            }
            self.head = Received::head(&interim, &self.config.limits).map_err(Error::HeadMalformed)?;
            return Poll::Ready(Ok(ResponseEvent::Interim(self.head.as_head())));
        }
        let response = match Pin::new(&mut self.response).poll(cx) {
            Poll::Pending => {
                self.wait_to_read(now)?;
                return Poll::Pending;
            }
            Poll::Ready(response) => response.map_err(|error| error_before_head(&error))?,
        };
        let (head, content) = response.into_parts();
        let mut head = http::Response::from_parts(head, ());
        self.note_answered();
        if let Some(upgrade) = self.upgrade.take() {
            if head.status().is_success() {
                upgrade.switch(&mut head);
                self.head = Received::head(&head, &self.config.limits).map_err(Error::HeadMalformed)?;
                self.phase = Phase::Tunnel;
                self.content = Some(content);
                return Poll::Ready(Ok(ResponseEvent::Tunnel(self.head.as_head())));
            }
            // The server refused the tunnel, so the exchange ends the request stream.
            self.send(Bytes::new(), true);
        }
        self.head = Received::head(&head, &self.config.limits).map_err(Error::HeadMalformed)?;
        let body_length = self.body_length();
        if body_length == BodyLength::NONE {
            self.complete();
        } else {
            self.phase = Phase::ExpectContent;
            self.content = Some(content);
        }
        Poll::Ready(Ok(ResponseEvent::Final(self.head.as_head(), body_length)))
    }

    /// Returns the rule that determines the end of the body. If the head announced a length, the h2 library
    /// verifies the length.
    fn body_length(&self) -> BodyLength {
        let head = self.head.as_head();
        if self.response_to == ResponseTo::Head || head.status.is_without_content() {
            return BodyLength::NONE;
        }
        let length = head.field("content-length");
        match length.and_then(|value| http1::parse_content_length(value.as_bytes()).ok()) {
            // Trailers can follow an empty body, so the length 0 does not complete the response.
            Some(0) | None => BodyLength::Chunked,
            Some(bytes) => BodyLength::Bytes(bytes),
        }
    }

    fn poll_content(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Poll<Result<ResponseEvent<'_>, Error>> {
        let Some(content) = &mut self.content else { return Poll::Ready(Err(Error::ContentIncomplete)) };
        loop {
            match content.poll_data(cx) {
                Poll::Pending => {
                    self.wait_to_read(now)?;
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(data))) if data.is_empty() => {}
                Poll::Ready(Some(Ok(data))) => {
                    // `release_capacity` fails only if more bytes are released than have arrived. The bytes
                    // are released at once, because a caller that cannot accept more data does not poll.
                    let _ = content.flow_control().release_capacity(data.len());
                    self.piece = data;
                    self.note_answered();
                    return Poll::Ready(Ok(ResponseEvent::Content(&self.piece)));
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Error::ContentIncomplete)),
                Poll::Ready(None) => break,
            }
        }
        let trailers = match content.poll_trailers(cx) {
            Poll::Pending => {
                self.wait_to_read(now)?;
                return Poll::Pending;
            }
            Poll::Ready(trailers) => trailers.map_err(|_| Error::ContentIncomplete)?.unwrap_or_default(),
        };
        self.head = Received::trailers(&trailers, &self.config.limits).map_err(Error::ContentMalformed)?;
        self.complete();
        Poll::Ready(Ok(ResponseEvent::End(self.head.field_lines())))
    }

    /// Returns the tunnel, or `None` if the response has not opened a [tunnel](ResponseEvent::Tunnel).
    pub fn into_tunnel(self) -> Option<Tunnel> {
        let Self { phase, send, content, mut counted, .. } = self;
        counted.note_complete();
        content.filter(|_| phase == Phase::Tunnel).map(|content| Http2Stream::new(send, content, counted))
    }

    /// Records that a part of the response has arrived.
    fn note_answered(&mut self) {
        self.timers.waiting_since = None;
        self.counted.note_answered();
    }

    /// Records the end of the response. If a part of the request is unsent, resets the stream, because the
    /// upstream server does not need this part.
    fn complete(&mut self) {
        self.phase = Phase::Complete;
        self.counted.note_complete();
        if !self.is_request_sent() {
            self.stop_sending();
            self.send.send_reset(Reason::NO_ERROR);
        }
    }
}

/// Returns the error for a stream that ended without a response. If the upstream server reports that it
/// has not processed the request, the request may always be sent again (RFC 9113 §8.7).
fn error_before_head(error: &h2::Error) -> Error {
    match error.reason() {
        Some(Reason::REFUSED_STREAM) if error.is_remote() => Error::StreamRefused,
        Some(_) if error.is_remote() && error.is_go_away() => Error::StreamRefused,
        Some(_) if error.is_reset() => Error::StreamReset,
        _ => Error::ClosedBeforeResponse,
    }
}

impl Exchange {
    /// Returns the time at which to poll again if nothing happens earlier, or `None` if no timeout is active.
    pub fn deadline(&self) -> Option<Duration> {
        self.timers.deadline(self.awaited(), &self.config.timeouts)
    }

    /// Records that no data has arrived. Returns an error if a timeout has expired.
    fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        let awaited = self.awaited();
        let is_waiting = awaited == Awaited::Content || self.is_request_sent();
        self.timers.wait_to_read(is_waiting, awaited, &self.config.timeouts, now)
    }

    /// Records that no data could be sent. Returns an error if a timeout has expired.
    fn wait_to_write(&mut self, now: Duration) -> Result<(), Error> {
        self.timers.wait_to_write(self.awaited(), &self.config.timeouts, now)
    }

    const fn awaited(&self) -> Awaited {
        match self.phase {
            Phase::ExpectHead => Awaited::Head,
            Phase::ExpectContent => Awaited::Content,
            Phase::Complete | Phase::Tunnel => Awaited::Nothing,
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("phase", &self.phase).finish_non_exhaustive()
    }
}
