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

/// A request and its response while they are in progress. Dropping an unfinished exchange resets its stream;
/// the connection stays open.
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
    /// The most recent head or trailer section. Events borrow it.
    head: Received,
    piece: Bytes,

    counted: Counted,
}

/// A stream that has become a tunnel. Dropping it resets the stream unless it has ended.
pub type Tunnel = Http2Stream<Counted>;

/// The initial parts of an exchange.
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
    /// This number of body bytes.
    Bytes { remaining: u64 },
    /// A body of unknown length.
    Chunked,
    /// Nothing is left.
    Complete,
    /// The request is incomplete, but the upstream server does not want the rest.
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

    /// Replaces the timeouts from the config.
    pub const fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.config.timeouts = timeouts;
    }

    /// Returns `true` if the response is complete. The unsent rest of the request is then never sent.
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Complete
    }

    /// Returns `true` if more of the request body can be sent. It returns `false` after the whole body was
    /// sent, the response is complete, or the upstream server has reset the stream. Until then, the server
    /// may read on, even after an error status (RFC 9113 §8.1).
    pub const fn wants_content(&self) -> bool {
        matches!(self.sending, Sending::Bytes { .. } | Sending::Chunked)
    }

    /// Returns `true` if the whole request was passed to the h2 library.
    fn is_request_sent(&self) -> bool {
        self.first.is_empty() && !self.wants_content()
    }

    /// Ready when the flow-control windows allow sending more of the body.
    ///
    /// # Errors
    /// A timeout has expired.
    pub fn poll_write_capacity(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        if self.poll_first(cx, now)?.is_pending() {
            return Poll::Pending;
        }
        self.poll_capacity(cx, now, 1).map_ok(drop)
    }

    /// Sends some of `content`, and removes that part from it. Data that is no longer
    /// [wanted](Self::wants_content) is removed without being sent.
    ///
    /// # Errors
    /// A timeout has expired, or the body is longer than the head has announced.
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
        let room = ready!(self.poll_capacity(cx, now, content.len()))?;
        let part = content.split_to(room.min(content.len()));
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

    /// Ends the body with `trailers`.
    ///
    /// # Errors
    /// The body is shorter than the head has announced.
    pub fn finish_content(&mut self, trailers: &FieldLinesBuf) -> Result<(), Error> {
        match self.sending {
            Sending::Bytes { .. } => return Err(Error::RequestContentTooShort),
            Sending::Chunked if trailers.bytes().is_empty() => {
                self.sending = Sending::Complete;
                self.send(Bytes::new(), true);
            }
            Sending::Chunked => {
                self.sending = Sending::Complete;
                // This fails if the stream has ended. The response reports that.
                let _ = self.send.send_trailers(field_map(trailers));
            }
            Sending::Complete | Sending::Stopped => {}
        }
        Ok(())
    }

    /// Sends the part of the body that was written together with the head.
    fn poll_first(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        while !self.first.is_empty() {
            let room = ready!(self.poll_capacity(cx, now, self.first.len()))?;
            let part = self.first.split_to(room.min(self.first.len()));
            let is_last = self.first.is_empty() && !self.wants_content();
            self.send(part, is_last);
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for flow-control capacity. Returns at least 1 if `wanted` is not 0.
    fn poll_capacity(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        wanted: usize,
    ) -> Poll<Result<usize, Error>> {
        self.send.reserve_capacity(wanted);
        let mut room = self.send.capacity();
        while room == 0 && wanted > 0 {
            match self.send.poll_capacity(cx) {
                Poll::Pending => {
                    self.wait_to_write(now)?;
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(capacity))) => room = capacity,
                // The response reports the end of the stream.
                Poll::Ready(Some(Err(_)) | None) => {
                    self.stop_sending();
                    return Poll::Ready(Ok(usize::MAX));
                }
            }
        }
        self.timers.stalled_since = None;
        Poll::Ready(Ok(room))
    }

    /// Sends data. Ignores the error of an ended stream, because the response reports it.
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
    /// with the head. After the end, it returns the end again.
    ///
    /// # Errors
    /// The stream or connection ended too early, a timeout has expired, or the upstream server broke a rule.
    /// The exchange is over.
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
            // HTTP/2 has no status 101 (RFC 9113 §8.6). A client that received it would take the following
            // bytes for another protocol.
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
            // The tunnel was refused, so the request is complete.
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

    /// Returns the way to find the end of the body. The h2 library verifies an announced length.
    fn body_length(&self) -> BodyLength {
        let head = self.head.as_head();
        if self.response_to == ResponseTo::Head || head.status.is_without_content() {
            return BodyLength::NONE;
        }
        let length = head.field("content-length");
        match length.and_then(|value| http1::parse_content_length(value.as_bytes()).ok()) {
            // Trailers can follow an empty body.
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
                    // This fails only for more bytes than have arrived. A caller without capacity does not
                    // poll.
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

    /// Returns the tunnel. Returns `None` unless the response was a [tunnel](ResponseEvent::Tunnel).
    pub fn into_tunnel(self) -> Option<Tunnel> {
        let Self { phase, send, content, mut counted, .. } = self;
        counted.note_complete();
        content.filter(|_| phase == Phase::Tunnel).map(|content| Http2Stream::new(send, content, counted))
    }

    /// Records that a part of the response has arrived.
    fn note_answered(&mut self) {
        self.timers.owed_since = None;
        self.counted.note_answered();
    }

    /// Records the end of the response. The rest of the request is then useless.
    fn complete(&mut self) {
        self.phase = Phase::Complete;
        self.counted.note_complete();
        if !self.is_request_sent() {
            self.stop_sending();
            self.send.send_reset(Reason::NO_ERROR);
        }
    }
}

/// Returns the error for a stream that ended without a response. Requests that the upstream server reports as
/// not processed may always be sent again (RFC 9113 §8.7).
fn error_before_head(error: &h2::Error) -> Error {
    match error.reason() {
        Some(Reason::REFUSED_STREAM) if error.is_remote() => Error::StreamRefused,
        Some(_) if error.is_remote() && error.is_go_away() => Error::StreamRefused,
        Some(_) if error.is_reset() => Error::StreamReset,
        _ => Error::ClosedBeforeResponse,
    }
}

impl Exchange {
    /// Returns the time at which to poll again if no event has happened.
    pub fn deadline(&self) -> Option<Duration> {
        self.timers.deadline(self.awaited(), &self.config.timeouts)
    }

    /// Records that no data has arrived, if the upstream server must send some. Fails if its timeout has
    /// expired.
    fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        let awaited = self.awaited();
        let is_owed = awaited == Awaited::Content || self.is_request_sent();
        self.timers.wait_to_read(is_owed, awaited, &self.config.timeouts, now)
    }

    /// Records that no data could be sent. Fails if the upstream server's timeout has expired.
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
