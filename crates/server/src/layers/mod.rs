//! Layers around handlers, for behavior that many handlers share.

mod bandwidth;
#[cfg(feature = "compression")]
mod compression;
mod cors;
mod from_fn;
mod request_id;
mod source;
mod timeout;

use std::sync::Arc;

use crate::handler::{Answer, Handler, IntoHandler};
use crate::request::Request;

pub use bandwidth::Bandwidth;
#[cfg(feature = "compression")]
pub use compression::{ByListener, Compression, InvalidMediaType, ListenerCompression, MediaType};
pub use cors::Cors;
pub use from_fn::{FromFn, FromSyncFn, MiddlewareFunction, Next, from_fn, from_fn_with_state, from_sync_fn};
pub use request_id::RequestId;
pub use timeout::Timeout;

/// Wraps a handler, to run code before or after the handler.
pub trait Layer {
    /// Returns the handler with this layer around it.
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler>;
}

/// A handler with layers around it. The layer that was added last sees a request first.
#[derive(Clone)]
pub struct Layered(Arc<dyn Handler>);

impl Layered {
    /// Creates a handler without layers from `handler`.
    pub fn new<M>(handler: impl IntoHandler<M>) -> Self {
        Self(handler.into_handler())
    }

    /// Adds a layer.
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Self {
        Self(layer.wrap(self.0))
    }
}

impl Handler for Layered {
    #[inline]
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.0.handle(request)
    }
}
