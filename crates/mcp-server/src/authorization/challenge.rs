//! The `WWW-Authenticate` header of rejected requests (RFC 6750 §3, RFC 9728 §5.1).

use std::fmt::Write as _;

use thruway_server::StatusCode;

use crate::http_response::WholeResponse;

/// A challenge that tells a rejected client which credentials are required.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Challenge {
    error: Option<&'static str>,
    /// The URL of the endpoint's metadata, if the endpoint has metadata.
    metadata: Option<String>,
    scopes: String,
}

impl Challenge {
    pub(super) const fn new(error: Option<&'static str>, metadata: Option<String>) -> Self {
        Self { error, metadata, scopes: String::new() }
    }

    pub(super) fn with_scopes(mut self, scopes: &[String]) -> Self {
        self.scopes = scopes.join(" ");
        self
    }

    pub(crate) fn into_response(self) -> WholeResponse {
        let status = match self.error {
            Some("insufficient_scope") => StatusCode::FORBIDDEN,
            Some("invalid_request") => StatusCode::BAD_REQUEST,
            _ => StatusCode::UNAUTHORIZED,
        };
        self.onto(WholeResponse::new(status))
    }

    /// Adds the challenge to `response` as a header.
    pub(crate) fn onto(self, response: WholeResponse) -> WholeResponse {
        let scopes = (!self.scopes.is_empty()).then_some(&*self.scopes);
        let parameters =
            [("resource_metadata", self.metadata.as_deref()), ("error", self.error), ("scope", scopes)];
        let mut value = String::from("Bearer");
        let mut separator = " ";
        for (name, parameter) in parameters {
            if let Some(parameter) = parameter {
                // Writing to a string cannot fail.
                let _ = write!(value, "{separator}{name}=\"{parameter}\"");
                separator = ", ";
            }
        }
        response.with_field("WWW-Authenticate", value)
    }
}
