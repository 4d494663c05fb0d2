//! A router whose handlers share a state.

use std::fmt;

use super::Router;
use crate::extractors::IntoHandlerWithState;
use crate::handler::{Answer, Handler};
use crate::layers::{Layer, Layered};
use crate::request::Request;

/// A router whose handlers can have arguments of the type [`State`](crate::extractors::State): see
/// [`Router::with_state`].
pub struct RouterWithState<S> {
    router: Router,
    state: S,
}

impl Router {
    /// Sets the state of the handlers that are added afterwards. They can have arguments of the type
    /// [`State`](crate::extractors::State). Each handler keeps a clone of the state, so use a type with a cheap
    /// clone, such as an `Arc`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use thruway_server::Router;
    /// use thruway_server::extractors::State;
    ///
    /// async fn visit(State(visits): State<Arc<AtomicU64>>) -> String {
    ///     format!("visit {}\n", visits.fetch_add(1, Ordering::Relaxed))
    /// }
    ///
    /// let router = Router::new().with_state(Arc::new(AtomicU64::new(1))).get("/", visit);
    /// # let _ = router;
    /// ```
    pub const fn with_state<S>(self, state: S) -> RouterWithState<S> {
        RouterWithState { router: self, state }
    }
}

/// Adds a method that calls the method of [`Router`] with the same name.
macro_rules! route {
    ($($(#[$documentation:meta])* $name:ident)*) => {$(
        $(#[$documentation])*
        #[must_use]
        pub fn $name<M>(mut self, path: &str, handler: impl IntoHandlerWithState<S, M>) -> Self {
            let handler = handler.into_handler_with_state(self.state.clone());
            self.router = self.router.$name(path, handler);
            self
        }
    )*};
}

impl<S: Clone + Send + Sync + 'static> RouterWithState<S> {
    route! {
        /// Handles GET and HEAD at `path`: see [`Router::get`].
        ///
        /// # Panics
        /// Panics for the same reasons as [`Router::on`].
        get
        /// Handles POST at `path`.
        ///
        /// # Panics
        /// Panics for the same reasons as [`Router::on`].
        post
        /// Handles PUT at `path`.
        ///
        /// # Panics
        /// Panics for the same reasons as [`Router::on`].
        put
        /// Handles PATCH at `path`.
        ///
        /// # Panics
        /// Panics for the same reasons as [`Router::on`].
        patch
        /// Handles DELETE at `path`.
        ///
        /// # Panics
        /// Panics for the same reasons as [`Router::on`].
        delete
        /// Handles all requests at `path` whose method has no handler: see [`Router::any`].
        ///
        /// # Panics
        /// Panics for the same reasons as [`Router::on`].
        any
        /// Passes all requests at and below a prefix to a handler: see [`Router::mount`].
        ///
        /// # Panics
        /// Panics for the same reasons as [`Router::on`].
        mount
    }

    /// Handles `method` at `path`: see [`Router::on`].
    ///
    /// # Panics
    /// Panics for the same reasons as [`Router::on`].
    #[must_use]
    pub fn on<M>(mut self, method: &str, path: &str, handler: impl IntoHandlerWithState<S, M>) -> Self {
        self.router = self.router.on(method, path, handler.into_handler_with_state(self.state.clone()));
        self
    }

    /// Handles requests without a matching route. Default: 404.
    #[must_use]
    pub fn fallback<M>(mut self, handler: impl IntoHandlerWithState<S, M>) -> Self {
        self.router = self.router.fallback(handler.into_handler_with_state(self.state.clone()));
        self
    }

    /// Adds all routes of `other`, which can have another state: see [`Router::merge`].
    ///
    /// # Panics
    /// Panics for the same reasons as [`Router::merge`].
    #[must_use]
    pub fn merge(mut self, other: impl Into<Router>) -> Self {
        self.router = self.router.merge(other);
        self
    }

    /// Puts `layer` around the router, including its 404 and 405 responses.
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Layered {
        self.router.layer(layer)
    }

    /// Returns the router. Handlers that are added to it have no state.
    pub fn into_router(self) -> Router {
        self.router
    }
}

impl<S> From<RouterWithState<S>> for Router {
    fn from(router: RouterWithState<S>) -> Self {
        router.router
    }
}

impl<S: Send + Sync + 'static> Handler for RouterWithState<S> {
    #[inline]
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.router.handle(request)
    }
}

impl<S> fmt::Debug for RouterWithState<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.router.fmt(f)
    }
}
