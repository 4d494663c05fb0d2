//! Pending ACME challenges and shared ticket keys, which all listeners of this process share. A reload keeps both.

use std::sync::{Arc, LazyLock};

use thruway_certificates::acme::Challenges;
use thruway_certificates::replicas::TicketKeeper;

/// Returns the ACME challenges. All listeners share the challenges, because an ACME server may connect to
/// any listener.
pub(crate) fn challenges() -> Arc<Challenges> {
    static CHALLENGES: LazyLock<Arc<Challenges>> = LazyLock::new(Arc::default);
    CHALLENGES.clone()
}

/// Returns the ticket keys that all replicas share. Without a shared store, there are no such keys.
pub(crate) fn ticket_keeper() -> TicketKeeper {
    static KEEPER: LazyLock<TicketKeeper> = LazyLock::new(TicketKeeper::default);
    KEEPER.clone()
}
