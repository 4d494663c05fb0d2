//! Any handler, its requests counted.

use std::sync::Arc;

use thruway_net::Clock;
use thruway_server::{Answer, Handler, Request};

use crate::RouteMeter;

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
        let began = Clock::system().now_exact();
        let answer = self.handler.handle(request);
        if let Answer::Now(response) = &answer {
            self.meter.record(response.status(), Clock::system().now_exact().saturating_sub(began));
            return answer;
        }
        let meter = self.meter.clone();
        answer.map(move |response| {
            meter.record(response.status(), Clock::system().now_exact().saturating_sub(began));
            response
        })
    }
}
