//! The errors of OAuth authorization.

use std::{fmt, io};

use thruway_client::ClientError;
use thruway_message::StatusCode;

/// The reason why the client has no token, or only a token that the server refuses. Text from servers is
/// escaped and limited in length.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OAuthError {
    /// The callback that provides an assertion or an ID token failed.
    AssertionUnavailable(io::ErrorKind),
    /// The caller has no verified token that the gateway could exchange.
    CallerTokenRequired,
    /// The client is not registered, and the authorization server does not permit registration.
    ClientNotRegistered,
    /// The document at this URL is invalid.
    DocumentInvalid(Box<str>),
    /// The authorization server does not support this grant.
    GrantNotSupported(&'static str),
    /// The client does not send secrets to this URL, because it is neither `https` nor on this machine.
    InsecureUrl(Box<str>),
    /// The server names this issuer, but the client is registered with another issuer.
    IssuerForeign(Box<str>),
    /// The metadata of the authorization server with this issuer URL names another issuer (RFC 8414 §3.3).
    IssuerMismatch(Box<str>),
    /// The client has a secret, but [`RegisteredClient::of_issuer`](super::RegisteredClient::of_issuer) was
    /// not called. Contains the issuer that the server names.
    IssuerRequired(Box<str>),
    /// The private key is invalid, or its algorithm is unsupported.
    KeyInvalid,
    /// The login failed. Contains the error of the user agent.
    LoginFailed(io::ErrorKind),
    /// The login did not complete within [`login_timeout`](super::OAuth::login_timeout).
    LoginTimedOut,
    /// The authorization server does not declare support for PKCE with `S256`.
    PkceNotSupported,
    /// The redirect from the authorization server lacks a parameter, or repeats a parameter.
    RedirectInvalid,
    /// The answer to a login came from another authorization server (RFC 9207), or arrived at the redirect
    /// URI of another authorization server (RFC 9700 §4.4.2.2).
    RedirectIssuerMismatch,
    /// The redirect from the authorization server belongs to another login.
    RedirectStateMismatch,
    /// The authorization server refused the request.
    Refused {
        /// The error code (RFC 6749 §4.1.2.1 and §5.2).
        error: Box<str>,
        /// A description for humans, if the authorization server sent one.
        description: Option<Box<str>>,
    },
    /// The metadata of the server describes another server, which has this URL (RFC 9728 §3.3).
    ResourceMismatch(Box<str>),
    /// The server demands scopes that were already requested, or demands other scopes repeatedly.
    ScopeInsufficient,
    /// The server names no authorization server.
    ServerUnknown,
    /// A request to this URL failed with this HTTP status. The request went to an authorization server, or
    /// requested a metadata document.
    Status(Box<str>, StatusCode),
    /// The authorization server issued an unusable token.
    TokenInvalid,
    /// The server refused a token that the authorization server had just issued.
    TokenRejected,
    /// The authorization server issued a token that is not bound to the key of the client (RFC 9449 §5).
    TokenUnbound,
    /// The gateway cannot obtain a token for the server. The log contains the reason. The value is `true` if
    /// the failure may be temporary.
    TokenUnavailable(bool),
    /// A request to this URL failed without a complete response.
    Unreachable(Box<str>, ClientError),
    /// A server named this URL, which is on this machine or in a private network. The server itself is
    /// farther away, so the client does not send requests to this URL (RFC 9728 §7.7).
    UrlTooNear(Box<str>),
}

impl OAuthError {
    /// `true` if the failure may be temporary.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(..) => true,
            Self::TokenUnavailable(is_passing) => *is_passing,
            Self::Status(_, status) => status.as_u16() >= 500 || matches!(status.as_u16(), 408 | 429),
            _ => false,
        }
    }

    /// `true` if the token endpoint refused the request or issued no usable token. `false` if the token
    /// endpoint was unavailable.
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::TokenInvalid | Self::TokenUnbound => true,
            Self::Status(_, status) => matches!(status.as_u16(), 400 | 401 | 403),
            _ => false,
        }
    }

    /// Creates the error for a refusal by an authorization server. Escapes and shortens the text of that
    /// server.
    pub(super) fn refused(error: &str, description: Option<&str>) -> Self {
        Self::Refused { error: quoted(error), description: description.map(quoted) }
    }
}

