//! A request and its response on a stream.

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

/// A request and its response, while they are exchanged. Dropping it resets the stream, if that is not over;
/// the connection goes on.
pub struct Exchange {
    sending: Sending,
    phase: Phase,
    timers: Timers,
    config: Config,
    response_to: ResponseTo,
    upgrade: Option<Upgrade>,

    // the request out
    send: SendStream<Bytes>,
    /// Content that was there from the start.
    first: Bytes,

    // the response in
    response: ResponseFuture,
    content: Option<RecvStream>,
    interim_responses: u32,
    /// What was given last: an event borrows it.
    head: Received,
    piece: Bytes,

    counted: Counted,
}

/// A stream that is no longer HTTP. Dropping it resets the stream, if that is not over.
pub type Tunnel = Http2Stream<Counted>;

/// What an exchange begins with.
pub(super) struct Parts {
    pub(super) response: ResponseFuture,
    pub(super) send: SendStream<Bytes>,
    pub(super) content: Bytes,
    pub(super) sending: Sending,
    pub(super) upgrade: Option<Upgrade>,
    pub(super) counted: Counted,
}

/// What of the request is still to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sending {
    /// So many octets of content.
    Octets { remaining: u64 },
    /// Content whose length was not said.
    Chunked,
    /// Nothing.
    Complete,
    /// Nothing, although it is not complete: the upstream does not want it.
    Stopped,
}

