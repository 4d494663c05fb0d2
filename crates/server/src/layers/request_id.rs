//! An id for each request.

use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Layer;
use crate::handler::{Answer, Handler};
use crate::request::Request;

/// A layer that adds `X-Request-Id` to each response. If the request has an acceptable `X-Request-Id`, the
/// response gets the same id. Otherwise, it gets a new id. The layer does not change the request, so handlers
/// do not see a new id.
#[derive(Clone, Debug)]
pub struct RequestId {
    /// Key of the hash function that turns the number of a request into its id. The key is secret, so an id
    /// does not reveal the number of requests.
    seed: RandomState,
}

impl Default for RequestId {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestId {
    /// Creates the layer.
    pub fn new() -> Self {
        Self { seed: RandomState::new() }
    }
}

impl Layer for RequestId {
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithRequestId { seed: self.seed, count: AtomicU64::new(0), inner })
    }
}

struct WithRequestId {
    seed: RandomState,
    count: AtomicU64,
    inner: Arc<dyn Handler>,
}

impl WithRequestId {
    fn new_id(&self) -> String {
        let mut id = String::with_capacity(32);
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        for half in [0, 1] {
            let mut hasher = self.seed.build_hasher();
            hasher.write_u64(count);
            hasher.write_u8(half);
            // Writing to a string cannot fail.
            let _ = write!(id, "{:016x}", hasher.finish());
        }
        id
    }
}

impl Handler for WithRequestId {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let given = request.field(FIELD).and_then(|value| value.as_str());
        let id = given.filter(|id| is_sensible(id)).map_or_else(|| self.new_id(), str::to_owned);
        self.inner.handle(request).map(move |response| response.with_field(FIELD, id))
    }
}

/// Returns `true` if an id from a client may appear in logs and responses.
fn is_sensible(id: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

const FIELD: &str = "X-Request-Id";
const ID_BYTES_MAX: usize = 128;
