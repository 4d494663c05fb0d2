//! Requests that are being handled and may be given up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_mcp::schema::RequestId;
use tokio::sync::Notify;

/// Requests of one client, by their ids.
#[derive(Clone, Default, Debug)]
pub(crate) struct InFlight(Arc<Mutex<HashMap<RequestId, Request>>>);

#[derive(Debug)]
struct Request {
    cancelled: Arc<Notify>,
    is_subscription: bool,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    all: InFlight,
    id: RequestId,
    cancelled: Arc<Notify>,
}

impl InFlight {
    /// Notes that a request is being handled; `None` if one with the same id is.
    pub(crate) fn begin(&self, id: RequestId, is_subscription: bool) -> Option<InFlightGuard> {
        let cancelled = Arc::new(Notify::new());
        let mut requests = self.lock();
        if requests.contains_key(&id) {
            return None;
        }
        requests.insert(id.clone(), Request { cancelled: cancelled.clone(), is_subscription });
        drop(requests);
        Some(InFlightGuard { all: self.clone(), id, cancelled })
    }

    /// Gives a request up, if it is being handled.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(request) = self.lock().get(id) {
            request.cancelled.notify_one();
        }
    }

    /// Gives up those that never end by themselves.
    pub(crate) fn cancel_subscriptions(&self) {
        for request in self.lock().values().filter(|request| request.is_subscription) {
            request.cancelled.notify_one();
        }
    }

    /// Gives all up.
    pub(crate) fn cancel_all(&self) {
        for request in self.lock().values() {
            request.cancelled.notify_one();
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Request>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightGuard {
    /// Ready when the request is given up.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}
