//! Confirmation by a legacy client: the gateway sends a request during the call, and waits for the response.

use std::sync::Arc;
use std::time::Duration;

use serde_json::from_value;
use thruway_mcp::json_rpc::Error;
use thruway_mcp_server::backend::{InterimMessage, Session};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::question::{CallToConfirm, Unconfirmed, can_ask, check_answer};

/// A legacy client that the gateway can ask during a call.
pub(in crate::federation) struct SessionToAsk<'c> {
    /// The session, if the client has one.
    pub(in crate::federation) session: Option<&'c Arc<Session>>,
    /// The queue for messages on the response stream of the call.
    pub(in crate::federation) outbox: Option<&'c mpsc::Sender<InterimMessage>>,
}

impl SessionToAsk<'_> {
    /// Asks the user, and waits at most `wait` for the answer.
    pub(super) async fn confirm(&self, call: &CallToConfirm<'_>, wait: Duration) -> Result<(), Unconfirmed> {
        let (Some(session), Some(outbox)) = (self.session, self.outbox) else { return Err(cannot_ask()) };
        if !can_ask(&session.client_capabilities()) {
            return Err(cannot_ask());
        }
        let question = call.question()?;
        let answered = timeout(wait, session.pending.ask(&question, outbox)).await;
        let no_answer = |_| Error::internal("the client did not answer before the timeout");
        let answer = answered.map_err(no_answer).flatten().map_err(Unconfirmed::Refused)?;
        let invalid =
            |_| Unconfirmed::Refused(Error::internal("the client's answer to the elicitation is invalid"));
        check_answer(&from_value(answer).map_err(invalid)?)
    }
}

fn cannot_ask() -> Unconfirmed {
    Unconfirmed::Refused(Error::internal(
        "this tool needs a confirmation by the user, and the client does not support elicitation with forms",
    ))
}
