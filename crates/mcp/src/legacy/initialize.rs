//! The handshake.

use crate::{Era, Revision};

/// The revision of a session whose client wants `requested`: that one if it is known and of this era, otherwise the
/// latest of this era, which the client may then turn down.
pub fn negotiate(requested: &str) -> Revision {
    requested
        .parse()
        .ok()
        .filter(|revision: &Revision| revision.era() == Era::Legacy)
        .unwrap_or(Revision::LATEST_LEGACY)
}
