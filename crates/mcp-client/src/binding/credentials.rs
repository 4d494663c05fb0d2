//! The credentials in the HTTP requests of a client.

use std::sync::Arc;
use std::time::Duration;

use thruway_client::{Request, Response};
use thruway_message::{Method, StatusCode};
use tokio::time::{Instant, timeout};

use super::super::authorization::{AccessToken, Attempts, Authorizer, OAuth, TokenSource};
use super::super::error::McpClientError;

/// The origin of the access tokens in the requests to one server.
#[derive(Debug)]
pub(crate) enum Credentials {
    /// The requests contain no access token.
    None,
    /// The client obtains a token when the server requires one.
    OAuth(Arc<Authorizer>),
    /// The owner of the client provides the tokens.
    Source(Arc<dyn TokenSource>),
}

impl Credentials {
    /// Returns the credentials for the server at `url`. `source` replaces `oauth`.
    pub(crate) fn of(source: Option<Arc<dyn TokenSource>>, oauth: Option<OAuth>, url: &str) -> Self {
        match (source, oauth) {
            (Some(source), _) => Self::Source(source),
            (None, Some(oauth)) => Self::OAuth(Authorizer::of(oauth, without_fragment(url))),
            (None, None) => Self::None,
        }
    }

    /// Returns the time at which the last login ended, or the current time while a login is in progress.
    /// Timeouts do not include the time of a login.
    pub(super) fn waited_until(&self) -> Option<Instant> {
        match self {
            Self::OAuth(authorizer) => authorizer.waited_until(),
            Self::None | Self::Source(_) => None,
        }
    }

    /// Sends a request to `url`. If the server demands another token, obtains a token and sends the request
    /// again.
    pub(super) async fn send<'c>(
        &self,
        method: Method<'static>,
        url: &str,
        request: impl Fn() -> Request<'c>,
    ) -> Result<Response, McpClientError> {
        match self {
            Self::None => Ok(request().send().await?),
            Self::OAuth(authorizer) => Box::pin(send_signed(authorizer, method, url, request)).await,
            Self::Source(source) => Box::pin(send_with_token(&**source, request)).await,
        }
    }

    /// Adds the current token to a request that is sent only once. Never waits for a login.
    pub(super) async fn sign_once<'c>(
        &self,
        method: Method<'static>,
        url: &str,
        request: Request<'c>,
    ) -> Result<Request<'c>, McpClientError> {
        match self {
            Self::None => Ok(request),
            Self::OAuth(authorizer) => {
                Ok(authorizer.sign(&authorizer.sent_credentials(), method.as_str(), url, request)?)
            }
            Self::Source(source) => {
                let token = timeout(TOKEN_WAIT, source.token()).await;
                Ok(with_token(request, token.map_err(|_| McpClientError::TimedOut)??.as_ref()))
            }
        }
    }
}

/// Sends a request with the current token. If the server demands another token, obtains a token and sends
/// the request again.
async fn send_signed<'c>(
    authorizer: &Arc<Authorizer>,
    method: Method<'static>,
    url: &str,
    request: impl Fn() -> Request<'c>,
) -> Result<Response, McpClientError> {
    let mut attempts = Attempts::default();
    let mut sent_credentials = authorizer.sent_credentials();
    if sent_credentials.ends_soon() {
        sent_credentials = Box::pin(authorizer.renew(&sent_credentials)).await;
    }
    loop {
        let response = authorizer.sign(&sent_credentials, method.as_str(), url, request())?.send().await?;
        let Some(demand) = sent_credentials.demand(&response) else { return Ok(response) };
        drop(response);
        // Boxed to keep the futures of accepted requests small.
        Box::pin(authorizer.satisfy(&sent_credentials, &demand, &mut attempts)).await?;
        sent_credentials = authorizer.sent_credentials();
    }
}

/// Sends a request with a token of `source`. If the server refuses the token, sends the request once more
/// with the next token.
async fn send_with_token<'c>(
    source: &dyn TokenSource,
    request: impl Fn() -> Request<'c>,
) -> Result<Response, McpClientError> {
    let token = source.token().await?;
    let response = with_token(request(), token.as_ref()).send().await?;
    match token {
        Some(token) if response.status() == StatusCode::UNAUTHORIZED && source.reject(&token) => {
            drop(response);
            let next = source.token().await?;
            Ok(with_token(request(), next.as_ref()).send().await?)
        }
        _ => Ok(response),
    }
}

fn with_token<'c>(request: Request<'c>, token: Option<&AccessToken>) -> Request<'c> {
    match token {
        Some(token) => request.field("Authorization", token.header()),
        None => request,
    }
}

/// Returns `url` without its fragment, which a request does not contain.
pub(super) fn without_fragment(url: &str) -> &str {
    url.split_once('#').map_or(url, |(before, _)| before)
}

/// Maximum time to wait for the token of a request that ends a session.
const TOKEN_WAIT: Duration = Duration::from_secs(5);
