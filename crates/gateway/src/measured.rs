//! Any handler, its requests counted.

use std::sync::Arc;

use thruway_server::{Answer, Handler, Request};

use crate::RouteMeter;
use crate::meter::Awaited;

/// Has a [`RouteMeter`] count the requests of a handler. [`Forward`](crate::Forward) can do that itself, for less.
pub struct Measured {
    handler: Arc<dyn Handler>,
    meter: Arc<RouteMeter>,
}

impl Measured {
    /// Has `meter` count the requests of `handler`.
    pub fn new(handler: Arc<dyn Handler>, meter: Arc<RouteMeter>) -> Self {
        Self { handler, meter }
    }
}

impl Handler for Measured {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let awaited = Awaited::new(self.meter.clone(), request.worker());
        let answer = self.handler.handle(request);
        if let Answer::Now(response) = &answer {
            awaited.answered(response.status());
            return answer;
        }
        answer.map(move |response| {
            awaited.answered(response.status());
            response
        })
    }
}
