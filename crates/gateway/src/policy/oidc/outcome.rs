//! The outcome of an exchange with the provider, and the responses of the policy.

use std::pin::Pin;

use thruway_server::{Response, StatusCode};

use super::cookies::Session;

/// An exchange with the provider. The future resolves to its outcome.
pub(in crate::policy) type Exchange = Pin<Box<dyn Future<Output = Outcome>>>;

/// The outcome of an exchange with the provider.
pub(in crate::policy) enum Outcome {
    /// The client gets this response.
    Respond(Reply),
    /// The request of the client continues with this session. The response gets the cookie of the session, if
    /// there is one.
    Admit { session: Session, cookie: Option<String> },
}

/// A response of the policy.
pub(in crate::policy) struct Reply {
    pub(in crate::policy) response: Response,
    /// Reason for refusing the request, in one word. `None` if the request is not refused.
    pub(in crate::policy) reason: Option<&'static str>,
}

impl Reply {
    /// Returns the response if the provider does not respond in time.
    pub(super) fn unavailable() -> Self {
        let text = "503 Service Unavailable\nThe login provider does not respond.\n".to_owned();
        let mut reply = Self::refusal(StatusCode::SERVICE_UNAVAILABLE, text, "provider_unavailable");
        reply.response = reply.response.with_field("Retry-After", "10");
        reply
    }

    pub(super) fn refusal(status: StatusCode, text: String, reason: &'static str) -> Self {
        let response = Response::text(text).with_status(status).with_field("Cache-Control", "no-store");
        Self { response, reason: Some(reason) }
    }
}
