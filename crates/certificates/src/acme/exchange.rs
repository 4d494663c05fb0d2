//! Sends requests to an ACME server with `thruway-client`: over `https` only, with a timeout and a maximum
//! response size.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use http_body::Body;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use thruway_client::{Client, ClientConfig, ClientError, PoolConfig, Timeouts};
use thruway_message::Method;
use thruway_net::Clock;

use super::AcmeConfig;
use super::due::RETRY_AFTER_MAX;

/// HTTP client that sends the requests of an ACME account.
#[derive(Clone)]
pub(super) struct Exchange {
    client: Client,
    last_retry_after: RetryAfter,
}

/// Delay from the last `Retry-After` header. Clones share the value.
#[derive(Clone, Default)]
pub(super) struct RetryAfter(Arc<Mutex<Option<Duration>>>);

/// Reason why a request got no response.
#[derive(Debug)]
pub(super) enum ExchangeError {
    Client(ClientError),
    /// A URL from the ACME server does not begin with `https://`.
    NotHttps,
}

impl Exchange {
    pub(super) fn new(config: &AcmeConfig, last_retry_after: RetryAfter) -> Self {
        let mut client = ClientConfig {
            tls: Some(config.connector.clone()),
            connect: config.pace.answer,
            ..ClientConfig::default()
        };
        client.exchange.timeouts =
            Timeouts { total: Some(config.pace.answer), head: config.pace.answer, ..Timeouts::default() };
        // Servers may close connections that are idle for longer than `IDLE`, and a POST on a closed
        // connection would be lost.
        client.pool = PoolConfig { idle: IDLE, ..PoolConfig::default() };
        Self { client: Client::with_config(client), last_retry_after }
    }

    async fn send(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Result<http::Response<Bytes>, ExchangeError> {
        let (parts, mut body) = request.into_parts();
        let url = parts.uri.to_string();
        if !url.starts_with("https://") {
            return Err(ExchangeError::NotHttps);
        }
        let content = content_of(&mut body).await;
        let method = match parts.method {
            http::Method::POST => Method::Post,
            http::Method::HEAD => Method::Head,
            _ => Method::Get,
        };
        let request = self.client.request(method, &url).content(content).field("User-Agent", OURSELVES);
        let fields = parts.headers.iter().filter(|(name, _)| *name != USER_AGENT);
        let request = fields.fold(request, |request, (name, value)| request.field(name.as_str(), value));
        let response = request.send().await?;
        let mut answer = http::Response::new(Bytes::new());
        *answer.status_mut() = http::StatusCode::from_u16(response.status().as_u16()).unwrap_or_default();
        copy_fields(&response, answer.headers_mut());
        self.last_retry_after.heed(&mut answer);
        *answer.body_mut() = response.collect(ANSWER_BYTES_MAX).await?;
        Ok(answer)
    }
}

impl HttpClient for Exchange {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let answer = client.send(request).await.map_err(|error| Error::Other(Box::new(error)))?;
            let (parts, content) = answer.into_parts();
            Ok(BytesResponse { parts, body: Box::new(content) })
        })
    }
}

/// Returns the request body, which `instant-acme` passes as a single frame.
async fn content_of(body: &mut BodyWrapper<Bytes>) -> Bytes {
    let Some(Ok(piece)) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await else {
        return Bytes::new();
    };
    piece.into_data().unwrap_or_default()
}

/// Copies the response headers that the ACME protocol uses.
fn copy_fields(response: &thruway_client::Response, fields: &mut HeaderMap) {
    for name in ["location", "replay-nonce", "retry-after"] {
        let value = response.field(name).and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        if let Some(value) = value {
            fields.insert(name, value);
        }
    }
}

impl RetryAfter {
    /// Stores the `Retry-After` of a response with status 429 or 503. In all responses, limits
    /// `Retry-After` to one day: `instant-acme` adds the value to the current time, and a large value would
    /// overflow.
    fn heed<B>(&self, answer: &mut http::Response<B>) {
        let value = answer.headers_mut().remove(RETRY_AFTER);
        let now = Clock::system().time_of_day();
        let server_wait = value.and_then(|value| parse_retry_after(value.to_str().ok()?, now));
        let Some(server_wait) = server_wait else { return };
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(server_wait.as_secs()));
        if matches!(answer.status().as_u16(), 429 | 503) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(server_wait);
        }
    }

    /// Returns the stored delay and clears the delay.
    pub(super) fn take(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Parses the value of `Retry-After` (RFC 9110 §10.2.3): a number of seconds, or a date. Returns the delay
/// from `now`.
fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let server_wait = match value.trim() {
        text if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs)
        }
        text => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(server_wait.min(RETRY_AFTER_MAX))
}

impl From<ClientError> for ExchangeError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::NotHttps => f.write_str("the server sent a URL that does not begin with `https://`"),
        }
    }
}

impl std::error::Error for ExchangeError {}

/// Value of `User-Agent` (RFC 8555 §6.1).
const OURSELVES: &str = concat!("thruway/", env!("CARGO_PKG_VERSION"));

/// Maximum size of a response, in bytes. Certificate chains are the largest responses and have a few
/// kilobytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

const IDLE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_parsed_and_capped_at_one_day() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let seconds = |value: &str| parse_retry_after(value, now).map(|delay| delay.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 0 "), Some(0));
        assert_eq!(seconds("18446744073709551615"), Some(86_400));
        assert_eq!(seconds("99999999999999999999999"), Some(86_400));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        assert_eq!(seconds("Fri, 31 Dec 9999 23:59:59 GMT"), Some(86_400));
        for value in ["", "-1", "1.5", "soon"] {
            assert_eq!(seconds(value), None);
        }
    }
}
