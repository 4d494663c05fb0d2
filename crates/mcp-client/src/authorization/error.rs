//! Why there is no token.

use std::{fmt, io};

use thruway_client::ClientError;
use thruway_message::StatusCode;

/// Why there is no token, or none that the server takes. What comes from a server is bounded and escaped.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OAuthError {
    /// The source of assertions has none.
    AssertionUnavailable(io::ErrorKind),
    /// The client is not registered, and the authorization server registers nobody.
    ClientNotRegistered,
    /// The document at this URL is not what it should be.
    DocumentInvalid(Box<str>),
    /// The authorization server does not support this grant.
    GrantNotSupported(&'static str),
    /// Secrets are not sent to this URL: it is neither of `https` nor on this machine.
    InsecureUrl(Box<str>),
    /// The client is registered with another authorization server than the one that the server names.
    IssuerForeign(Box<str>),
    /// The metadata of an authorization server is that of another one (RFC 8414 §3.3).
    IssuerMismatch(Box<str>),
    /// The client has a secret, and [`RegisteredClient::of_issuer`](super::RegisteredClient::of_issuer) does
    /// not say which issuer may receive it. The server names this one.
    IssuerRequired(Box<str>),
    /// The key cannot be used.
    KeyInvalid,
    /// Nobody has logged in: the user agent says why.
    LoginFailed(io::ErrorKind),
    /// Nobody has logged in within the time for it.
    LoginTimedOut,
    /// The authorization server does not say that it supports PKCE with `S256`.
    PkceNotSupported,
    /// The way back from the authorization server does not say what it must, or says it twice.
    RedirectInvalid,
    /// The answer to a login came from another authorization server than the one that was asked (RFC 9207),
    /// or at the redirect URI of another one (RFC 9700 §4.4.2.2).
    RedirectIssuerMismatch,
    /// The way back from the authorization server answers another request.
    RedirectStateMismatch,
    /// The authorization server has refused: its error code, and what it says about it.
    Refused {
        /// As RFC 6749 §4.1.2.1 and §5.2 name it.
        error: Box<str>,
        /// For people.
        description: Option<Box<str>>,
    },
    /// The server says that it is another one (RFC 9728 §3.3).
    ResourceMismatch(Box<str>),
    /// The server wants scopes that were asked for already, or asks for others again and again.
    ScopeInsufficient,
    /// The server names no authorization server.
    ServerUnknown,
    /// An authorization server, or the server about itself, has answered with this status.
    Status(Box<str>, StatusCode),
    /// What the authorization server has issued is no token that can be used.
    TokenInvalid,
    /// The server does not take the token that was just issued.
    TokenRejected,
    /// The token was to be bound to a key, and is not (RFC 9449 §5).
    TokenUnbound,
    /// There is no response from this URL.
    Unreachable(Box<str>, ClientError),
    /// A server has named this URL on this machine, or in a private network, and is not there itself (RFC
    /// 9728 §7.7).
    UrlTooNear(Box<str>),
}

impl OAuthError {
    /// Whether it may be otherwise in a while.
    pub(crate) const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(..) => true,
            Self::Status(_, status) => status.as_u16() >= 500 || matches!(status.as_u16(), 408 | 429),
            _ => false,
        }
    }

    /// Whether the token endpoint does not take what it was given, or gives nothing for it: not that it is
    /// not to be found just now.
    pub(crate) const fn is_refusal(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::TokenInvalid | Self::TokenUnbound => true,
            Self::Status(_, status) => matches!(status.as_u16(), 400 | 401 | 403),
            _ => false,
        }
    }

    /// What the authorization server has refused; its words are bounded.
    pub(super) fn refused(error: &str, description: Option<&str>) -> Self {
        Self::Refused { error: quoted(error), description: description.map(quoted) }
    }
}

/// Words of a server, escaped, and not too many of them.
pub(super) fn quoted(text: &str) -> Box<str> {
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    text[..end].escape_debug().to_string().into()
}

const QUOTED_BYTES_MAX: usize = 300;

impl fmt::Display for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AssertionUnavailable(kind) => {
                write!(f, "there is no assertion to get a token with: {kind}")
            }
            Self::ClientNotRegistered => {
                f.write_str("the client has no id at the authorization server, which registers nobody")
            }
            Self::DocumentInvalid(url) => write!(f, "`{url}` is not what it should be"),
            Self::GrantNotSupported(grant) => {
                write!(f, "the authorization server does not support the grant `{grant}`")
            }
            Self::InsecureUrl(url) => {
                write!(f, "cannot send secrets to `{url}`: the URL is neither of `https` nor on this machine")
            }
            Self::IssuerForeign(issuer) => write!(f, "the client is not registered with `{issuer}`"),
            Self::IssuerMismatch(issuer) => {
                write!(f, "the metadata of the authorization server `{issuer}` is that of another one")
            }
            Self::IssuerRequired(issuer) => write!(
                f,
                "cannot send the client's secret to `{issuer}`, which the server names: the client has no \
                 issuer; set it to the authorization server that issued the secret"
            ),
            Self::KeyInvalid => f.write_str("the private key cannot be used"),
            Self::LoginFailed(kind) => write!(f, "nobody has logged in: {kind}"),
            Self::LoginTimedOut => f.write_str("nobody has logged in in time"),
            Self::PkceNotSupported => {
                f.write_str("the authorization server does not support PKCE with `S256`")
            }
            Self::RedirectInvalid => f.write_str("the authorization server has redirected without an answer"),
            Self::RedirectIssuerMismatch => {
                f.write_str("the answer is not of the authorization server that was asked")
            }
            Self::RedirectStateMismatch => {
                f.write_str("the answer of the authorization server is to another request")
            }
            Self::Refused { error, description: None } => {
                write!(f, "the authorization server refuses: `{error}`")
            }
            Self::Refused { error, description: Some(description) } => {
                write!(f, "the authorization server refuses: `{error}`, {description}")
            }
            Self::ResourceMismatch(resource) => write!(f, "the server says that it is `{resource}`"),
            Self::ScopeInsufficient => f.write_str("the server wants more than the token can be for"),
            Self::ServerUnknown => f.write_str("the server wants a token, and does not say whose"),
            Self::Status(url, status) => write!(f, "`{url}` has answered with the status {status}"),
            Self::TokenInvalid => {
                f.write_str("the authorization server has issued no token that can be used")
            }
            Self::TokenRejected => f.write_str("the server does not take the token that was issued for it"),
            Self::TokenUnbound => f.write_str("the authorization server has not bound the token to a key"),
            Self::Unreachable(url, error) => write!(f, "`{url}`: {error}"),
            Self::UrlTooNear(url) => write!(
                f,
                "cannot use `{url}`, which the server or its authorization server has named: it is on this \
                 machine or in a private network, and the server is not; the client does not send requests \
                 there"
            ),
        }
    }
}

impl std::error::Error for OAuthError {}
