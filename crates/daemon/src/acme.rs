//! Challenges of ACME servers for all listeners of this process. They outlive every config.

use std::sync::{Arc, LazyLock};

use thruway_certificates::acme::Challenges;

/// Returns the challenges, the same for all listeners, because an ACME server may reach any of them.
pub(crate) fn challenges() -> Arc<Challenges> {
    static CHALLENGES: LazyLock<Arc<Challenges>> = LazyLock::new(Arc::default);
    CHALLENGES.clone()
}
