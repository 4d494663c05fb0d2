//! Records the route of a request in its trace and in the access log.

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
        (*self.handler).handle(request)
    }
}

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

/// A handler that lets another handler answer the requests, and leaves them out of the access log.
pub struct UnloggedRoute(Arc<dyn Handler>);

impl UnloggedRoute {
    /// Creates a handler around `handler`.
    pub fn new<M>(handler: impl IntoHandler<M>) -> Self {
        Self(handler.into_handler())
    }
}

impl Handler for UnloggedRoute {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        (*self.0).handle(request).map(|mut response| {
            response.set_unlogged();
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thruway_telemetry::{Sampling, Tracer};
    use thruway_testkit::otlp::decode_spans;
    use thruway_testkit::test_server::TestServer;

    use super::*;

    #[test]
    fn span_of_a_request_has_the_name_of_its_route() {
        let tracer = Arc::new(Tracer::new(Sampling { ratio: 1.0, slow: Duration::MAX }));
        let server = TestServer::traced(TracedRoute::new("/items/{id}", || "item"), &tracer);
        server.connect().send("GET /items/7 HTTP/1.1\r\nHost: a\r\n\r\n");
        let spans = decode_spans(tracer.queue().take().unwrap().bytes());
        assert_eq!(spans[0].name, "GET /items/{id}");
        assert_eq!(spans[0].attributes["http.route"], "/items/{id}");
    }
}
