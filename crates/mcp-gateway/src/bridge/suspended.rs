//! Calls that wait for their clients to come back with answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_mcp::json_rpc::Error;
use thruway_mcp_server::backend::{Holder, NoShare, RequestBinding, Share, Shares};
use thruway_net::unguessable_id;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::ongoing::Ongoing;

/// Calls that wait, by what their clients were given to bring back.
pub(super) struct Suspended {
    calls: Mutex<HashMap<Box<str>, Call>>,
    places: Arc<Shares>,
    wait: Duration,
}

struct Call {
    ongoing: Ongoing,
    /// Whose call it is, and of what.
    binding: RequestBinding,
    _timer: Timer,
    _place: Share,
}

/// Gives a call up that was waited for too long, unless this is dropped before.
struct Timer(AbortHandle);

impl Suspended {
    pub(super) fn new(max: usize, wait: Duration) -> Arc<Self> {
        Arc::new(Self { calls: Mutex::default(), places: Shares::new(max), wait })
    }

    /// How long a client may take to answer.
    pub(super) const fn wait(&self) -> Duration {
        self.wait
    }

    /// Keeps a call of `holder` until its client comes back, for so long as it may take. Returns what the
    /// client is to bring.
    ///
    /// # Errors
    /// Too many calls wait, or too many of `holder`.
    pub(super) fn put(
        self: &Arc<Self>,
        ongoing: Ongoing,
        binding: RequestBinding,
        holder: &Holder,
    ) -> Result<Box<str>, Error> {
        let place = self.places.take(holder, 1).map_err(|refusal| {
            Error::internal(match refusal {
                NoShare::Full => "too many calls wait for answers of their clients: try again later",
                NoShare::HolderHasShare => {
                    "too many calls of this caller wait for its answers: answer some, then try again"
                }
            })
        })?;
        let state = unguessable_id();
        let mut calls = self.calls();
        let (all, overdue) = (self.clone(), state.clone());
        let giving_up = tokio::spawn(async move {
            sleep(all.wait).await;
            let _given_up = all.calls().remove(&overdue);
        });
        let timer = Timer(giving_up.abort_handle());
        calls.insert(state.clone(), Call { ongoing, binding, _timer: timer, _place: place });
        Ok(state)
    }

    /// The call, if it is this one's: to others, it is not there.
    ///
    /// # Errors
    /// There is no such call, or it was waited for too long.
    pub(super) fn take(&self, state: &str, binding: &RequestBinding) -> Result<Ongoing, Error> {
        let mut calls = self.calls();
        let is_its = calls.get(state).is_some_and(|call| call.binding == *binding);
        let call = if is_its { calls.remove(state) } else { None };
        let invalid =
            || Error::invalid_params("`requestState` is not valid for this request, or has expired");
        call.map(|call| call.ongoing).ok_or_else(invalid)
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

/// Counts the calls of a bridge.
#[derive(Clone, Debug, Default)]
pub(super) struct CallsInFlight(Arc<watch::Sender<usize>>);

/// A call is being forwarded for as long as this is there.
#[derive(Debug)]
pub(super) struct CallInFlight(CallsInFlight);

impl CallsInFlight {
    pub(super) fn begin(&self) -> CallInFlight {
        self.0.send_modify(|calls| *calls += 1);
        CallInFlight(self.clone())
    }

    /// Ready when there is none.
    pub(super) async fn none(&self) {
        // It fails only if the sender goes, which is here.
        let _ = self.0.subscribe().wait_for(|calls| *calls == 0).await;
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.0.0.send_modify(|calls| *calls -= 1);
    }
}
