//! A request in the making.

use std::borrow::Cow;

use bytes::Bytes;
use thruway_http1::{self as http1, BodyLength, RequestToWrite, write_request_head};
use thruway_message::{FieldLinesBuf, InvalidFieldLine, Method};
use thruway_net::PooledBuffer;

use super::{Client, ClientError, Destination, Response};
use crate::{RequestToSend, Timeouts};

/// A request that is put together. Nothing happens before [`send`](Self::send).
#[derive(Debug)]
#[must_use = "nothing is sent before `send` is awaited"]
pub struct Request<'c> {
    client: &'c Client,
    method: Method<'static>,
    pub(super) destination: Result<Destination, ClientError>,
    fields: Cow<'c, FieldLinesBuf>,
    invalid: Option<InvalidFieldLine>,
    pub(super) content: Bytes,
    pub(super) timeouts: Timeouts,
    pub(super) is_idempotent: bool,
}

impl<'c> Request<'c> {
    pub(super) fn new(
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

    /// Adds a field line. `Host`, `Content-Length` and `Transfer-Encoding` are the client's to write: with them, as with
    /// a line that could not be sent, [`send`](Self::send) fails.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.invalid = self.invalid.or(append(self.fields.to_mut(), name, value).err());
        self
    }

    /// Adds field lines, as [`field`](Self::field) does. Those that come first are not copied.
    pub fn field_lines(mut self, field_lines: &'c FieldLinesBuf) -> Self {
        if field_lines.has_any(&OUR_FIELDS) {
            self.invalid = self.invalid.or(Some(InvalidFieldLine::Name));
        }
        if self.fields.octets().is_empty() {
            self.fields = Cow::Borrowed(field_lines);
        } else {
            self.fields.to_mut().append_lines(field_lines);
        }
        self
    }

    /// Sends `content`.
    pub fn content(mut self, content: impl Into<Bytes>) -> Self {
        self.content = content.into();
        self
    }

    /// Waits for other times than the client does.
    pub const fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Says whether to send it twice does no harm; the default is what the method says (RFC 9110 §9.2.2).
    pub const fn idempotent(mut self, is_idempotent: bool) -> Self {
        self.is_idempotent = is_idempotent;
        self
    }

    /// Sends the request, and waits for the head of the response. On a connection that had been used before and has
    /// ended without a response, it is sent once more if it is idempotent or has not left.
    ///
    /// # Errors
    /// There is no response.
    ///
    /// # Cancel safety
    /// The exchange is given up, and its connection closed, if the future is dropped.
    pub async fn send(self) -> Result<Response, ClientError> {
        self.client.execute(&self).await
    }

    /// How it is framed.
    pub(super) fn to_send(&self) -> RequestToSend {
        RequestToSend::new(self.method, self.body_length())
    }

    fn body_length(&self) -> BodyLength {
        BodyLength::Octets(self.content.len() as u64)
    }

    /// The octets of its head.
    pub(super) fn head(&self, destination: &Destination) -> Result<PooledBuffer, ClientError> {
        if let Some(invalid) = self.invalid {
            return Err(ClientError::FieldInvalid(invalid));
        }
        let mut head = PooledBuffer::take();
        let request = RequestToWrite {
            method: self.method,
            target: destination.target(),
            field_lines: [destination.field_lines().octets(), self.fields.octets()],
            body: self.body_length(),
        };
        write_request_head(&mut head, &request)
            .map_err(|rule: http1::Error| ClientError::RequestInvalid(rule))?;
        Ok(head)
    }
}

/// Adds a field line to those that a caller may write.
pub(super) fn append(
    field_lines: &mut FieldLinesBuf,
    name: &str,
    value: impl AsRef<[u8]>,
) -> Result<(), InvalidFieldLine> {
    if OUR_FIELDS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
        return Err(InvalidFieldLine::Name);
    }
    field_lines.append(name, value)
}

/// They route and frame the request.
const OUR_FIELDS: [&str; 3] = ["content-length", "host", "transfer-encoding"];
