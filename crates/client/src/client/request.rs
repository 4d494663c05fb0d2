//! A request in the making.

use bytes::Bytes;
use thruway_http1::{self as http1, BodyLength, RequestToWrite, write_request_head};
use thruway_message::{FieldLinesBuf, InvalidFieldLine, Method};
use thruway_net::PooledBuffer;

use super::url::{Target, Url};
use super::{Client, ClientError, Response};
use crate::{RequestToSend, Timeouts};

/// A request that is put together. Nothing happens before [`send`](Self::send).
#[derive(Debug)]
#[must_use = "nothing is sent before `send` is awaited"]
pub struct Request<'c> {
    client: &'c Client,
    method: Method<'static>,
    pub(super) url: String,
    fields: FieldLinesBuf,
    invalid: Option<InvalidFieldLine>,
    pub(super) content: Bytes,
    pub(super) timeouts: Timeouts,
    pub(super) is_idempotent: bool,
}

impl<'c> Request<'c> {
    pub(super) fn new(client: &'c Client, method: Method<'static>, url: &str, timeouts: Timeouts) -> Self {
        Self {
            client,
            method,
            url: url.to_owned(),
            fields: FieldLinesBuf::new(),
            invalid: None,
            content: Bytes::new(),
            timeouts,
            is_idempotent: method.is_idempotent(),
        }
    }

    /// Adds a field line. `Host`, `Content-Length` and `Transfer-Encoding` are the client's to write: with them, as with
    /// a line that could not be sent, [`send`](Self::send) fails.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let is_ours = OUR_FIELDS.iter().any(|ours| name.eq_ignore_ascii_case(ours));
        let appended = if is_ours { Err(InvalidFieldLine::Name) } else { self.fields.append(name, value) };
        self.invalid = self.invalid.or(appended.err());
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
    pub(super) fn head(&self, url: &Url<'_>) -> Result<PooledBuffer, ClientError> {
        if let Some(invalid) = self.invalid {
            return Err(ClientError::FieldInvalid(invalid));
        }
        let query_target;
        let target = match url.target {
            Target::Path(path) => path,
            Target::Query(query) => {
                query_target = format!("/{query}");
                &query_target
            }
        };
        let mut host = FieldLinesBuf::new();
        host.append("Host", url.authority.as_str()).map_err(ClientError::FieldInvalid)?;
        let mut head = PooledBuffer::take();
        let request = RequestToWrite {
            method: self.method,
            target,
            field_lines: [host.octets(), self.fields.octets()],
            body: self.body_length(),
        };
        write_request_head(&mut head, &request)
            .map_err(|rule: http1::Error| ClientError::RequestInvalid(rule))?;
        Ok(head)
    }
}

/// They route and frame the request.
const OUR_FIELDS: [&str; 3] = ["content-length", "host", "transfer-encoding"];
