//! Records the route of a request in its trace.

use std::sync::Arc;

use thruway_server::{Answer, Handler, IntoHandler, Request};

/// A handler that records a route in the traces of the requests, and then lets another handler answer them.
/// Routes need this handler only if tracing is on.
pub struct TracedRoute {
    route: Arc<str>,
    handler: Arc<dyn Handler>,
}

impl TracedRoute {
    /// Creates a handler that records `route`, the name of a route.
    pub fn new<M>(route: &str, handler: impl IntoHandler<M>) -> Self {
        Self { route: route.into(), handler: handler.into_handler() }
    }
}

impl Handler for TracedRoute {
    #[inline]
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        if let Some(trace) = request.trace() {
            trace.set_route(&self.route);
        }
        self.handler.handle(request)
    }
}
