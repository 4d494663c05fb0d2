//! On whose behalf a message came.

use std::net::IpAddr;
use std::sync::Arc;

use thruway_server::StatusCode;

use super::{Authorization, Identity};
use crate::http_response::WholeResponse;
use crate::shares::Holder;

/// On whose behalf a message came.
#[derive(Clone, Debug)]
pub enum Caller {
    /// Whoever started this process, or may connect to its socket: they may do everything.
    Local,
    /// A client of an endpoint that asks for no token, and the client's address if it is known.
    Anonymous(Option<IpAddr>),
    /// The holder of a token that the endpoint has verified.
    Identified(Arc<Identity>, Authorization),
}

impl Caller {
    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        match self {
            Self::Local | Self::Anonymous(_) => None,
            Self::Identified(identity, _) => Some(identity),
        }
    }

    /// What tells callers apart, where they are known.
    pub fn principal(&self) -> Option<String> {
        self.identity().map(|identity| identity.principal())
    }

    /// Returns the party that the caller's part of a limit counts against.
    pub fn holder(&self) -> Holder {
        match self {
            Self::Local => Holder::Unknown,
            Self::Anonymous(address) => Holder::new(None, *address),
            Self::Identified(identity, _) => Holder::Principal(identity.principal()),
        }
    }

    /// Whether the caller has been given all of `scopes`.
    pub(crate) fn may(&self, scopes: &[String]) -> bool {
        match self {
            Self::Local => true,
            Self::Anonymous(_) => scopes.is_empty(),
            Self::Identified(identity, _) => scopes.iter().all(|scope| identity.has_scope(scope)),
        }
    }

    /// `response` as a refusal for want of `scopes`.
    pub(crate) fn forbid(&self, response: WholeResponse, scopes: &[String]) -> WholeResponse {
        match self {
            Self::Local | Self::Anonymous(_) => response.with_status(StatusCode::FORBIDDEN),
            Self::Identified(_, authorization) => {
                authorization.insufficient(scopes).onto(response.with_status(StatusCode::FORBIDDEN))
            }
        }
    }
}
