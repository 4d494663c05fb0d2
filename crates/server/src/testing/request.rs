//! Requests in tests.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use serde::Serialize;
use thruway_http1::{BodyLength, ClientConnection, RequestToWrite, ResponseTo, write_request_head};
use thruway_message::{FieldLinesBuf, Method};
use tokio::time::timeout;

use super::connection::TestConnection;
use super::error::TestError;
use super::exchange::{BodyStream, Event, Exchange, limits};
use super::in_process::InProcessServer;
use super::response::TestResponse;

/// A request of a [`TestClient`](super::TestClient). [`send`](Self::send) sends it. An invalid path, header
/// or body makes `send` fail.
#[must_use = "nothing is sent before `send` is awaited"]
pub struct TestRequest<'c> {
    server: &'c Rc<InProcessServer>,
    method: Method<'c>,
    target: String,
    headers: FieldLinesBuf,
    body: Body,
    client: SocketAddr,
    timeout: Duration,
    invalid: Option<String>,
}

enum Body {
    Whole(Bytes),
    Stream(BodyStream),
}

impl<'c> TestRequest<'c> {
    pub(super) fn new(server: &'c Rc<InProcessServer>, method: Method<'c>, path: &str) -> Self {
        Self {
            server,
            method,
            target: path.to_owned(),
            headers: FieldLinesBuf::new(),
            body: Body::Whole(Bytes::new()),
            client: CLIENT,
            timeout: TIMEOUT,
            invalid: None,
        }
    }

    /// Adds a header. `Host` replaces the default `localhost`. The client itself writes `Content-Length` and
    /// `Transfer-Encoding`: for other values, use [`TestClient::connect`](super::TestClient::connect).
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let is_framing = FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing));
        if is_framing {
            return self.fail(format!("the client writes the header `{name}` itself"));
        }
        match self.headers.append(name, value) {
            Ok(()) => self,
            Err(error) => self.fail(format!("invalid header `{name}`: {error}")),
        }
    }

    /// Adds parameters to the query, such as a struct or `&[("page", "2")]`.
    pub fn query(mut self, parameters: &(impl Serialize + ?Sized)) -> Self {
        match serde_urlencoded::to_string(parameters) {
            Ok(query) => {
                self.target.push(if self.target.contains('?') { '&' } else { '?' });
                self.target.push_str(&query);
                self
            }
            Err(error) => self.fail(format!("invalid query: {error}")),
        }
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Body::Whole(body.into());
        self
    }

    /// Sets the body to `value` as JSON, and adds its `Content-Type`, unless the request has one.
    pub fn json(self, value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(json) => self.body(json).content_type("application/json"),
            Err(error) => self.fail(format!("the value cannot be JSON: {error}")),
        }
    }

    /// Sets the body to the members of `form`, and adds its `Content-Type`, unless the request has one.
    pub fn form(self, form: &(impl Serialize + ?Sized)) -> Self {
        match serde_urlencoded::to_string(form) {
            Ok(form) => self.body(form).content_type("application/x-www-form-urlencoded"),
            Err(error) => self.fail(format!("invalid form: {error}")),
        }
    }

    /// Sets the body to the items of `stream`. The client sends each item as a chunk, without a
    /// `Content-Length`. After [`send`](Self::send), it sends the remaining items while the test reads the
    /// response.
    pub fn stream<P: Into<Bytes> + 'static>(mut self, stream: impl Stream<Item = P> + 'static) -> Self {
        self.body = Body::Stream(Box::pin(stream.map(Into::into)));
        self
    }

    /// Sets the address of the client. Default `127.0.0.1:49152`.
    pub const fn client_address(mut self, address: SocketAddr) -> Self {
        self.client = address;
        self
    }

    /// Sets the maximum time to wait for the head of the response, and for each part of its body. Default 60
    /// s. If the time of tokio is paused, this is virtual time.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the request on a new connection, and waits for the head of the response. Sends the whole request
    /// even if it has `Expect: 100-continue`.
    ///
    /// # Errors
    /// The request is invalid, the handler panicked, or no valid response arrived in time.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn send(self) -> Result<TestResponse, TestError> {
        let limit = self.timeout;
        let mut exchange = self.start()?;
        let mut interim = Vec::new();
        let response = async {
            loop {
                match poll_fn(|cx| exchange.poll_event(cx)).await? {
                    Event::Interim(head) => interim.push(head),
                    Event::Head(head, length) => return Ok((head, length != BodyLength::NONE)),
                    Event::Tunnel(head) => return Ok((head, false)),
                    Event::Data(_) | Event::End(_) => return Err(TestError::Closed),
                }
            }
        };
        let (head, has_body) = timeout(limit, response).await.map_err(|_| TestError::TimedOut(limit))??;
        Ok(TestResponse::new(head, interim, exchange, has_body, limit))
    }

    /// Connects, and prepares the bytes of the request.
    fn start(self) -> Result<Exchange, TestError> {
        if let Some(reason) = self.invalid {
            return Err(TestError::InvalidRequest(reason));
        }
        let (whole, stream) = match self.body {
            Body::Whole(bytes) => (bytes, None),
            Body::Stream(stream) => (Bytes::new(), Some(stream)),
        };
        let length =
            if stream.is_some() { BodyLength::Chunked } else { BodyLength::Bytes(whole.len() as u64) };
        let host: &[u8] = if self.headers.field("host").is_some() { b"" } else { b"Host: localhost\r\n" };
        let request = RequestToWrite {
            method: self.method,
            target: &self.target,
            field_lines: [host, self.headers.bytes()],
            body: length,
        };
        let mut output = Vec::new();
        write_request_head(&mut output, &request)
            .map_err(|rule| TestError::InvalidRequest(format!("`{}`: {rule}", self.target)))?;
        output.extend_from_slice(&whole);
        let mut http1 = ClientConnection::new(limits());
        http1.expect_response(ResponseTo::from(self.method), self.headers.field("upgrade").is_some());
        let connection = TestConnection::new(self.server, self.client);
        Ok(Exchange::new(connection, output, stream, http1))
    }

    fn content_type(self, value: &str) -> Self {
        if self.headers.field("content-type").is_some() { self } else { self.header("Content-Type", value) }
    }

    /// Stores the first error, which [`send`](Self::send) returns.
    fn fail(mut self, reason: String) -> Self {
        self.invalid.get_or_insert(reason);
        self
    }
}

/// Default address of clients, with the first port of the dynamic range.
pub(super) const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 49152);

/// Default timeout.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);

/// The headers that determine the framing of a request.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];
