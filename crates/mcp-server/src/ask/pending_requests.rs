//! Requests of the server to the client: the legacy way to ask.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use thruway_mcp::json_rpc::{self, Error, Id, Message, Request, Response, write_notification, write_request};
use thruway_mcp::schema::{CancelledNotificationParams, RequestId, methods};
use tokio::sync::{mpsc, oneshot};

use super::Question;
use crate::dispatch::Said;

/// The requests of one session that its client has not answered yet.
#[derive(Debug, Default)]
pub struct PendingRequests(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last_id: i64,
    waiting: HashMap<i64, oneshot::Sender<Result<Value, Error>>>,
    /// No answer will come any more.
    is_closed: bool,
}

impl PendingRequests {
    /// Gives a response of the client to whoever waits for it. One that nobody waits for is passed over: its
    /// request was cancelled, or never made.
    pub(crate) fn handle_response(&self, response: &Response<'_>) {
        let Some(Id::Integer(id)) = response.id else { return };
        let Some(waiting) = self.lock().waiting.remove(&id) else { return };
        let outcome = match &response.outcome {
            Ok(result) => serde_json::from_str(result.get())
                .map_err(|_| Error::internal("the client's result is too deep")),
            Err(error) => Err(error.clone()),
        };
        // Whoever asked may have gone.
        let _ = waiting.send(outcome);
    }

    /// Whether somebody still waits for the answer to `message`, if it is a question.
    pub(crate) fn is_waiting_for(&self, message: &[u8]) -> bool {
        match json_rpc::parse(message) {
            Ok(Message::Request(Request { id: Id::Integer(id), .. })) => {
                self.lock().waiting.contains_key(&id)
            }
            _ => true,
        }
    }

    /// The client will not answer any more: whoever waits or asks is told so.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.is_closed = true;
        inner.waiting.clear();
    }

    /// Asks, on the stream of the request that is being handled, and waits for the answer.
    ///
    /// # Errors
    /// The client answered with an error, or has gone.
    ///
    /// # Cancel safety
    /// The client is told that nobody waits any more, and an answer that comes after that is passed over.
    pub async fn ask<'a>(
        &'a self,
        question: &Question,
        outbox: &'a mpsc::Sender<Said>,
    ) -> Result<Value, Error> {
        let gone = || Error::internal("the client has gone");
        let (id, answered) = self.begin().ok_or_else(gone)?;
        let mut forget = Forget { pending: self, id, outbox: None };
        let mut request = Vec::new();
        write_request(&mut request, &Id::Integer(id), question.method, &question.params);
        outbox.send(Said::Message(request)).await.map_err(|_| gone())?;
        forget.outbox = Some(outbox);
        answered.await.map_err(|_| gone())?
    }

    fn begin(&self) -> Option<(i64, oneshot::Receiver<Result<Value, Error>>)> {
        let (answer, answered) = oneshot::channel();
        let mut inner = self.lock();
        if inner.is_closed {
            return None;
        }
        inner.last_id += 1;
        let id = inner.last_id;
        inner.waiting.insert(id, answer);
        Some((id, answered))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a request when nobody waits for its answer any more.
struct Forget<'a> {
    pending: &'a PendingRequests,
    id: i64,
    /// Where it was sent.
    outbox: Option<&'a mpsc::Sender<Said>>,
}

/// The specification wants the client to hear of a request that is given up: that is done here because there
/// is no other place that learns of it.
impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let is_unanswered = self.pending.lock().waiting.remove(&self.id).is_some();
        let Some(outbox) = self.outbox.filter(|_| is_unanswered) else { return };
        let params = CancelledNotificationParams {
            request_id: RequestId::Integer(self.id),
            reason: Some("nobody waits any more".to_owned()),
            meta: None,
        };
        let mut message = Vec::new();
        write_notification(&mut message, methods::NOTIFICATIONS_CANCELLED, &params);
        // Who does not read is not told of everything.
        let _ = outbox.try_send(Said::Message(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_questions_that_somebody_waits_for_are_worth_asking() {
        let pending = PendingRequests::default();
        let (id, _answered) = pending.begin().unwrap();
        let question = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into_bytes();
        assert!(pending.is_waiting_for(&question(id)));
        assert!(!pending.is_waiting_for(&question(id + 1)));
        drop(Forget { pending: &pending, id, outbox: None });
        assert!(!pending.is_waiting_for(&question(id)));
        assert!(pending.is_waiting_for(br#"{"jsonrpc":"2.0","method":"notifications/message"}"#));
    }
}
