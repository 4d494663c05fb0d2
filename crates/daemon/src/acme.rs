//! Pending ACME challenges, which all listeners of this process share. A reload keeps the challenges.

use std::sync::{Arc, LazyLock};

use thruway_certificates::acme::Challenges;

/// Returns the ACME challenges. All listeners share the challenges, because an ACME server may connect to
/// any listener.
pub(crate) fn challenges() -> Arc<Challenges> {
    static CHALLENGES: LazyLock<Arc<Challenges>> = LazyLock::new(Arc::default);
    CHALLENGES.clone()
}
