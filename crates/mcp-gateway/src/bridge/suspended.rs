//! Modern calls that wait until their clients answer questions of the server.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_mcp::json_rpc::Error;
use thruway_mcp_server::ReplicaIds;
use thruway_mcp_server::backend::{Holder, LimitReached, RequestBinding, Share, Shares};
use thruway_net::unguessable_id;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::ongoing::OngoingCall;

/// The calls that wait for their clients' answers. The key of a call is the `requestState` that the client
/// must send with its answers.
pub(super) struct Suspended {
    calls: Mutex<HashMap<Box<str>, Call>>,
    capacity: Arc<Shares>,
    wait: Duration,
    /// Creates the ids of calls. `None` if ids do not name the replica.
    replica_ids: Option<ReplicaIds>,
}

struct Call {
    ongoing: OngoingCall,
    /// Identifies the caller and the request that may resume the call.
    binding: RequestBinding,
    _timer: Timer,
    _share: Share,
}

/// Cancels a call if the client does not answer in time. Dropping this value stops the timer.
struct Timer(AbortHandle);

impl Suspended {
    pub(super) fn new(max: usize, wait: Duration, replica_ids: Option<ReplicaIds>) -> Arc<Self> {
        Arc::new(Self { calls: Mutex::default(), capacity: Shares::new(max), wait, replica_ids })
    }

    /// Returns the number of calls that wait.
    pub(super) fn count(&self) -> usize {
        self.calls().len()
    }

    /// Returns the maximum time that a call waits for the client's answers.
    pub(super) const fn wait(&self) -> Duration {
        self.wait
    }

    /// Stores a call of the caller `holder` until the client answers or the maximum wait expires. Returns the
    /// `requestState` that the client must send with its answers.
    ///
    /// # Errors
    /// All callers together, or `holder` alone, have too many waiting calls.
    pub(super) fn put(
        self: &Arc<Self>,
        ongoing: OngoingCall,
        binding: RequestBinding,
        holder: &Holder,
    ) -> Result<Box<str>, Error> {
        let share = self.capacity.take(holder, 1).map_err(|refusal| {
            Error::internal(match refusal {
                LimitReached::Full => "too many calls wait for answers of their clients: try again later",
                LimitReached::HolderHasShare => {
                    "too many calls of this caller wait for answers to elicitation, sampling or roots \
                     requests: answer some of them, then try again"
                }
            })
        })?;
        let state = self.replica_ids.as_ref().map_or_else(unguessable_id, ReplicaIds::new_state_id);
        let mut calls = self.calls();
        let (all, overdue) = (self.clone(), state.clone());
        let giving_up = tokio::spawn(async move {
            sleep(all.wait).await;
            let _given_up = all.calls().remove(&overdue);
        });
        let timer = Timer(giving_up.abort_handle());
        calls.insert(state.clone(), Call { ongoing, binding, _timer: timer, _share: share });
        Ok(state)
    }

    /// Removes and returns the call with this `requestState`. `binding` must identify the caller and the
    /// request of this call.
    ///
    /// # Errors
    /// The call does not exist, belongs to another caller or request, or has expired.
    pub(super) fn take(&self, state: &str, binding: &RequestBinding) -> Result<OngoingCall, Error> {
        let mut calls = self.calls();
        let is_its = calls.get(state).is_some_and(|call| call.binding == *binding);
        let call = if is_its { calls.remove(state) } else { None };
        let invalid =
            || Error::invalid_params("`requestState` is not valid for this request, or has expired");
        call.map(|call| call.ongoing).ok_or_else(invalid)
    }

    /// Returns `true` if the call with this `requestState` waits, and `binding` identifies its caller and request.
    pub(super) fn contains(&self, state: &str, binding: &RequestBinding) -> bool {
        self.calls().get(state).is_some_and(|call| call.binding == *binding)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Box<str>, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Counts calls in progress, so that a shutdown can wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallsInFlight(Arc<CallCount>);

#[derive(Debug, Default)]
struct CallCount {
    calls: AtomicUsize,
    /// Notified when the last call ends.
    last_ended: Notify,
}

/// Represents one counted call. Dropping this value decrements the count.
#[derive(Debug)]
pub(crate) struct CallInFlight(CallsInFlight);

impl CallsInFlight {
    pub(crate) fn begin(&self) -> CallInFlight {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        CallInFlight(self.clone())
    }

    /// Waits until no call is in progress.
    pub(crate) async fn none(&self) {
        loop {
            // The notification begins before the check, so this function cannot miss the end of a call.
            let last_ended = self.0.last_ended.notified();
            if self.0.calls.load(Ordering::Acquire) == 0 {
                return;
            }
            last_ended.await;
        }
    }
}

impl CallsInFlight {
    /// Waits until no call of the MCP server `server` is in progress, or until the timeout `within`. Logs the
    /// reason of a long wait, so that operators know why a shutdown takes long.
    pub(crate) async fn none_within(&self, within: Duration, server: &str) {
        let mut none = pin!(timeout(within, self.none()));
        if timeout(LOG_AFTER, none.as_mut()).await.is_ok() {
            return;
        }
        let calls = || self.0.calls.load(Ordering::Acquire);
        let calls_now = calls();
        tracing::info!(server, "waiting at most {within:?} for {calls_now} MCP calls to end");
        if none.await.is_err() {
            let calls = calls();
            tracing::warn!(server, "{calls} MCP calls did not end within {within:?}: canceling them");
        }
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        let CallCount { calls, last_ended } = &*self.0.0;
        if calls.fetch_sub(1, Ordering::AcqRel) == 1 {
            last_ended.notify_waiters();
        }
    }
}

/// Time after which the log has the reason of a wait.
const LOG_AFTER: Duration = Duration::from_secs(2);