/// What of the response is still to come.
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

    /// How long it waits for what.
    pub const fn timeouts(&self) -> Timeouts {
        self.config.timeouts
    }

    /// Waits for other times than the config says.
    pub const fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.config.timeouts = timeouts;
    }

    /// Whether the response is complete. What of the request was not sent then will not be.
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Complete
    }

    /// Whether content is still to be sent. Not if all of it was, and not if the response is whole or the
    /// upstream has reset the stream: as long as it has done neither, it may read on, whatever its status
    /// says (RFC 9113 §8.1).
    pub const fn wants_content(&self) -> bool {
        matches!(self.sending, Sending::Octets { .. } | Sending::Chunked)
    }

    /// Whether all of the request was given to the library.
    fn is_request_sent(&self) -> bool {
        self.first.is_empty() && !self.wants_content()
    }

    /// Ready when content may be sent: the upstream's windows are open.
    ///
    /// # Errors
    /// A deadline has passed.
    pub fn poll_room(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        if self.poll_first(cx, now)?.is_pending() {
            return Poll::Pending;
        }
        self.poll_capacity(cx, now, 1).map_ok(drop)
    }

    /// Takes some of `content`, and sends it. What cannot be sent now is left. Nothing is done with what is
    /// not [wanted](Self::wants_content) any more, but take it.
    ///
    /// # Errors
    /// A deadline has passed, or there is more than the head has announced.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &mut Bytes,
    ) -> Poll<Result<(), Error>> {
        if let Sending::Octets { remaining } = self.sending
            && content.len() as u64 > remaining
        {
            return Poll::Ready(Err(Error::RequestContentTooLong));
        }
        let room = ready!(self.poll_capacity(cx, now, content.len()))?;
        let part = content.split_to(room.min(content.len()));
        if let Sending::Octets { remaining } = &mut self.sending {
            *remaining -= part.len() as u64;
        }
        let is_last = self.sending == Sending::Octets { remaining: 0 };
        if is_last {
            self.sending = Sending::Complete;
        }
        self.send(part, is_last);
        Poll::Ready(Ok(()))
    }

    /// The content is complete; `trailers` come behind it.
    ///
    /// # Errors
    /// There was less of it than was announced.
    pub fn finish_content(&mut self, trailers: &FieldLinesBuf) -> Result<(), Error> {
        match self.sending {
            Sending::Octets { .. } => return Err(Error::RequestContentTooShort),
            Sending::Chunked if trailers.octets().is_empty() => {
                self.sending = Sending::Complete;
                self.send(Bytes::new(), true);
            }
            Sending::Chunked => {
                self.sending = Sending::Complete;
                // Fails if the stream has ended, which the response tells.
                let _ = self.send.send_trailers(field_map(trailers));
            }
            Sending::Complete | Sending::Stopped => {}
        }
        Ok(())
    }

    /// Sends the content that was there from the start.
    fn poll_first(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        while !self.first.is_empty() {
            let room = ready!(self.poll_capacity(cx, now, self.first.len()))?;
            let part = self.first.split_to(room.min(self.first.len()));
            let is_last = self.first.is_empty() && !self.wants_content();
            self.send(part, is_last);
        }
        Poll::Ready(Ok(()))
    }

    /// How much may be sent, at least an octet if `wanted` is not 0.
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
                // What has become of the stream the response tells.
                Poll::Ready(Some(Err(_)) | None) => {
                    self.stop_sending();
                    return Poll::Ready(Ok(usize::MAX));
                }
            }
        }
        self.timers.stalled_since = None;
        Poll::Ready(Ok(room))
    }

    /// Fails if the stream has ended, which the response tells.
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

    /// The next event of the response. Sends what was there of the request from the start before. After the
    /// end, it ends again.
    ///
    /// # Errors
    /// The stream or the connection has ended too early, a deadline has passed, or the upstream breaks a
    /// rule. The exchange is over.
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
            // There is no such status here (RFC 9113 §8.6), and whoever it is passed on to would take what
            // follows for another protocol.
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
            // There will be no tunnel, and so there is no more to be sent.
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

    /// How the end of the content is found. The library has checked that the length, if it is said, is what
    /// comes.
    fn body_length(&self) -> BodyLength {
        let head = self.head.as_head();
        if self.response_to == ResponseTo::Head || head.status.is_without_content() {
            return BodyLength::NONE;
        }
        let length = head.field("content-length");
        match length.and_then(|value| http1::parse_content_length(value.as_bytes()).ok()) {
            // Trailers may come although there is no content.
            Some(0) | None => BodyLength::Chunked,
            Some(octets) => BodyLength::Octets(octets),
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
                    // Whoever has no room for more does not ask for it.
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

    /// Takes the stream out of HTTP; `None` unless the response was a [tunnel](ResponseEvent::Tunnel).
    pub fn into_tunnel(self) -> Option<Tunnel> {
        let Self { phase, send, content, mut counted, .. } = self;
        counted.note_complete();
        content.filter(|_| phase == Phase::Tunnel).map(|content| Http2Stream::new(send, content, counted))
    }

    /// Something of the response has come.
    fn note_answered(&mut self) {
        self.timers.owed_since = None;
        self.counted.note_answered();
    }

    /// The response is complete: there is nothing to send the rest of the request for.
    fn complete(&mut self) {
        self.phase = Phase::Complete;
        self.counted.note_complete();
        if !self.is_request_sent() {
            self.stop_sending();
            self.send.send_reset(Reason::NO_ERROR);
        }
    }
}

/// What it means that there will be no response. What the upstream says that it has not processed may be sent
/// again in any case (RFC 9113 §8.7).
fn error_before_head(error: &h2::Error) -> Error {
    match error.reason() {
        Some(Reason::REFUSED_STREAM) if error.is_remote() => Error::StreamRefused,
        Some(_) if error.is_remote() && error.is_go_away() => Error::StreamRefused,
        Some(_) if error.is_reset() => Error::StreamReset,
        _ => Error::ClosedBeforeResponse,
    }
}

impl Exchange {
    /// When to poll again although nothing has happened.
    pub fn deadline(&self) -> Option<Duration> {
        self.timers.deadline(self.awaited(), &self.config.timeouts)
    }

    /// Nothing came. Takes note of it if the upstream is to send something, and fails if it has had its time.
    fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        let awaited = self.awaited();
        let is_owed = awaited == Awaited::Content || self.is_request_sent();
        self.timers.wait_to_read(is_owed, awaited, &self.config.timeouts, now)
    }

    /// Nothing could be sent. Takes note of it, and fails if the upstream has had its time.
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
