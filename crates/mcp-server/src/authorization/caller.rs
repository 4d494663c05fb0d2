//! The caller of a request: the caller's identity and permissions.

use std::net::IpAddr;
use std::sync::Arc;

use thruway_mcp::schema::JsonObject;
use thruway_server::StatusCode;

use super::{Authorization, CallerToken, Identity};
use crate::http_response::WholeResponse;
use crate::shares::Holder;

/// The sender of a message.
#[derive(Clone, Debug)]
pub enum Caller {
    /// The process that started this server, or a client of the server's Unix socket. Such a caller has
    /// all permissions.
    Local,
    /// A client of an endpoint that requires no tokens. Contains the client's address, if the address is
    /// known.
    Anonymous(Option<IpAddr>),
    /// A caller whose identity was verified. Contains the access rules of the endpoint, if the endpoint has
    /// verified the caller's token. Otherwise, a handler in front of the endpoint has verified the caller.
    Identified(Arc<Identity>, Option<Authorization>),
}

/// Address of a client whose request another gateway has received. A handler in front of an endpoint attaches it to the
/// [extensions](thruway_server::Request::extensions) of the request. The endpoint then uses it in place of the address
/// of the connection. `None` if the address is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallerAddress(pub Option<IpAddr>);

impl Caller {
    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        match self {
            Self::Local | Self::Anonymous(_) => None,
            Self::Identified(identity, _) => Some(identity),
        }
    }

    /// Returns the unique name of the caller, if the identity of the caller was verified.
    pub fn principal(&self) -> Option<String> {
        self.identity().map(|identity| identity.principal())
    }

    /// Returns the claims of the caller's verified token, if the caller has a token.
    pub fn claims(&self) -> Option<&JsonObject> {
        self.identity().map(|identity| &identity.claims)
    }

    /// Returns the verified token of the caller, if known. Never send this token to another server.
    pub fn token(&self) -> Option<&CallerToken> {
        self.identity()?.token.as_ref()
    }

    /// Returns this caller in the form that is used for limits on sessions, requests and tasks.
    pub fn holder(&self) -> Holder {
        match self {
            Self::Local => Holder::Unknown,
            Self::Anonymous(address) => Holder::new(None, *address),
            Self::Identified(identity, _) => Holder::Principal(identity.principal()),
        }
    }

    /// Returns `true` if the caller has all of `scopes`.
    pub(crate) fn may(&self, scopes: &[String]) -> bool {
        match self {
            Self::Local => true,
            Self::Anonymous(_) => scopes.is_empty(),
            Self::Identified(identity, _) => scopes.iter().all(|scope| identity.has_scope(scope)),
        }
    }

    /// Sets the status of `response` to 403, because the caller lacks at least one of `scopes`. Adds a
    /// `WWW-Authenticate` challenge if the endpoint has verified the caller's token.
    pub(crate) fn forbid(&self, response: WholeResponse, scopes: &[String]) -> WholeResponse {
        match self {
            Self::Local | Self::Anonymous(_) | Self::Identified(_, None) => {
                response.with_status(StatusCode::FORBIDDEN)
            }
            Self::Identified(_, Some(authorization)) => {
                authorization.insufficient(scopes).onto(response.with_status(StatusCode::FORBIDDEN))
            }
        }
    }
}
