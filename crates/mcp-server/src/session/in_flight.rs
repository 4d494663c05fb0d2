//! Requests that are being handled and may be canceled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_mcp::schema::RequestId;
use tokio::sync::Notify;

/// Requests of one client, by their ids.
#[derive(Clone, Default, Debug)]
pub(crate) struct InFlight(Arc<Mutex<Requests>>);

#[derive(Default, Debug)]
struct Requests {
    by_id: HashMap<RequestId, Request>,
    /// The client has gone: requests that begin later are canceled at once.
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

/// Why a request is canceled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CancelCause {
    /// Its client has canceled it, and waits no more.
    Client,
    /// Its session or its connection has ended.
    End,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    all: InFlight,
    id: RequestId,
    cancellation: Arc<Cancellation>,
}

impl InFlight {
    /// Notes that a request is being handled; `None` if one with the same id is.
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

    /// Cancels a request for its client, if it is being handled.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(request) = self.lock().by_id.get(id) {
            request.cancellation.cancel(CancelCause::Client);
        }
    }

    /// Cancels the subscriptions, which never end otherwise.
    pub(crate) fn cancel_subscriptions(&self) {
        for request in self.lock().by_id.values().filter(|request| request.is_subscription) {
            request.cancellation.cancel(CancelCause::End);
        }
    }

    /// Cancels all requests, and those that begin later.
    pub(crate) fn close(&self) {
        let mut requests = self.lock();
        requests.is_closed = true;
        for request in requests.by_id.values() {
            request.cancellation.cancel(CancelCause::End);
        }
    }

    /// Number of requests that are being handled.
    pub(crate) fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cancellation {
    fn cancel(&self, cause: CancelCause) {
        // Once the session has ended, a client that has canceled the request before still gets no answer to
        // it.
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

    /// Ready when the request is canceled.
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
