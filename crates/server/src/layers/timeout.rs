//! A time limit for responses.

use std::sync::Arc;
use std::time::Duration;

use thruway_message::StatusCode;

use super::Layer;
use crate::handler::{Answer, Handler};
use crate::request::Request;
use crate::response::Response;

/// A layer that limits the time until a handler returns a response. At the limit, it drops the future of the
/// handler and responds 503. The limit does not apply to the body, so a streamed body may take longer.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    within: Duration,
}

impl Timeout {
    /// Creates the layer. A response must begin within `within`.
    pub const fn new(within: Duration) -> Self {
        Self { within }
    }
}

impl Layer for Timeout {
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithTimeout { within: self.within, inner })
    }
}

struct WithTimeout {
    within: Duration,
    inner: Arc<dyn Handler>,
}

impl Handler for WithTimeout {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let within = self.within;
        match self.inner.handle(request) {
            Answer::Now(response) => Answer::Now(response),
            Answer::Later(later) => Answer::later(async move {
                tokio::time::timeout(within, later).await.unwrap_or_else(|_| {
                    Response::text("the response took too long\n")
                        .with_status(StatusCode::SERVICE_UNAVAILABLE)
                })
            }),
        }
    }
}
