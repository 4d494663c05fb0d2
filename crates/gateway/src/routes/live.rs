//! Routes that can be replaced while the server handles requests.

use std::sync::Arc;

use arc_swap::ArcSwap;
use thruway_server::{Answer, Handler, Request};

use super::Routes;

/// Routes that can be replaced at any time. Requests that arrived before a replacement are handled by the
/// previous routes. A handler that is in the previous and in the new routes keeps its state. All clones
/// share the same routes.
#[derive(Clone, Debug)]
pub struct LiveRoutes(Arc<ArcSwap<Routes>>);

impl LiveRoutes {
    /// Returns live routes that handle requests with `routes` until the first replacement.
    pub fn new(routes: Routes) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(routes)))
    }

    /// Uses `routes` for all further requests.
    pub fn replace(&self, routes: Routes) {
        self.0.store(Arc::new(routes));
    }
}

impl Handler for LiveRoutes {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        request.forward_to(&**self.0.load())
    }
}

#[cfg(test)]
mod tests {
    use thruway_server::IntoHandler;
    use thruway_testkit::scene::Scene;

    use super::*;
    use crate::{PathMatch, RouteMatch};

    fn routes(path: &str, text: &'static str) -> Routes {
        let route = RouteMatch::at(PathMatch::Exact(path.to_owned()));
        Routes::new(vec![(route, (move || text).into_handler())]).unwrap()
    }

    #[test]
    fn the_next_request_is_answered_by_the_routes_that_are_there_then() {
        let live = LiveRoutes::new(routes("/a", "first"));
        let scene = Scene::new(live.clone());
        let mut client = scene.connect();
        let mut ask = |path: &str| {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            client.received()
        };
        assert!(ask("/a").ends_with("\r\n\r\nfirst"));
        live.replace(routes("/a", "second"));
        assert!(ask("/a").ends_with("\r\n\r\nsecond"));
        live.replace(routes("/b", "third"));
        assert!(ask("/a").starts_with("HTTP/1.1 404 "));
    }
}
