//! Requests to servers that the client does not trust yet. The client limits the time and size of each
//! response, and follows redirects only within the origin.

use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use thruway_client::{Client, Request, Response, Timeouts};
use thruway_message::StatusCode;

use super::error::{OAuthError, quoted};
use super::url::{HostScope, HttpUrl};

/// Sends requests for documents and tokens.
#[derive(Debug)]
pub(super) struct Fetch {
    client: Client,
    /// The network scope of the MCP server: this machine, a private network, or the Internet. URLs that the
    /// MCP server names must not have a smaller scope.
    server: HostScope,
    timeouts: Timeouts,
}

/// A response and its complete body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content: Bytes,
    /// The nonce for the next proof of possession (RFC 9449 §8).
    pub(super) dpop_nonce: Option<String>,
}

impl Fetch {
    pub(super) const fn new(client: Client, server: HostScope) -> Self {
        Self { client, server, timeouts: TIMEOUTS }
    }

    /// Returns this value with the limit `timeout` for the time of each request.
    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeouts: Timeouts { head: timeout, total: Some(timeout), ..TIMEOUTS }, ..self }
    }

    /// Returns a copy of this value for URLs that the user has configured. Such URLs may be on this
    /// machine.
    pub(super) fn for_configured_urls(&self) -> Self {
        Self::new(self.client.clone(), HostScope::Machine)
    }

    /// Parses a URL that a server has named, and checks that the client may send requests and secrets to
    /// this URL (RFC 9728 §7.7).
    pub(super) fn admit(&self, url: &str) -> Result<HttpUrl, OAuthError> {
        let url = HttpUrl::parse(url).ok_or_else(|| OAuthError::DocumentInvalid(quoted(url)))?;
        if url.reach() < self.server {
            Err(OAuthError::UrlTooNear(quoted(url.as_str())))
        } else if url.is_private() {
            Ok(url)
        } else {
            Err(OAuthError::InsecureUrl(quoted(url.as_str())))
        }
    }

    /// Fetches the document at `url`. Returns `None` if the server has no such document (status 4xx).
    pub(super) async fn document<T: DeserializeOwned>(&self, url: &HttpUrl) -> Result<Option<T>, OAuthError> {
        let response = self.follow(url).await?;
        match response.status() {
            StatusCode::OK => {}
            // These statuses indicate a temporary failure.
            status if matches!(status.as_u16(), 408 | 429) => {
                return Err(OAuthError::Status(quoted(url.as_str()), status));
            }
            status if matches!(status.as_u16(), 400..=499) => return Ok(None),
            status => return Err(OAuthError::Status(quoted(url.as_str()), status)),
        }
        let content = collect(url, response).await?;
        let document = serde_json::from_slice(&content);
        document.map(Some).map_err(|_| OAuthError::DocumentInvalid(quoted(url.as_str())))
    }

    /// Sends a GET request to `url`, and follows redirects within the origin of `url`.
    async fn follow(&self, url: &HttpUrl) -> Result<Response, OAuthError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let request =
                self.client.get(url.as_str()).field("Accept", "application/json").timeouts(self.timeouts);
            let response = send(&url, request).await?;
            let location = response.field("location").and_then(|value| value.as_str());
            let location =
                location.filter(|_| matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308));
            let Some(location) = location else { return Ok(response) };
            let next = url.join(location).filter(|next| next.has_origin_of(&url));
            url = next.ok_or_else(|| OAuthError::Status(quoted(url.as_str()), response.status()))?;
        }
        Err(OAuthError::DocumentInvalid(quoted(url.as_str())))
    }

    /// Sends a POST request that may contain secrets, and reads the response. Does not follow redirects.
    pub(super) async fn post(
        &self,
        url: &HttpUrl,
        content_type: &str,
        content: String,
        fields: &[(&'static str, String)],
    ) -> Result<Answer, OAuthError> {
        let request = self.client.post(url.as_str()).field("Content-Type", content_type);
        let request = request.field("Accept", "application/json").content(content).timeouts(self.timeouts);
        let request = fields.iter().fold(request, |request, (name, value)| request.field(name, value));
        let response = send(url, request).await?;
        let status = response.status();
        let dpop_nonce = response.field("dpop-nonce").and_then(|nonce| nonce.as_str()).map(str::to_owned);
        Ok(Answer { status, content: collect(url, response).await?, dpop_nonce })
    }
}

async fn send(url: &HttpUrl, request: Request<'_>) -> Result<Response, OAuthError> {
    request.send().await.map_err(|error| OAuthError::Unreachable(quoted(url.as_str()), error))
}

async fn collect(url: &HttpUrl, response: Response) -> Result<Bytes, OAuthError> {
    let content = response.collect(DOCUMENT_BYTES_MAX).await;
    content.map_err(|error| OAuthError::Unreachable(quoted(url.as_str()), error))
}

/// Maximum size of a response, in bytes. Metadata documents have a few hundred bytes, and responses with
/// tokens have a few thousand bytes.
const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// Maximum number of redirects within an origin, for example to the path with a trailing slash.
const REDIRECTS_MAX: usize = 3;

const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(20),
    content_idle: Duration::from_secs(10),
    write_stall: Duration::from_secs(10),
    expect_continue: Duration::from_secs(1),
    total: Some(Duration::from_secs(20)),
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: any server could name this machine by names other than `localhost`, or name addresses
    /// in the network of the client.
    #[test]
    fn server_cannot_name_urls_in_a_closer_network() {
        let admit = |server, url: &str| Fetch::new(Client::new(), server).admit(url).map(drop);
        for url in ["http://127.0.0.1:8080/", "https://localhost/", "https://a.localhost./", "https://127.1/"]
        {
            assert_eq!(admit(HostScope::Machine, url), Ok(()), "{url}");
            for server in [HostScope::Network, HostScope::Internet] {
                assert_eq!(admit(server, url), Err(OAuthError::UrlTooNear(url.into())), "{url}");
            }
        }
        for server in [HostScope::Machine, HostScope::Network] {
            assert_eq!(admit(server, "https://192.168.1.1/"), Ok(()));
        }
        for url in ["https://192.168.1.1/", "https://169.254.169.254/", "https://[fd00::1]/"] {
            assert_eq!(admit(HostScope::Internet, url), Err(OAuthError::UrlTooNear(url.into())), "{url}");
        }
        for server in [HostScope::Machine, HostScope::Network, HostScope::Internet] {
            assert_eq!(admit(server, "https://as.example/"), Ok(()));
            let url = "http://as.example/";
            assert_eq!(admit(server, url), Err(OAuthError::InsecureUrl(url.into())));
            assert!(admit(server, "nonsense").is_err());
        }
        // Regression test: the client also rejected the identity provider that the user had configured.
        let configured = Fetch::new(Client::new(), HostScope::Internet).for_configured_urls();
        assert!(
            configured.admit("http://127.0.0.1:8080/").is_ok()
                && configured.admit("https://10.0.0.1/").is_ok()
        );
    }
}
