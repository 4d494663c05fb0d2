//! From the routes of a config to handlers.

use std::sync::Arc;

use thruway_server::{Answer, Handler, IntoHandler, Request, Response, RouteError, Router};

use crate::config::{Action, Config, Failure, FixedAnswer, PathMatch};
use crate::demo;

/// The router of `config`.
pub(crate) fn build(config: &Config) -> Result<Router, Failure> {
    let mut router = Router::new();
    for route in &config.routes {
        let handler: Arc<dyn Handler> = match &route.action {
            Action::Answer(answer) => Arc::new(answer.clone()),
            // Without anything beside it, there is no need for a router around a router.
            Action::Demo if config.routes.len() == 1 && route.path.is_everything() => {
                return Ok(demo::router());
            }
            Action::Demo => Arc::new(demo::router()),
            Action::Files(files) => match files.open() {
                Ok(files) => Arc::new(files),
                Err(error) => {
                    let message =
                        format!("the directory `{}` cannot be served: {error}", files.root().display());
                    return Err(config.failure_at(route, message));
                }
            },
        };
        add(&mut router, &route.path, handler).map_err(|error| config.failure_at(route, error))?;
    }
    Ok(router)
}

fn add(router: &mut Router, path: &PathMatch, handler: impl IntoHandler<()>) -> Result<(), RouteError> {
    match path {
        PathMatch::Prefix(path) => router.try_mount(path, handler),
        PathMatch::Exact(path) => router.try_any(path, handler),
    }
}

impl Handler for FixedAnswer {
    fn handle<'a>(&'a self, _: &mut Request<'a>) -> Answer {
        let mut response = Response::new(self.status).with_content(self.content.clone());
        for line in &self.field_lines {
            response = response.with_field(line.name.as_str(), line.value.as_bytes());
        }
        Answer::Now(response)
    }
}
