//! Request bodies on their way to the handler.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use thruway_http1::{self as http1, BodyLength, Limits, RequestFacts, check_trailer_name};
use thruway_message::FieldLinesBuf;
use thruway_message::token::is_field_value;

use crate::config::{Config, Timeouts};
use crate::connection::{IncomingContent, Service};
use crate::request::{ContentError, RequestContent};

/// An arriving body. The connection reads only as many bytes as the handler's window allows. After each read,
/// it allows the client to send the same number of further bytes.
pub(super) struct Incoming {
    content: IncomingContent,
    from: RecvStream,
    received_bytes: u64,
}

/// Result of reading a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    Continues,
    /// The body has ended, or the handler has dropped it.
    IsOver,
}

impl Incoming {
    pub(super) fn new(from: RecvStream, facts: &RequestFacts, now: Duration) -> (Self, RequestContent) {
        let length = match facts.body_length {
            BodyLength::Bytes(bytes) => Some(bytes),
            BodyLength::Chunked | BodyLength::UntilClose => None,
        };
        let (sender, content) = RequestContent::arriving(length);
        let incoming = IncomingContent::new(sender, facts.expects_continue, now);
        (Self { content: incoming, from, received_bytes: 0 }, content)
    }

    /// Passes available data to the handler, as far as the handler's window allows.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, service: &Service, now: Duration) -> Reading {
        let config = &*service.config;
        loop {
            if self.content.is_abandoned() {
                return Reading::IsOver;
            }
            if self.content.poll_write_capacity(config.content_window_bytes, now, cx).is_pending() {
                return Reading::Continues;
            }
            match self.from.poll_data(cx) {
                Poll::Pending => return Reading::Continues,
                Poll::Ready(Some(Ok(data))) => {
                    if let Err(error) = self.receive(&data, config, now) {
                        self.fail(error, service);
                        return Reading::IsOver;
                    }
                }
                Poll::Ready(Some(Err(_))) => {
                    self.fail(ContentError::Incomplete, service);
                    return Reading::IsOver;
                }
                Poll::Ready(None) => return self.poll_end(cx, service),
            }
        }
    }

    fn receive(&mut self, data: &Bytes, config: &Config, now: Duration) -> Result<(), ContentError> {
        self.received_bytes += data.len() as u64;
        if self.received_bytes > config.limits.content_bytes {
            return Err(ContentError::Malformed(http1::Error::ContentTooLarge));
        }
        // Cannot fail, because exactly these bytes were received.
        let _ = self.from.flow_control().release_capacity(data.len());
        // The error for too many discarded bytes cannot occur here, because HTTP/2 discards no body bytes.
        let _ = self.content.receive(data, &config.timeouts, now);
        Ok(())
    }

    /// Reads the trailer section after the end of the body.
    fn poll_end(&mut self, cx: &mut Context<'_>, service: &Service) -> Reading {
        let limits = &service.config.limits;
        let trailers = match self.from.poll_trailers(cx) {
            Poll::Pending => return Reading::Continues,
            Poll::Ready(Ok(trailers)) => trailer_lines(&trailers.unwrap_or_default(), limits),
            Poll::Ready(Err(_)) => Err(ContentError::Incomplete),
        };
        match (trailers, self.content.sender()) {
            (Ok(trailers), Some(sender)) => sender.finish_with(trailers),
            (Err(error), _) => self.fail(error, service),
            (Ok(_), None) => {}
        }
        Reading::IsOver
    }

    /// Returns the number of received bytes.
    pub(super) const fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Returns `true` if `100 (Continue)` must be sent now.
    pub(super) fn take_continue(&mut self, now: Duration) -> bool {
        self.content.take_continue(now)
    }

    /// Ends the body because of a timeout.
    pub(super) fn time_out(&self, service: &Service) {
        self.fail(ContentError::TimedOut, service);
    }

    /// Ends the body with an error that the client has caused.
    fn fail(&self, error: ContentError, service: &Service) {
        service.worker.count_client_fault();
        self.content.fail(error);
    }

    /// Returns the time at which the body times out. `None` while no timeout applies.
    pub(super) fn deadline(&self, timeouts: &Timeouts) -> Option<Duration> {
        self.content.deadline(timeouts)
    }
}

/// Converts the trailer section for handlers. Checks the rules that apply in all HTTP versions (RFC 9110
/// §6.5.1).
fn trailer_lines(trailers: &HeaderMap, limits: &Limits) -> Result<FieldLinesBuf, ContentError> {
    let malformed = |rule: http1::Error| ContentError::Malformed(rule);
    let mut lines = FieldLinesBuf::new();
    for (name, value) in trailers {
        check_trailer_name(name.as_str().as_bytes()).map_err(malformed)?;
        if !is_field_value(value.as_bytes()) || lines.append(name.as_str(), value.as_bytes()).is_err() {
            return Err(malformed(http1::Error::FieldValueInvalid));
        }
    }
    if trailers.len() > limits.field_lines as usize {
        return Err(malformed(http1::Error::FieldLinesTooMany));
    }
    if lines.bytes().len() > limits.trailer_section_bytes as usize {
        return Err(malformed(http1::Error::TrailerSectionTooLarge));
    }
    Ok(lines)
}
