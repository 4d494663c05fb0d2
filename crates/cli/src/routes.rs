//! From the routes of a config to handlers.

use std::collections::HashMap;
use std::sync::Arc;

use thruway_gateway::{Forward, HostMatch, RouteMatch, Routes, Unreachable, Upstream};
use thruway_server::{Answer, Handler, IntoHandler, Request, Response};

use crate::config::{Action, Config, Failure, FixedAnswer, Route};
use crate::{demo, mcp};

/// The routes of `config`.
pub(crate) fn build(config: &Config) -> Result<Routes, Failure> {
    let upstreams: Upstreams = config
        .upstreams
        .iter()
        .map(|(name, upstream)| (name.as_str(), Arc::new(Upstream::new(upstream.clone()))))
        .collect();
    let (mut routes, mut failures) = (Vec::new(), Vec::new());
    for route in &config.routes {
        match handler(route, &upstreams) {
            Ok(handler) => routes.push((route.matching.clone(), handler)),
            Err(message) => failures.push(config.failure_at(&route.span, message)),
        }
    }
    match Failure::all(failures) {
        None => Routes::new(routes).map_err(|unreachable| unreachable_routes(config, &unreachable)),
        Some(failure) => Err(failure),
    }
}

/// Upstreams by their names.
type Upstreams<'c> = HashMap<&'c str, Arc<Upstream>>;

/// What `route` does; the error is a message.
fn handler(route: &Route, upstreams: &Upstreams<'_>) -> Result<Arc<dyn Handler>, String> {
    Ok(match &route.action {
        Action::Answer(answer) => answer.clone().into_handler(),
        Action::Demo => demo::router().into_handler(),
        Action::Files(files) => Arc::new(files.open().map_err(|error| {
            format!("the directory `{}` cannot be served: {error}", files.root().display())
        })?),
        // That there is one of this name was checked with the config.
        Action::Forward(name) => Arc::new(Forward::new(upstreams[name.as_str()].clone())),
        Action::Mcp => mcp::endpoint(&hosts(&route.matching)).into_handler(),
        Action::Redirect(redirect) => redirect.clone().into_handler(),
    })
}

/// The hosts that a route names are those of its author: requests to them are meant.
fn hosts(matching: &RouteMatch) -> Vec<String> {
    match &matching.host {
        HostMatch::Exact(host) => vec![host.clone()],
        HostMatch::Any | HostMatch::Below(_) => Vec::new(),
    }
}

/// What is wrong with routes that are never reached.
fn unreachable_routes(config: &Config, unreachable: &[Unreachable]) -> Failure {
    let failures = unreachable.iter().map(|Unreachable { route, taken_by }| {
        let (route, taken_by) = (&config.routes[*route], &config.routes[*taken_by]);
        let hint = if route.matching.conditions == taken_by.matching.conditions {
            "leave it out, or tell them apart by `host`, `methods`, `headers` or `query`"
        } else {
            "put it before the other, which asks for less"
        };
        let (message, label) = ("no request reaches this route", "this one takes them all");
        config.failure_between(&route.span, message, &taken_by.span, label).with_hint(hint)
    });
    Failure::joined(failures.collect())
}

impl Handler for FixedAnswer {
    fn handle<'a>(&'a self, _: &mut Request<'a>) -> Answer {
        Answer::Now(Response::ok(self.field_lines.clone(), self.content).with_status(self.status))
    }
}
