//! Requests of the server to the client: the legacy way to ask.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use thruway_mcp::json_rpc::{Error, Id, Response, write_request};
use tokio::sync::{mpsc, oneshot};

use super::Question;
use crate::dispatch::Said;

/// The requests of one session that its client has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    last_id: AtomicI64,
    waiting: Mutex<HashMap<i64, oneshot::Sender<Result<Value, Error>>>>,
}

impl PendingRequests {
    /// Gives a response of the client to whoever waits for it. One that nobody waits for is passed over: its request was
    /// cancelled, or never made.
    pub(crate) fn handle_response(&self, response: &Response<'_>) {
        let Some(Id::Integer(id)) = response.id else { return };
        let Some(waiting) = self.lock().remove(&id) else { return };
        let outcome = match &response.outcome {
            Ok(result) => serde_json::from_str(result.get())
                .map_err(|_| Error::internal("the client's result is too deep")),
            Err(error) => Err(error.clone()),
        };
        // Whoever asked may have gone.
        let _ = waiting.send(outcome);
    }

    /// Asks, on the stream of the request that is being handled, and waits for the answer.
    ///
    /// # Errors
    /// The client answered with an error, or has gone.
    ///
    /// # Cancel safety
    /// An answer that comes after this was dropped is passed over.
    pub(crate) async fn ask(&self, question: &Question, outbox: &mpsc::Sender<Said>) -> Result<Value, Error> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = oneshot::channel();
        let _forget = Forget { pending: self, id };
        self.lock().insert(id, answer);
        let mut request = Vec::new();
        write_request(&mut request, &Id::Integer(id), question.method, &question.params);
        let gone = || Error::internal("the client has gone");
        outbox.send(Said::Message(request)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, oneshot::Sender<Result<Value, Error>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a request when nobody waits for its answer any more.
struct Forget<'a> {
    pending: &'a PendingRequests,
    id: i64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.pending.lock().remove(&self.id);
    }
}
