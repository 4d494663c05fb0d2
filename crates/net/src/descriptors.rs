//! How many descriptors this process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open descriptors to the hard one. A program calls this once, early; a library does not.
///
/// If the system refuses, the limit stays as it is.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open descriptors cannot be raised");
    }
}

/// How many connections descriptors allow: all but some for listeners, reactors, files and what the program opens.
pub(crate) fn connections_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
    descriptors - (descriptors / RESERVED_SHARE).min(RESERVED_MAX)
}

/// A tenth is reserved, and at most this many.
const RESERVED_SHARE: usize = 10;
const RESERVED_MAX: usize = 512;
