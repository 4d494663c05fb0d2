//! Builds and sends requests.

use std::borrow::Cow;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use thruway_http1::{self as http1, BodyLength, RequestToWrite, write_request_head};
use thruway_message::{FieldLinesBuf, InvalidFieldLine, Method, OwnedResponseHead};
use thruway_net::PooledBuffer;
use tokio::runtime::{self, Handle};

use super::destination::{Destination, OUR_FIELDS, append};
use super::drive::{Driven, now};
use super::error::ClientError;
use super::http_client::Client;
use super::idle::PoolReturn;
use super::response::Response;
use crate::{Connection, Error, RequestToSend, ResponseEvent, Timeouts};

/// A request builder. [`send`](Self::send) sends the request.
#[derive(Debug)]
#[must_use = "nothing is sent before `send` is awaited"]
pub struct Request<'c> {
    client: &'c Client,
    method: Method<'static>,
    destination: Result<Destination, ClientError>,
    fields: Cow<'c, FieldLinesBuf>,
    invalid: Option<InvalidFieldLine>,
    content: Bytes,
    timeouts: Timeouts,
    is_idempotent: bool,
}

impl<'c> Request<'c> {
    fn new(
        client: &'c Client,
        method: Method<'static>,
        destination: Result<Destination, ClientError>,
        timeouts: Timeouts,
    ) -> Self {
        Self {
            client,
            method,
            destination,
            fields: Cow::Owned(FieldLinesBuf::new()),
            invalid: None,
            content: Bytes::new(),
            timeouts,
            is_idempotent: method.is_idempotent(),
        }
    }

    /// Adds a field line. [`send`](Self::send) fails if the line is invalid. `send` also fails for the
    /// names `Host`, `Content-Length` and `Transfer-Encoding`, because the client writes these fields.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.invalid = self.invalid.or(append(self.fields.to_mut(), name, value).err());
        self
    }

    /// Adds field lines, with the rules of [`field`](Self::field). If the request has no field lines yet, the
    /// request borrows `field_lines` instead of copying them.
    pub fn field_lines(mut self, field_lines: &'c FieldLinesBuf) -> Self {
        if field_lines.has_any(&OUR_FIELDS) {
            self.invalid = self.invalid.or(Some(InvalidFieldLine::Name));
        }
        if self.fields.bytes().is_empty() {
            self.fields = Cow::Borrowed(field_lines);
        } else {
            self.fields.to_mut().append_lines(field_lines);
        }
        self
    }

    /// Sets the request body.
    pub fn content(mut self, content: impl Into<Bytes>) -> Self {
        self.content = content.into();
        self
    }

    /// Replaces the client's timeouts for this request.
    pub const fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Declares if the request may be sent twice without harm. The default depends on the method (RFC
    /// 9110 §9.2.2).
    pub const fn idempotent(mut self, is_idempotent: bool) -> Self {
        self.is_idempotent = is_idempotent;
        self
    }

    /// Sends the request, and waits for the head of the response. If a reused connection ends without a
    /// response, the client may send the request once more. The client tries again only if the request is
    /// idempotent, or if no byte of the request was sent.
    ///
    /// # Errors
    /// Returns an error if the request is invalid, or if no response arrives.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the exchange and closes its connection.
    pub async fn send(self) -> Result<Response, ClientError> {
        self.client.execute(&self).await
    }

    /// Returns the properties that determine the framing of the request.
    fn to_send(&self) -> RequestToSend {
        RequestToSend::new(self.method, self.body_length())
    }

    fn body_length(&self) -> BodyLength {
        BodyLength::Bytes(self.content.len() as u64)
    }

    /// Returns the bytes of the request head.
    fn head(&self, destination: &Destination) -> Result<PooledBuffer, ClientError> {
        if let Some(invalid) = self.invalid {
            return Err(ClientError::FieldInvalid(invalid));
        }
        let mut head = PooledBuffer::take();
        let request = RequestToWrite {
            method: self.method,
            target: destination.target(),
            field_lines: [destination.field_lines().bytes(), self.fields.bytes()],
            body: self.body_length(),
        };
        write_request_head(&mut head, &request)
            .map_err(|rule: http1::Error| ClientError::RequestInvalid(rule))?;
        Ok(head)
    }
}

impl Client {
    /// Starts a GET request to `url`.
    pub fn get(&self, url: &str) -> Request<'_> {
        self.request(Method::Get, url)
    }

    /// Starts a POST request to `url`.
    pub fn post(&self, url: &str) -> Request<'_> {
        self.request(Method::Post, url)
    }

    /// Starts a request to `url` with any method.
    pub fn request(&self, method: Method<'static>, url: &str) -> Request<'_> {
        Request::new(self, method, Destination::parse(url), self.config.exchange.timeouts)
    }

    /// Starts a request with any method to a parsed destination.
    pub fn request_to(&self, method: Method<'static>, destination: &Destination) -> Request<'_> {
        Request::new(self, method, Ok(destination.clone()), self.config.exchange.timeouts)
    }

    async fn execute(&self, request: &Request<'_>) -> Result<Response, ClientError> {
        let destination = request.destination.as_ref().map_err(Clone::clone)?;
        let head = request.head(destination)?;
        let (started, is_idempotent) = (now(), request.is_idempotent);
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        if let Some(connection) = self.idle.acquire(runtime, destination.origin()) {
            match self.exchange(request, destination, &head, connection, started, runtime).await {
                Err(error)
                    if error.retry().counts_against_no_server(true)
                        && error.retry().allows(is_idempotent) => {}
                outcome => return Ok(outcome?),
            }
        }
        // Most requests find an idle connection and do not connect. The future for connecting is boxed,
        // so that the whole future stays small.
        let stream = Box::pin(self.connect(request.timeouts.total, destination, started)).await?;
        let connection = Connection::new(stream, &self.config.exchange);
        Ok(self.exchange(request, destination, &head, connection, started, runtime).await?)
    }

    /// Sends the request on `connection`, and waits for the head of the final response.
    async fn exchange(
        &self,
        request: &Request<'_>,
        destination: &Destination,
        head: &[u8],
        connection: Connection,
        started: Duration,
        runtime: Option<runtime::Id>,
    ) -> Result<Response, Error> {
        let mut exchange =
            connection.start(request.to_send(), started, |output| output.extend_from_slice(head));
        exchange.set_timeouts(request.timeouts);
        let mut driven = Driven::new(exchange, request.content.clone());
        let (head, length) = poll_fn(|cx| {
            driven.poll_with(cx, |event| match event {
                ResponseEvent::Final(head, length) => Some((OwnedResponseHead::from(head), length)),
                _ => None,
            })
        })
        .await?;
        let home = PoolReturn { idle: self.idle.clone(), runtime, destination: destination.clone() };
        Ok(Response::new(head, length, driven, home))
    }
}
