//! Request ids. All servers that handle a request can log its id, so that an operator can find the related
//! log lines.

use std::cell::{Cell, OnceCell};
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};

use thruway_server::Request;

/// The id of a request, created on first use.
#[derive(Default)]
pub(crate) struct RequestId(OnceCell<Box<str>>);

impl RequestId {
    /// Returns the id of `request`: the `X-Request-Id` from a trusted proxy, or a new id.
    pub(crate) fn of(&self, request: &Request<'_>) -> &str {
        self.0.get_or_init(|| given(request).unwrap_or_else(|| request.worker().state::<RequestIds>().next()))
    }

    /// Returns the request id. Returns `None` if the id was never used.
    pub(crate) fn into_used_id(self) -> Option<Box<str>> {
        self.0.into_inner()
    }
}

/// Returns the `X-Request-Id` from a trusted proxy. Ignores the ids of other clients, because a client
/// could copy the id of another request.
fn given(request: &Request<'_>) -> Option<Box<str>> {
    request.proxy_fields()?;
    let id = request.field("x-request-id")?.as_str()?;
    let is_sensible =
        (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    is_sensible.then(|| id.into())
}

/// State of a worker for creating request ids: secret hash keys and a counter.
#[derive(Default)]
struct RequestIds {
    keys: RandomState,
    count: Cell<u64>,
}

impl RequestIds {
    /// Returns a unique id of 128 bits. The id is a keyed hash, so it does not reveal the number of requests.
    fn next(&self) -> Box<str> {
        let count = self.count.get().wrapping_add(1);
        self.count.set(count);
        let mut id = String::with_capacity(32);
        for half in [0, 1] {
            let mut hasher = self.keys.build_hasher();
            hasher.write_u64(count);
            hasher.write_u8(half);
            // Writing to a string cannot fail.
            let _ = write!(id, "{:016x}", hasher.finish());
        }
        id.into()
    }
}

/// Maximum length of an `X-Request-Id` that the gateway accepts, in bytes. Common proxies and clients send
/// shorter ids, such as UUIDs with 36 bytes.
const ID_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_unique() {
        let (one, other) = (RequestIds::default(), RequestIds::default());
        let mut ids: Vec<_> = (0..1000).map(|_| one.next()).collect();
        ids.extend((0..1000).map(|_| other.next()));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 2000);
        assert!(ids.iter().all(|id| id.len() == 32));
    }
}
