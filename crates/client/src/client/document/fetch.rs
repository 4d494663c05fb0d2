//! A single fetch of a document.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use thruway_message::StatusCode;
use tokio::time::timeout;

use super::super::{Client, ClientConfig, ClientError, Response};
use super::DocumentConfig;

/// The settings of a document, and the client that fetches it.
pub(super) struct Source {
    pub(super) config: DocumentConfig,
    client: Client,
}

/// The reason that a fetch failed.
#[derive(Debug)]
pub(super) enum FetchError {
    /// No response arrived, or only a part of a response arrived.
    Client(ClientError),
    /// The server responded with a status other than 200.
    Status(StatusCode),
    /// The fetch took too long.
    TimedOut,
    /// The document is unusable. The text contains the reason.
    Unusable(String),
}

impl Source {
    pub(super) fn new(config: DocumentConfig) -> Self {
        let client = Client::with_config(ClientConfig { tls: config.tls.clone(), ..ClientConfig::default() });
        Self { config, client }
    }

    /// Fetches the document. Returns the result of `read`, and the time for which the document is fresh.
    pub(super) async fn fetch<T, E: fmt::Display>(
        &self,
        read: &dyn Fn(&[u8]) -> Result<T, E>,
    ) -> Result<(T, Duration), FetchError> {
        let fetched = timeout(self.config.fetch_timeout, self.ask()).await;
        let (content, max_age) = fetched.map_err(|_| FetchError::TimedOut)??;
        let value = read(&content).map_err(|error| FetchError::Unusable(error.to_string()))?;
        let longest = self.config.refresh_interval.min(self.config.age_max);
        Ok((value, max_age.map_or(longest, |max_age| max_age.min(longest))))
    }

    /// Returns the response body, and the time for which the body is fresh according to the server.
    async fn ask(&self) -> Result<(Bytes, Option<Duration>), FetchError> {
        let request = self.client.get(self.config.url.as_str()).field("Accept", &self.config.accept);
        let response = request.send().await.map_err(FetchError::Client)?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let fresh_for = fresh_for(&response);
        let content = response.collect(self.config.bytes_max).await.map_err(FetchError::Client)?;
        Ok((content, fresh_for))
    }
}

/// Returns the time for which the response is still fresh, or `None` if the response does not specify this
/// time (RFC 9111 §5.2.2). Subtracts the `Age` of the response.
fn fresh_for(response: &Response) -> Option<Duration> {
    let number = |text: &str| text.trim().trim_matches('"').parse().ok();
    let age = response.field("age").and_then(|age| number(age.as_str()?)).unwrap_or(0);
    let control = response.field("cache-control")?;
    let directives = || control.as_str().into_iter().flat_map(|text| text.split(',')).map(str::trim);
    if directives()
        .any(|directive| ["no-store", "no-cache"].iter().any(|no| directive.eq_ignore_ascii_case(no)))
    {
        return Some(Duration::ZERO);
    }
    let seconds = directives().find_map(|directive| {
        let (name, value) = directive.split_once('=')?;
        name.trim().eq_ignore_ascii_case("max-age").then(|| number(value))?
    });
    seconds.map(|seconds: u64| Duration::from_secs(seconds.saturating_sub(age)))
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Status(status) => write!(f, "the server responded with status {}", status.as_u16()),
            Self::TimedOut => f.write_str("the fetch took too long"),
            Self::Unusable(reason) => f.write_str(reason),
        }
    }
}
