//! An exchange with a server over HTTP/1.1 or HTTP/2.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use thruway_client::{
    self as client, Connection, Error, ReadBuffers, ResponseEvent, Timeouts, Tunnel, UpstreamStream, http2,
};
use thruway_message::FieldLinesBuf;
use thruway_net::{Pipe, Stream};

/// A request and its response while they are in progress.
pub(crate) enum Exchange {
    Http1(client::Exchange),
    Http2(Box<http2::Exchange>),
}

/// A connection or an HTTP/2 stream that carries another protocol than HTTP.
pub(crate) enum Upgraded {
    /// A connection that was used for HTTP/1.1.
    Http1(Tunnel),
    /// A stream of an HTTP/2 connection.
    Http2(http2::Tunnel),
}

/// Reads the events of a response during one poll of the task.
pub(crate) enum ResponsePoll<'e> {
    Http1(client::ResponsePoll<'e, UpstreamStream>),
    Http2(&'e mut http2::Exchange),
}

impl Exchange {
    /// Sends the request head, and the whole body if there is one. Call this method only for an exchange
    /// that [started](super::acquire::Acquired::start) without a head.
    #[inline]
    pub(crate) fn send_head(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        head: &[u8],
    ) -> Result<(), Error> {
        match self {
            Self::Http1(exchange) => exchange.send_head(cx, now, head),
            Self::Http2(_) => unreachable!("an exchange over HTTP/2 starts with its head"),
        }
    }

    /// Returns `true` if a part of the request body must still be sent.
    pub(crate) const fn wants_content(&self) -> bool {
        match self {
            Self::Http1(exchange) => exchange.wants_content(),
            Self::Http2(exchange) => exchange.wants_content(),
        }
    }

    /// Ready when the connection accepts bytes of the request body.
    pub(crate) fn poll_write_capacity(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Poll<Result<(), Error>> {
        match self {
            Self::Http1(exchange) => exchange.poll_write_capacity(cx, now),
            Self::Http2(exchange) => exchange.poll_write_capacity(cx, now),
        }
    }

    /// Sends a part of `content`, and removes the sent bytes from `content`.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &mut Bytes,
    ) -> Poll<Result<(), Error>> {
        match self {
            Self::Http1(exchange) => {
                exchange.poll_send(cx, now, content).map_ok(|sent| drop(content.split_to(sent)))
            }
            Self::Http2(exchange) => exchange.poll_send(cx, now, content),
        }
    }

    /// Returns `true` if body bytes can be sent from a pipe without a copy. HTTP/2 cannot use pipes,
    /// because its frames are assembled in memory.
    pub(crate) fn takes_pipes(&self) -> bool {
        match self {
            Self::Http1(exchange) => exchange.takes_pipes(),
            Self::Http2(_) => false,
        }
    }

    /// Sends a part of the bytes in `pipe`, which must not be empty.
    pub(crate) fn poll_send_pipe(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        pipe: &mut Pipe,
    ) -> Poll<Result<usize, Error>> {
        match self {
            Self::Http1(exchange) => exchange.poll_send_pipe(cx, now, pipe),
            Self::Http2(_) => unreachable!("HTTP/2 does not accept pipes"),
        }
    }

    /// Ends the request body, and sends the trailers.
    pub(crate) fn finish_content(&mut self, trailers: &FieldLinesBuf) -> Result<(), Error> {
        match self {
            Self::Http1(exchange) => exchange.finish_content(trailers),
            Self::Http2(exchange) => exchange.finish_content(trailers),
        }
    }

    /// Writes pending bytes to the connection. For HTTP/2, this method does nothing, because the driver of
    /// the connection writes the bytes.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        match self {
            Self::Http1(exchange) => exchange.poll_flush(cx, now),
            Self::Http2(_) => Poll::Ready(Ok(())),
        }
    }

    /// Begins to read the response during this poll of the task. One read returns at most `read_bytes_max`
    /// bytes. This limit has no effect for HTTP/2.
    #[inline]
    pub(crate) fn begin_poll<'e>(
        &'e mut self,
        buffers: &'e ReadBuffers,
        read_bytes_max: usize,
    ) -> ResponsePoll<'e> {
        match self {
            Self::Http1(exchange) => {
                let mut poll = exchange.begin_poll(buffers);
                poll.read_at_most(read_bytes_max);
                ResponsePoll::Http1(poll)
            }
            Self::Http2(exchange) => ResponsePoll::Http2(exchange),
        }
    }

    /// Returns the timeouts of the exchange.
    pub(crate) const fn timeouts(&self) -> Timeouts {
        match self {
            Self::Http1(exchange) => exchange.timeouts(),
            Self::Http2(exchange) => exchange.timeouts(),
        }
    }

    /// Sets the timeouts of the exchange, which may differ from the config of the upstream.
    pub(crate) const fn set_timeouts(&mut self, timeouts: Timeouts) {
        match self {
            Self::Http1(exchange) => exchange.set_timeouts(timeouts),
            Self::Http2(exchange) => exchange.set_timeouts(timeouts),
        }
    }

    /// Returns `true` if the response is complete.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Http1(exchange) => exchange.is_complete(),
            Self::Http2(exchange) => exchange.is_complete(),
        }
    }

    /// Returns `true` if body bytes can be moved from the socket to a pipe without a copy (`splice`).
    pub(crate) const fn is_plain(&self) -> bool {
        match self {
            Self::Http1(exchange) => exchange.transport().is_plain(),
            Self::Http2(_) => false,
        }
    }

    /// Returns the socket of an HTTP/1.1 connection without TLS.
    pub(crate) const fn plain(&self) -> Option<&Stream> {
        match self {
            Self::Http1(exchange) => exchange.transport().as_plain(),
            Self::Http2(_) => None,
        }
    }

    /// Returns the number of contiguous body bytes that come next on the connection. Returns 0 for HTTP/2,
    /// because frame headers interrupt its body bytes.
    pub(crate) fn movable_content(&self) -> u64 {
        match self {
            Self::Http1(exchange) => exchange.movable_content(),
            Self::Http2(_) => 0,
        }
    }

    /// Calls `move_content`, which takes body bytes directly from the connection. It may take at most
    /// [`movable_content`](Self::movable_content) bytes.
    pub(crate) fn poll_move_content(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        move_content: impl FnOnce(&mut UpstreamStream, u64, &mut Context<'_>) -> Poll<io::Result<u64>>,
    ) -> Poll<Result<u64, Error>> {
        match self {
            Self::Http1(exchange) => exchange.poll_move_content(cx, now, move_content),
            Self::Http2(_) => Poll::Ready(Ok(0)),
        }
    }

    /// Ends the exchange. Returns the HTTP/1.1 connection if it can be reused. Returns `None` for HTTP/2,
    /// because the pool of idle connections does not contain shared connections.
    ///
    /// If the server closes its connections after each response, this machine would collect connections in the
    /// state TIME-WAIT until no local port is free. The gateway resets such a connection instead, which also
    /// costs the server less. A connection with TLS, or with data in transit, is closed as usual.
    pub(crate) fn finish(self) -> Option<Connection> {
        match self {
            Self::Http1(exchange) if !exchange.is_reusable() => {
                if exchange.is_exact()
                    && let Some(stream) = exchange.transport().as_plain()
                {
                    stream.reset_on_close();
                }
                None
            }
            Self::Http1(exchange) => exchange.finish(),
            Self::Http2(_) => None,
        }
    }

    /// Returns the connection or the HTTP/2 stream, if the response has turned it into a tunnel.
    pub(crate) fn into_tunnel(self) -> Option<Upgraded> {
        match self {
            Self::Http1(exchange) => exchange.into_tunnel().map(Upgraded::Http1),
            Self::Http2(exchange) => exchange.into_tunnel().map(Upgraded::Http2),
        }
    }

    /// Returns the time at which the exchange must be polled again.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self {
            Self::Http1(exchange) => exchange.deadline(),
            Self::Http2(exchange) => exchange.deadline(),
        }
    }
}

impl ResponsePoll<'_> {
    /// Returns the remaining response body if it has arrived completely. The response is then complete.
    /// Returns `None` for HTTP/2.
    #[inline]
    pub(crate) fn take_content(&mut self) -> Option<&[u8]> {
        match self {
            Self::Http1(poll) => poll.take_content(),
            Self::Http2(_) => None,
        }
    }

    /// Returns the next event of the response.
    #[inline]
    pub(crate) fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Poll<Result<ResponseEvent<'_>, Error>> {
        match self {
            Self::Http1(poll) => poll.poll_event(cx, now),
            Self::Http2(exchange) => exchange.poll_event(cx, now),
        }
    }
}
