//! How many calls are being forwarded.

use std::sync::Arc;

use tokio::sync::watch;

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
