//! A connection in memory, with an exchange at one end and the test at the other.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use thruway_client::{Config, Connection, Error, Exchange, ReadBuffers, RequestToSend, ResponseEvent};
use thruway_http1::BodyLength;
use thruway_message::{FieldLinesBuf, Method};
use thruway_testkit::{PipePeer, PipeTransport, pipe};

/// An active exchange, with manual time.
pub(crate) struct Line {
    pub(crate) peer: PipePeer,
    pub(crate) exchange: Exchange<PipeTransport>,
    pub(crate) now: Duration,
    pub(crate) buffers: ReadBuffers,
}

pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

pub(crate) fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

pub(crate) fn connection(config: &Config) -> (PipePeer, Connection<PipeTransport>) {
    let (peer, driven) = pipe();
    (peer, Connection::new(driven, config))
}

pub(crate) fn get() -> RequestToSend {
    RequestToSend::new(Method::Get, BodyLength::NONE)
}

pub(crate) fn start<T: thruway_net::Transport>(connection: Connection<T>, now: Duration) -> Exchange<T> {
    connection.start(get(), now, |output| output.extend_from_slice(GET.as_bytes()))
}

impl Line {
    /// Starts a GET on a new connection.
    pub(crate) fn get() -> Self {
        Self::with(get(), GET, &Config::default())
    }

    /// Starts a POST with a body of this length.
    pub(crate) fn post(body_length: BodyLength) -> Self {
        Self::with(RequestToSend::new(Method::Post, body_length), "POST\r\n\r\n", &Config::default())
    }

    pub(crate) fn with(request: RequestToSend, head: &str, config: &Config) -> Self {
        let (peer, connection) = connection(config);
        let now = Duration::from_secs(1000);
        let exchange = connection.start(request, now, |output| output.extend_from_slice(head.as_bytes()));
        Self { peer, exchange, now, buffers: ReadBuffers::default() }
    }

    /// Reads the response as far as it has arrived. Returns a word for each event, and the end.
    pub(crate) fn read(&mut self) -> String {
        let mut words = Vec::new();
        let mut poll = self.exchange.begin_poll(&self.buffers);
        loop {
            match poll.poll_event(&mut context(), self.now) {
                Poll::Pending => words.push("…".into()),
                Poll::Ready(Err(error)) => words.push(format!("{error:?}")),
                Poll::Ready(Ok(event)) => {
                    words.push(word(event));
                    if !matches!(event, ResponseEvent::End(_) | ResponseEvent::Tunnel(_)) {
                        continue;
                    }
                }
            }
            return words.join(" ");
        }
    }

    pub(crate) fn error(&mut self) -> Error {
        let mut poll = self.exchange.begin_poll(&self.buffers);
        loop {
            match poll.poll_event(&mut context(), self.now) {
                Poll::Pending => panic!("no further event arrives"),
                Poll::Ready(Err(error)) => return error,
                Poll::Ready(Ok(event)) => {
                    assert!(!matches!(event, ResponseEvent::End(_)), "the response ended without an error");
                }
            }
        }
    }

    /// Sends a part of the body. Returns the number of bytes taken.
    pub(crate) fn send(&mut self, content: &[u8]) -> Poll<Result<usize, Error>> {
        self.exchange.poll_send(&mut context(), self.now, content)
    }

    pub(crate) fn flush(&mut self) -> Poll<Result<(), Error>> {
        self.exchange.poll_flush(&mut context(), self.now)
    }

    pub(crate) fn finish_content(&mut self) -> Result<(), Error> {
        self.exchange.finish_content(&FieldLinesBuf::new())
    }

    /// Returns the bytes that the peer has received.
    pub(crate) fn received(&mut self) -> String {
        String::from_utf8(self.peer.received()).unwrap()
    }

    /// Returns `true` if the connection can be used again.
    pub(crate) fn leaves_connection_reusable(self) -> bool {
        self.exchange.finish().is_some()
    }
}

fn word(event: ResponseEvent<'_>) -> String {
    match event {
        ResponseEvent::Final(head, BodyLength::NONE) => format!("{}.", head.status),
        ResponseEvent::Interim(head) | ResponseEvent::Final(head, _) => head.status.to_string(),
        ResponseEvent::Content(content) if content.len() > 40 => format!("{} bytes", content.len()),
        ResponseEvent::Content(content) => format!("`{}`", content.escape_ascii()),
        ResponseEvent::End(trailers) if trailers.is_empty() => "end".into(),
        ResponseEvent::End(trailers) => format!("end{trailers:?}"),
        ResponseEvent::Tunnel(_) => "tunnel".into(),
    }
}
