//! Questions to the client, with one API for both eras.
//!
//! A handler asks with `await`. In the legacy era, the server sends a request to the client and waits for its
//! response.
//!
//! In the modern era, the call ends with the questions as its result. The client repeats the call with the
//! answers, and the handler runs again from its start. This time, it finds the answers. Code before the
//! questions runs again each time.

mod pending_requests;
mod request_state;
mod rounds;

pub use pending_requests::PendingRequests;
pub use request_state::{BoundRequest, RequestBinding, State, StateKey};
pub(crate) use rounds::{Rounds, input_required};

use serde::Serialize;
use serde_json::Value;

/// A request of the server to the client, embedded in a result or sent as a message.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    /// The method, such as `elicitation/create`.
    pub method: &'static str,
    /// Its parameters, an object.
    pub params: Value,
}
