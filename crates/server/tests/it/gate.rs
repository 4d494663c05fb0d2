//! A handler that responds when the test allows it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use thruway_server::{OwnedRequest, Response};

/// Delays responses. Each path has its own gate.
#[derive(Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<HashMap<String, Gate>>>);

#[derive(Default)]
struct Gate {
    is_open: bool,
    waker: Option<Waker>,
    is_waiting: bool,
}

impl Gates {
    /// Responds with the path after the gate of that name has been opened.
    pub(crate) async fn answer(self, request: OwnedRequest) -> Response {
        let path = request.path().to_owned();
        self.pass(&path).await;
        Response::text(path)
    }

    /// Waits until the gate `name` has been opened.
    pub(crate) async fn pass(&self, name: &str) {
        let _waiting = Waiting { gates: self.clone(), name: name.to_owned() };
        std::future::poll_fn(|cx| {
            let mut gates = self.0.lock().unwrap();
            let gate = gates.entry(name.to_owned()).or_default();
            gate.waker = Some(cx.waker().clone());
            gate.is_waiting = !gate.is_open;
            if gate.is_open { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Opens the gate `name`.
    pub(crate) fn open(&self, name: &str) {
        let mut gates = self.0.lock().unwrap();
        let gate = gates.entry(name.to_owned()).or_default();
        gate.is_open = true;
        if let Some(waker) = gate.waker.take() {
            waker.wake();
        }
    }

    /// Returns the number of handlers that wait at a gate.
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().unwrap().values().filter(|gate| gate.is_waiting).count()
    }
}

/// Marks the gate as unused when the handler's future is dropped.
struct Waiting {
    gates: Gates,
    name: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(gate) = self.gates.0.lock().unwrap().get_mut(&self.name) {
            gate.is_waiting = false;
        }
    }
}
