//! Which era a message belongs to, on a server that speaks both.

use crate::params::Params;
use crate::schema::methods;
use crate::{Era, Revision};

/// The era of a request: modern if it says in which revision it is, as only modern ones do, or if its header does, or if
/// only the modern era has the method; legacy otherwise.
pub fn era_of(method: &str, params: &Params<'_>, header_version: Option<&str>) -> Era {
    let is_modern = params.meta.protocol_version.is_some()
        || header_version.and_then(|version| version.parse().ok()).is_some_and(is_modern)
        || matches!(method, methods::SERVER_DISCOVER | methods::SUBSCRIPTIONS_LISTEN);
    if is_modern { Era::Modern } else { Era::Legacy }
}

fn is_modern(revision: Revision) -> bool {
    revision.era() == Era::Modern
}
