//! Handlers that count the requests of other handlers.

use std::sync::Arc;

use thruway_server::{Answer, Handler, Request, Response};

use crate::RouteMeter;
use crate::meter::PendingRequest;

/// Wraps a handler, and counts its requests in a [`RouteMeter`]. [`Forward`](crate::Forward) does not need
/// this wrapper, because it counts its own requests at a lower cost.
pub struct Measured {
    handler: Arc<dyn Handler>,
    meter: Arc<RouteMeter>,
}

impl Measured {
    /// Returns a handler that passes requests to `handler` and counts them with `meter`.
    pub fn new(handler: Arc<dyn Handler>, meter: Arc<RouteMeter>) -> Self {
        Self { handler, meter }
    }
}

impl Handler for Measured {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let pending = PendingRequest::new(self.meter.clone(), request);
        let answer = self.handler.handle(request);
        if let Answer::Now(response) = &answer {
            pending.respond(response.status());
            return answer;
        }
        answer.map(move |response| {
            pending.respond(response.status());
            response
        })
    }
}

/// Wraps a handler like [`Measured`], and adds exemplars for requests with an exported trace. Routes need
/// this handler only if tracing is on.
pub struct TracedMeasured {
    handler: Arc<dyn Handler>,
    meter: Arc<RouteMeter>,
}

impl TracedMeasured {
    /// Returns a handler that passes requests to `handler` and counts them with `meter`.
    pub fn new(handler: Arc<dyn Handler>, meter: Arc<RouteMeter>) -> Self {
        Self { handler, meter }
    }
}

impl Handler for TracedMeasured {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let trace = request.trace().cloned();
        let pending = PendingRequest::new(self.meter.clone(), request);
        let respond = move |response: Response| {
            match trace {
                Some(trace) => pending.respond_traced(response.status(), &trace),
                None => pending.respond(response.status()),
            }
            response
        };
        match self.handler.handle(request) {
            Answer::Now(response) => Answer::Now(respond(response)),
            later @ Answer::Later(_) => later.map(respond),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thruway_server::IntoHandler;
    use thruway_telemetry::{Sampling, Tracer};
    use thruway_testkit::test_server::TestServer;

    use super::*;

    #[test]
    fn sampled_request_leaves_an_exemplar() {
        let (tracer, meter) = (
            Arc::new(Tracer::new(Sampling { ratio: 0.0, slow: Duration::MAX })),
            Arc::new(RouteMeter::new(1)),
        );
        let handler = (|| "a").into_handler();
        let server = TestServer::traced(TracedMeasured::new(handler, meter.clone()), &tracer);
        let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0";
        for flag in [0, 1] {
            let fields = format!("Host: a\r\n{parent}{flag}\r\n");
            server.connect().send(format!("GET / HTTP/1.1\r\n{fields}\r\n"));
        }
        let [durations] = &meter.durations()[..] else { panic!("the attributes are equal") };
        assert_eq!(durations.count(), 2);
        let [exemplar] = &durations.exemplars[..] else { panic!("one request is sampled") };
        assert_eq!(&exemplar.trace_id.to_hex(), b"0af7651916cd43dd8448eb211c80319c");
    }
}