/// Escapes text that a server sent, and limits its length.
pub(super) fn quoted(text: &str) -> Box<str> {
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    text[..end].escape_debug().to_string().into()
}

const QUOTED_BYTES_MAX: usize = 300;

impl fmt::Display for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AssertionUnavailable(kind) => {
                write!(f, "cannot obtain an assertion for a token request: {kind}")
            }
            Self::CallerTokenRequired => f.write_str(
                "the server requires a token of the caller, but the request has no verified token",
            ),
            Self::ClientNotRegistered => f.write_str(
                "the client is not registered, and the authorization server does not permit \
                 registration; configure a client id",
            ),
            Self::DocumentInvalid(url) => write!(f, "the document at `{url}` is invalid"),
            Self::GrantNotSupported(grant) => {
                write!(f, "the authorization server does not support the grant `{grant}`")
            }
            Self::InsecureUrl(url) => {
                write!(f, "cannot send secrets to `{url}`: the URL is neither `https` nor on this machine")
            }
            Self::IssuerForeign(issuer) => write!(
                f,
                "the server names the issuer `{issuer}`, but the client is registered with another issuer"
            ),
            Self::IssuerMismatch(issuer) => {
                write!(f, "the metadata of the authorization server `{issuer}` names another issuer")
            }
            Self::IssuerRequired(issuer) => write!(
                f,
                "cannot send the client's secret to `{issuer}`, which the server names: the client has no \
                 issuer; set it to the authorization server that issued the secret"
            ),
            Self::KeyInvalid => f.write_str("the private key is invalid, or its algorithm is unsupported"),
            Self::LoginFailed(kind) => write!(f, "the login failed: {kind}"),
            Self::LoginTimedOut => {
                f.write_str("the login did not complete in time; repeat the call to log in")
            }
            Self::PkceNotSupported => {
                f.write_str("the authorization server does not support PKCE with `S256`")
            }
            Self::RedirectInvalid => {
                f.write_str("the redirect URL from the authorization server lacks or repeats a parameter")
            }
            Self::RedirectIssuerMismatch => {
                f.write_str("the answer to the login came from another authorization server")
            }
            Self::RedirectStateMismatch => {
                f.write_str("the answer from the authorization server belongs to another login")
            }
            Self::Refused { error, description } => write_refusal(f, error, description.as_deref()),
            Self::ResourceMismatch(resource) => {
                write!(f, "the metadata of the server describes another server: `{resource}`")
            }
            Self::ScopeInsufficient => f.write_str("the server demands scopes that the client cannot obtain"),
            Self::ServerUnknown => {
                f.write_str("the server requires a token but names no authorization server")
            }
            Self::Status(url, status) => write!(f, "`{url}` answered with status {status}"),
            Self::TokenInvalid => f.write_str("the authorization server issued an unusable token"),
            Self::TokenRejected => f.write_str("the server rejected a token that had just been issued"),
            Self::TokenUnbound => {
                f.write_str("the authorization server issued a token that is not bound to the client's key")
            }
            Self::TokenUnavailable(_) => f.write_str(TOKEN_UNAVAILABLE),
            Self::Unreachable(url, error) => write!(f, "cannot reach `{url}`: {error}"),
            Self::UrlTooNear(url) => write!(
                f,
                "cannot use `{url}`, which the server or its authorization server has named: it is on this \
                 machine or in a private network, and the server is not"
            ),
        }
    }
}

fn write_refusal(f: &mut fmt::Formatter<'_>, error: &str, description: Option<&str>) -> fmt::Result {
    write!(f, "the authorization server refused the request: `{error}`")?;
    description.map_or(Ok(()), |description| write!(f, ", {description}"))
}

const TOKEN_UNAVAILABLE: &str =
    "cannot obtain a token for the server; the log of the gateway contains the reason";

impl std::error::Error for OAuthError {}
