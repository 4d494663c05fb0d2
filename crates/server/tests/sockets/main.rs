//! Behavior that needs real sockets: clients that are slow, do not read, break rules while they send, or
//! vanish.
//!
//! No test sleeps for a fixed time. Each waits for its event and fails after a generous limit. Tests of
//! resource limits of the whole process are part of the crate `thruway`.

mod site;

mod drained;
mod piped;
mod proxied;
mod refused;
mod slow;
mod tls;
mod tunnels;
mod vanished;
mod versions;
#[cfg(feature = "websocket")]
mod websockets;
