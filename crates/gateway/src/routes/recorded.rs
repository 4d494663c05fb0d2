//! Records the name of the route in the access log.

use std::sync::Arc;

use thruway_server::{Answer, Handler, IntoHandler, Request};

/// A handler that lets another handler answer the requests, and adds the name of the route to the responses
/// for the access log. Only routes with a name need this handler.
pub struct RecordedRoute {
    name: Arc<str>,
    handler: Arc<dyn Handler>,
}

impl RecordedRoute {
    /// Creates a handler that records `name`.
    pub fn new<M>(name: &str, handler: impl IntoHandler<M>) -> Self {
        Self { name: name.into(), handler: handler.into_handler() }
    }
}

impl Handler for RecordedRoute {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let name = self.name.clone();
        (*self.handler).handle(request).map(|mut response| {
            response.set_route(name);
            response
        })
    }
}
