//! From the routes of a config to handlers.

use std::collections::HashMap;
use std::sync::Arc;

use thruway_gateway::{Forward, Upstream};
use thruway_server::{Answer, Handler, Request, Response, Router};

use crate::config::{Action, Config, Failure, FixedAnswer, PathMatch, Route};
use crate::demo;

/// The router of `config`, and the upstreams that it leads to, which are still to be [started](Upstream::start).
pub(crate) fn build(config: &Config) -> Result<(Router, Vec<Arc<Upstream>>), Failure> {
    // Alone, the demo needs no router around its own.
    if let [Route { path: PathMatch::Prefix(path), action: Action::Demo, .. }] = &config.routes[..]
        && path == "/"
    {
        return Ok((demo::router(), Vec::new()));
    }
    let mut router = Router::new();
    let upstreams: Upstreams = config
        .upstreams
        .iter()
        .map(|(name, upstream)| (name.as_str(), Arc::new(Upstream::new(upstream.clone()))))
        .collect();
    let failures = config.routes.iter().filter_map(|route| {
        add(&mut router, route, &upstreams).err().map(|message| config.failure_at(&route.span, message))
    });
    match Failure::all(failures.collect()) {
        None => Ok((router, upstreams.into_values().collect())),
        Some(failure) => Err(failure),
    }
}

/// Upstreams by their names.
type Upstreams<'c> = HashMap<&'c str, Arc<Upstream>>;

/// Adds `route`; the error is a message.
fn add(router: &mut Router, route: &Route, upstreams: &Upstreams<'_>) -> Result<(), String> {
    let handler: Arc<dyn Handler> = match &route.action {
        Action::Answer(answer) => Arc::new(answer.clone()),
        Action::Demo => Arc::new(demo::router()),
        Action::Files(files) => Arc::new(files.open().map_err(|error| {
            format!("the directory `{}` cannot be served: {error}", files.root().display())
        })?),
        // That there is one of this name was checked with the config.
        Action::Forward(name) => Arc::new(Forward::new(upstreams[name.as_str()].clone())),
    };
    let added = match &route.path {
        PathMatch::Prefix(path) => router.try_mount(path, handler),
        PathMatch::Exact(path) => router.try_any(path, handler),
    };
    added.map_err(|error| error.to_string())
}

impl Handler for FixedAnswer {
    fn handle<'a>(&'a self, _: &mut Request<'a>) -> Answer {
        Answer::Now(Response::ok(self.field_lines.clone(), self.content).with_status(self.status))
    }
}
