//! What those are told who may not (RFC 6750 §3, RFC 9728 §5.1).

use std::fmt::Write as _;

use thruway_server::StatusCode;

use crate::http_response::WholeResponse;

/// A refusal that says what would help.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Challenge {
    error: Option<&'static str>,
    metadata: String,
    scopes: String,
}

impl Challenge {
    pub(super) const fn new(error: Option<&'static str>, metadata: String) -> Self {
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

    /// `response` with what would help.
    pub(crate) fn onto(self, response: WholeResponse) -> WholeResponse {
        let mut value = format!("Bearer resource_metadata=\"{}\"", self.metadata);
        // Writing to a string cannot fail.
        if let Some(error) = self.error {
            let _ = write!(value, ", error=\"{error}\"");
        }
        if !self.scopes.is_empty() {
            let _ = write!(value, ", scope=\"{}\"", self.scopes);
        }
        response.with_field("WWW-Authenticate", value)
    }
}
