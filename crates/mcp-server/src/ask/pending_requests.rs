//! Requests of the server that the client has not answered yet (legacy era).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use thruway_mcp::json_rpc::{self, Error, Id, Message, Request, Response, write_notification, write_request};
use thruway_mcp::schema::{CancelledNotificationParams, RequestId, methods};
use tokio::sync::{mpsc, oneshot};

use super::Question;
use crate::dispatch::InterimMessage;

/// The requests that the server has sent in one session, and that still wait for the client's response.
#[derive(Debug, Default)]
pub struct PendingRequests(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last_id: i64,
    waiting: HashMap<i64, oneshot::Sender<Result<Value, Error>>>,
    /// `true` after the end of the session, when no more answers can arrive.
    is_closed: bool,
}

impl PendingRequests {
    /// Delivers a response of the client to the handler that waits for it. Ignores a response to a canceled
    /// or unknown request.
    pub(crate) fn handle_response(&self, response: &Response<'_>) {
        let Some(Id::Integer(id)) = response.id else { return };
        let Some(waiting) = self.lock().waiting.remove(&id) else { return };
        let outcome = match &response.outcome {
            Ok(result) => serde_json::from_str(result.get())
                .map_err(|_| Error::internal("the client's result is nested too deeply")),
            Err(error) => Err(error.clone()),
        };
        // Sending fails if the server has already dropped the handler.
        let _ = waiting.send(outcome);
    }

    /// Returns `false` if `message` is a request of the server that no handler waits for anymore. Returns
    /// `true` for all other messages.
    pub(crate) fn is_waiting_for(&self, message: &[u8]) -> bool {
        match json_rpc::parse(message) {
            Ok(Message::Request(Request { id: Id::Integer(id), .. })) => {
                self.lock().waiting.contains_key(&id)
            }
            _ => true,
        }
    }

    /// Returns the number of requests that wait for the client's response.
    pub(crate) fn count(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Makes all unanswered questions and all later questions fail. The session calls this method when it
    /// ends.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.is_closed = true;
        inner.waiting.clear();
    }

    /// Sends a question to the client through `outbox`, the message queue of the current request. Waits for
    /// the answer.
    ///
    /// # Errors
    /// Returns an error if the client answers with an error, if the client has disconnected, or if the session
    /// has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped after the question was sent, the server notifies the client that the question
    /// is canceled, and ignores a later answer.
    pub async fn ask<'a>(
        &'a self,
        question: &Question,
        outbox: &'a mpsc::Sender<InterimMessage>,
    ) -> Result<Value, Error> {
        let gone = || Error::internal("the client has disconnected");
        let ended = || Error::internal("the session has ended");
        let (id, answered) = self.begin().ok_or_else(ended)?;
        let mut forget = RemoveOnDrop { pending: self, id, outbox: None };
        let mut request = Vec::new();
        write_request(&mut request, &Id::Integer(id), question.method, &question.params);
        outbox.send(InterimMessage::Message(request)).await.map_err(|_| gone())?;
        forget.outbox = Some(outbox);
        answered.await.map_err(|_| ended())?
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

/// Removes a pending request when this guard is dropped.
struct RemoveOnDrop<'a> {
    pending: &'a PendingRequests,
    id: i64,
    /// The queue to which the request was sent. `None` if the request was not sent yet.
    outbox: Option<&'a mpsc::Sender<InterimMessage>>,
}

/// Notifies the client that the request is canceled, unless the client has already answered. The
/// specification requires this notification. A canceled future runs no other code, so `Drop` sends the
/// notification.
impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        let is_unanswered = self.pending.lock().waiting.remove(&self.id).is_some();
        let Some(outbox) = self.outbox.filter(|_| is_unanswered) else { return };
        let params = CancelledNotificationParams {
            request_id: RequestId::Integer(self.id),
            reason: Some("the server no longer needs the answer".to_owned()),
            meta: None,
        };
        let mut message = Vec::new();
        write_notification(&mut message, methods::NOTIFICATIONS_CANCELLED, &params);
        // If the queue is full because the client does not read, the notification is lost.
        let _ = outbox.try_send(InterimMessage::Message(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_request_is_pending_until_its_handler_stops_waiting() {
        let pending = PendingRequests::default();
        let (id, _answered) = pending.begin().unwrap();
        let request = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into_bytes();
        assert!(pending.is_waiting_for(&request(id)));
        assert!(!pending.is_waiting_for(&request(id + 1)));
        drop(RemoveOnDrop { pending: &pending, id, outbox: None });
        assert!(!pending.is_waiting_for(&request(id)));
        assert!(pending.is_waiting_for(br#"{"jsonrpc":"2.0","method":"notifications/message"}"#));
    }
}
