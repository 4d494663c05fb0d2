//! What ACME servers find at the listeners of this process: it outlives every config.

use std::sync::{Arc, LazyLock};

use thruway_certificates::acme::Challenges;

/// The same for all listeners, whichever of them an ACME server reaches.
pub(crate) fn challenges() -> Arc<Challenges> {
    static CHALLENGES: LazyLock<Arc<Challenges>> = LazyLock::new(Arc::default);
    CHALLENGES.clone()
}
