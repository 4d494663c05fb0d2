//! Questions that a handler asks the client. A *question* is a request from the server to the client: for
//! elicitation (input from the user), for sampling (output of the client's language model), or for the
//! client's roots (its working directories). Handlers use the same API in both eras of the protocol.
//!
//! In the legacy era, the server sends each question to the client as a request, and waits for the
//! response.
//!
//! In the modern era, the server ends the call with a result that contains the questions. The client repeats
//! the call with its answers, and the server runs the handler again from the start. This time, the handler
//! gets the answers immediately. So the code before a question runs again in each round.

mod pending_requests;
mod request_state;
mod rounds;

pub use pending_requests::PendingRequests;
pub use request_state::{BoundRequest, RequestBinding, State, StateKey};
pub(crate) use rounds::{Rounds, input_required};

use serde::Serialize;
use serde_json::Value;

/// A question to the client: a request for elicitation, for sampling, or for the client's roots. In the
/// legacy era, a question is a separate message. In the modern era, a question is part of a result.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    /// The method, such as `elicitation/create`.
    pub method: &'static str,
    /// The parameters of the request, as a JSON object.
    pub params: Value,
}
