//! Responses in tests.

use std::fmt;
use std::future::poll_fn;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use thruway_message::{FieldLines, FieldLinesBuf, OwnedResponseHead, StatusCode};
use tokio::time::timeout;

use super::connection::TestConnection;
use super::error::TestError;
use super::event::{EventParser, TestEvent};
use super::exchange::{Event, Exchange};

/// A response to a [`TestRequest`](super::TestRequest). The head has arrived. The test reads the body
/// completely with [`text`](Self::text), [`bytes`](Self::bytes) or [`json`](Self::json), or in pieces with
/// [`chunk`](Self::chunk) or [`event`](Self::event). Dropping the response closes its connection.
///
/// ```
/// # use std::time::Duration;
/// # use thruway_server::testing::{TestClient, TestError};
/// # use thruway_server::{Event, Response, Router};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TestError> {
/// let router = Router::new().get("/count", || {
///     Response::finite_events(Duration::from_secs(15), async |mut sender| {
///         sender.send(Event::data("1").with_type("tick")).await;
///         Ok(())
///     })
/// });
/// let mut response = TestClient::new(router).get("/count").send().await?;
/// let event = response.event().await?.unwrap();
/// assert_eq!((&*event.event, &*event.data), ("tick", "1"));
/// assert!(response.event().await?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct TestResponse {
    head: OwnedResponseHead,
    interim: Vec<OwnedResponseHead>,
    exchange: Exchange,
    /// `true` until the end of the body.
    has_more: bool,
    trailers: FieldLinesBuf,
    events: EventParser,
    timeout: Duration,
}

impl TestResponse {
    pub(super) fn new(
        head: OwnedResponseHead,
        interim: Vec<OwnedResponseHead>,
        exchange: Exchange,
        has_more: bool,
        timeout: Duration,
    ) -> Self {
        let (trailers, events) = (FieldLinesBuf::new(), EventParser::default());
        Self { head, interim, exchange, has_more, trailers, events, timeout }
    }

    /// Returns the status code.
    pub fn status(&self) -> StatusCode {
        self.head.as_head().status
    }

    /// Returns the value of the first header named `name`, ignoring case. Returns `None` if there is no such
    /// header, or if its value is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.as_head().field(name)?.as_str()
    }

    /// Returns all headers.
    pub fn headers(&self) -> FieldLines<'_> {
        self.head.as_head().field_lines
    }

    /// Returns the interim responses before this response, such as 103, with their headers.
    pub fn interim(&self) -> impl Iterator<Item = (StatusCode, FieldLines<'_>)> {
        self.interim.iter().map(|head| (head.as_head().status, head.as_head().field_lines))
    }

    /// Returns the trailers, which are empty until the end of the body.
    pub const fn trailers(&self) -> &FieldLinesBuf {
        &self.trailers
    }

    /// Returns the next piece of the body, or `None` at its end. The pieces of a streamed body need not be
    /// the pieces that the handler has sent.
    ///
    /// # Errors
    /// The body failed, the handler panicked, or no piece arrived in time.
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, TestError> {
        if !self.has_more {
            return Ok(None);
        }
        let event = timeout(self.timeout, poll_fn(|cx| self.exchange.poll_event(cx)));
        match event.await.map_err(|_| TestError::TimedOut(self.timeout))?? {
            Event::Data(data) => Ok(Some(data)),
            Event::End(trailers) => {
                (self.has_more, self.trailers) = (false, trailers);
                Ok(None)
            }
            Event::Interim(_) | Event::Head(..) | Event::Tunnel(_) => Err(TestError::Closed),
        }
    }

    /// Returns the next server-sent event, or `None` at the end of the stream. Ignores comments. Do not call
    /// [`chunk`](Self::chunk) for the same response.
    ///
    /// # Errors
    /// Fails for the same reasons as [`chunk`](Self::chunk).
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub async fn event(&mut self) -> Result<Option<TestEvent>, TestError> {
        loop {
            if let Some(event) = self.events.next() {
                return Ok(Some(event));
            }
            match self.chunk().await? {
                Some(piece) => self.events.push(&piece),
                None => return Ok(None),
            }
        }
    }

    /// Returns the body, without pieces that were read before.
    ///
    /// # Errors
    /// Fails for the same reasons as [`chunk`](Self::chunk).
    pub async fn bytes(mut self) -> Result<Bytes, TestError> {
        let mut body = BytesMut::new();
        while let Some(piece) = self.chunk().await? {
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    /// Returns the body as text.
    ///
    /// # Errors
    /// Fails for the same reasons as [`chunk`](Self::chunk), and if the body is not UTF-8.
    pub async fn text(self) -> Result<String, TestError> {
        let body = self.bytes().await?;
        String::from_utf8(body.into())
            .map_err(|error| TestError::UnexpectedBody(format!("not UTF-8: {}", error.utf8_error())))
    }

    /// Parses the body as JSON. The `Content-Type` does not matter.
    ///
    /// # Errors
    /// Fails for the same reasons as [`chunk`](Self::chunk), and if the body is not the JSON of a `T`. The
    /// error then shows the status and the start of the body.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, TestError> {
        let status = self.status();
        let body = self.bytes().await?;
        serde_json::from_slice(&body).map_err(|error| {
            let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES_MAX)]);
            TestError::UnexpectedBody(format!("{error} (status {}, body `{shown}`)", status.as_u16()))
        })
    }

    /// Returns the connection after an upgrade (101), or after a successful CONNECT.
    ///
    /// # Errors
    /// Returns the response if it is another response.
    pub fn into_connection(self) -> Result<TestConnection, Box<Self>> {
        if self.exchange.is_tunnel() { Ok(self.exchange.into_connection()) } else { Err(Box::new(self)) }
    }
}

impl fmt::Debug for TestResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestResponse").field("head", &self.head.as_head()).finish_non_exhaustive()
    }
}

/// Maximum number of bytes of a body in an error.
const SHOWN_BYTES_MAX: usize = 1000;
