//! Asking the client: one way for both eras.
//!
//! A handler asks with `await`. In the legacy era that sends a request to the client and waits for its
//! response. In the modern era the call ends with what was asked; the client brings the answers along when it
//! calls again, and the handler runs again from its start: this time it finds them there. What it did before
//! its questions it does each time.

mod pending_requests;
mod request_state;
mod rounds;

pub use pending_requests::PendingRequests;
pub use request_state::{BoundRequest, RequestBinding, State, StateKey};
pub(crate) use rounds::{Rounds, input_required};

use serde::Serialize;
use serde_json::Value;

/// A request of the server, embedded or sent.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    /// The method, such as `elicitation/create`.
    pub method: &'static str,
    /// Its parameters, an object.
    pub params: Value,
}
