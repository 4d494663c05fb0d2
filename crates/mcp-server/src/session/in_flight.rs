//! Requests in progress, and their cancellation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_mcp::schema::RequestId;
use tokio::sync::Notify;

/// The requests in progress of one client, by their ids.
#[derive(Clone, Default, Debug)]
pub(crate) struct InFlight(Arc<Mutex<Requests>>);

#[derive(Default, Debug)]
struct Requests {
    by_id: HashMap<RequestId, Request>,
    /// `true` after the session or the connection has ended. Requests that begin later are canceled at
    /// once.
    is_closed: bool,
}

#[derive(Debug)]
struct Request {
    cancellation: Arc<Cancellation>,
    is_subscription: bool,
}

#[derive(Default, Debug)]
struct Cancellation {
    notify: Notify,
    is_by_client: AtomicBool,
}

/// The cause of a cancellation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CancelCause {
    /// The client canceled the request and expects no answer.
    Client,
    /// The session or the connection of the client ended.
    End,
}

/// A request that is registered as in progress. Dropping this guard removes the request from the table.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    all: InFlight,
    id: RequestId,
    cancellation: Arc<Cancellation>,
}

impl InFlight {
    /// Registers a request as in progress. Returns `None` if another request with the same id is in
    /// progress.
    pub(crate) fn begin(&self, id: RequestId, is_subscription: bool) -> Option<InFlightGuard> {
        let cancellation = Arc::<Cancellation>::default();
        let mut requests = self.lock();
        if requests.by_id.contains_key(&id) {
            return None;
        }
        if requests.is_closed {
            cancellation.cancel(CancelCause::End);
        }
        requests.by_id.insert(id.clone(), Request { cancellation: cancellation.clone(), is_subscription });
        drop(requests);
        Some(InFlightGuard { all: self.clone(), id, cancellation })
    }

    /// Cancels the request `id` on behalf of its client, if this request is in progress.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(request) = self.lock().by_id.get(id) {
            request.cancellation.cancel(CancelCause::Client);
        }
    }

    /// Cancels all subscriptions, because they would never end.
    pub(crate) fn cancel_subscriptions(&self) {
        for request in self.lock().by_id.values().filter(|request| request.is_subscription) {
            request.cancellation.cancel(CancelCause::End);
        }
    }

    /// Cancels all requests in progress, and all requests that begin later.
    pub(crate) fn close(&self) {
        let mut requests = self.lock();
        requests.is_closed = true;
        for request in requests.by_id.values() {
            request.cancellation.cancel(CancelCause::End);
        }
    }

    /// Returns the number of requests in progress.
    pub(crate) fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cancellation {
    fn cancel(&self, cause: CancelCause) {
        // A request that the client canceled gets no answer, even if the session ends afterwards.
        if cause == CancelCause::Client {
            self.is_by_client.store(true, Ordering::Release);
        }
        self.notify.notify_one();
    }
}

impl InFlightGuard {
    pub(crate) const fn id(&self) -> &RequestId {
        &self.id
    }

    /// Waits until the request is canceled, and returns the cause.
    pub(crate) async fn cancelled(&self) -> CancelCause {
        self.cancellation.notify.notified().await;
        if self.cancellation.is_by_client.load(Ordering::Acquire) {
            CancelCause::Client
        } else {
            CancelCause::End
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.all.lock().by_id.remove(&self.id);
    }
}
