//! On whose behalf a message came.

use std::sync::Arc;

use thruway_server::StatusCode;

use super::{Authorization, Identity};
use crate::http_response::WholeResponse;

/// On whose behalf a message came.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Whoever started this process, or may connect to its socket: they may do everything.
    Local,
    /// Anybody who reaches an endpoint that asks nobody who they are.
    Anonymous,
    /// The holder of a token that the endpoint has verified.
    Identified(Arc<Identity>, Authorization),
}

impl Caller {
    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        match self {
            Self::Local | Self::Anonymous => None,
            Self::Identified(identity, _) => Some(identity),
        }
    }

    /// What tells callers apart, where they are known.
    pub(crate) fn principal(&self) -> Option<String> {
        self.identity().map(|identity| identity.principal())
    }

    /// Whether the caller has been given all of `scopes`.
    pub(crate) fn may(&self, scopes: &[String]) -> bool {
        match self {
            Self::Local => true,
            Self::Anonymous => scopes.is_empty(),
            Self::Identified(identity, _) => scopes.iter().all(|scope| identity.has_scope(scope)),
        }
    }

    /// `response` as a refusal for want of `scopes`.
    pub(crate) fn forbid(&self, response: WholeResponse, scopes: &[String]) -> WholeResponse {
        match self {
            Self::Local | Self::Anonymous => response.with_status(StatusCode::FORBIDDEN),
            Self::Identified(_, authorization) => {
                authorization.insufficient(scopes).onto(response.with_status(StatusCode::FORBIDDEN))
            }
        }
    }
}
