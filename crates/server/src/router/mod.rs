//! Routes: map paths and methods to handlers.

mod fixed_paths;
mod with_state;

use std::fmt;
use std::sync::Arc;

use thruway_message::{Method, RequestTarget, StatusCode};

use crate::handler::{Answer, Handler, IntoHandler};
use crate::layers::{Layer, Layered};
use crate::request::{Parameters, Request};
use crate::response::Response;
use fixed_paths::FixedPaths;

pub use with_state::RouterWithState;

/// Finds the handler of a request by path and method.
///
/// The path of a route can contain parameters, as in `/users/{id}`. `/files/{*path}` matches all paths below
/// `/files/`. The most specific route wins, in whatever order the routes were added. The router compares
/// paths as the client has sent them, without percent-decoding. Parameters are decoded on access.
///
/// If a route has no handler for HEAD, the handler for GET answers, and the server leaves out the body. If a
/// route has no handler for OPTIONS, the router responds with `Allow`. If a route has no handler for another
/// method, the router responds 405 with `Allow`. For an unknown path, it responds 404.
///
/// ```
/// use thruway_server::{Request, Response, Router, StatusCode};
///
/// fn user(request: &Request) -> Response {
///     Response::text(format!("user {}\n", request.parameter("id")))
/// }
///
/// let router = Router::new()
///     .get("/", || "home\n")
///     .get("/users/{id}", user)
///     .mount("/docs", Router::new().get("/", || "documentation\n"))
///     .fallback(|| (StatusCode::NOT_FOUND, "no such page\n"));
/// # let _ = router;
/// ```
pub struct Router {
    /// Maps paths to indices of `routes`.
    paths: matchit::Router<usize>,
    /// Routes for paths without parameters. Most requests are for such paths, and this lookup takes a quarter
    /// of the time of a lookup in `paths`.
    fixed_paths: FixedPaths,
    routes: Vec<Route>,
    fallback: Arc<dyn Handler>,
}

/// The handlers of one path.
struct Route {
    path: String,
    handlers: Vec<(MethodName, Arc<dyn Handler>)>,
    any: Option<Arc<dyn Handler>>,
    /// The value of `Allow`.
    allow: String,
    /// If the handler `any` is mounted, the length of its mount prefix in bytes.
    mount_prefix: Option<usize>,
}

enum MethodName {
    Registered(Method<'static>),
    Other(String),
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl Router {
    /// Creates a router without routes. It responds 404.
    pub fn new() -> Self {
        Self {
            paths: matchit::Router::new(),
            fixed_paths: FixedPaths::default(),
            routes: Vec::new(),
            fallback: (|| (StatusCode::NOT_FOUND, "not found\n")).into_handler(),
        }
    }

    /// Handles GET and HEAD at `path`.
    ///
    /// # Panics
    /// Panics for the same reasons as [`on`](Self::on).
    #[must_use]
    pub fn get<M>(self, path: &str, handler: impl IntoHandler<M>) -> Self {
        self.on("GET", path, handler)
    }

    /// Handles POST at `path`.
    ///
    /// # Panics
    /// Panics for the same reasons as [`on`](Self::on).
    #[must_use]
    pub fn post<M>(self, path: &str, handler: impl IntoHandler<M>) -> Self {
        self.on("POST", path, handler)
    }

    /// Handles PUT at `path`.
    ///
    /// # Panics
    /// Panics for the same reasons as [`on`](Self::on).
    #[must_use]
    pub fn put<M>(self, path: &str, handler: impl IntoHandler<M>) -> Self {
        self.on("PUT", path, handler)
    }

    /// Handles PATCH at `path`.
    ///
    /// # Panics
    /// Panics for the same reasons as [`on`](Self::on).
    #[must_use]
    pub fn patch<M>(self, path: &str, handler: impl IntoHandler<M>) -> Self {
        self.on("PATCH", path, handler)
    }

    /// Handles DELETE at `path`.
    ///
    /// # Panics
    /// Panics for the same reasons as [`on`](Self::on).
    #[must_use]
    pub fn delete<M>(self, path: &str, handler: impl IntoHandler<M>) -> Self {
        self.on("DELETE", path, handler)
    }

    /// Handles `method` at `path`. `method` can be any token, such as `PROPFIND`.
    ///
    /// # Panics
    /// The method is not a token, or the path is invalid or conflicts with another route. Use
    /// [`try_on`](Self::try_on) for routes from user input.
    #[must_use]
    pub fn on<M>(mut self, method: &str, path: &str, handler: impl IntoHandler<M>) -> Self {
        self.try_on(method, path, handler).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Handles all requests at `path` whose method has no handler.
    ///
    /// # Panics
    /// Panics for the same reasons as [`on`](Self::on).
    #[must_use]
    pub fn any<M>(mut self, path: &str, handler: impl IntoHandler<M>) -> Self {
        self.try_any(path, handler).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Passes all requests at and below `prefix` to `handler`. [`Request::mounted_path`] contains the path
    /// after the prefix. Use it for files, adapters and other routers. A route with the same path as the
    /// prefix takes precedence.
    ///
    /// # Panics
    /// Panics for the same reasons as [`on`](Self::on).
    #[must_use]
    pub fn mount<M>(mut self, prefix: &str, handler: impl IntoHandler<M>) -> Self {
        self.try_mount(prefix, handler).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Handles requests without a matching route. Default: 404.
    #[must_use]
    pub fn fallback<M>(mut self, handler: impl IntoHandler<M>) -> Self {
        self.fallback = handler.into_handler();
        self
    }

    /// Adds all routes of `other`, which can have another state. Ignores the fallback of `other`.
    ///
    /// ```
    /// use thruway_server::Router;
    ///
    /// let health = Router::new().get("/health", || "healthy\n");
    /// let users = Router::new().with_state(7_u32).get("/users", || "all users\n");
    /// let router = Router::new().merge(health).merge(users);
    /// # let _ = router;
    /// ```
    ///
    /// # Panics
    /// Panics if both routers have a handler for a path and a method, or if their paths conflict.
    #[must_use]
    pub fn merge(mut self, other: impl Into<Self>) -> Self {
        self.try_merge(other).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Puts `layer` around the router, including its 404 and 405 responses.
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Layered {
        Layered::new(self).layer(layer)
    }

    /// Like [`on`](Self::on), but returns errors instead of panicking. Use this method if the paths of routes
    /// come from user input, such as a config file.
    ///
    /// # Errors
    /// The method is not a token, or the path is invalid or conflicts with another route.
    pub fn try_on<M>(
        &mut self,
        method: &str,
        path: &str,
        handler: impl IntoHandler<M>,
    ) -> Result<(), RouteError> {
        let Ok(parsed) = Method::from_token(method.as_bytes()) else {
            return Err(RouteError::new(path, format!("`{method}` is not a method")));
        };
        let route = self.route_at(path)?;
        if route.find(parsed).is_some() {
            return Err(RouteError::new(path, format!("it already has a handler for {method}")));
        }
        let name =
            parsed.registered().map_or_else(|| MethodName::Other(method.to_owned()), MethodName::Registered);
        route.handlers.push((name, handler.into_handler()));
        route.allow = route.allowed_methods();
        Ok(())
    }

    /// Like [`any`](Self::any), but returns errors instead of panicking. Use this method for routes from user
    /// input.
    ///
    /// # Errors
    /// Fails for the same reasons as [`try_on`](Self::try_on).
    pub fn try_any<M>(&mut self, path: &str, handler: impl IntoHandler<M>) -> Result<(), RouteError> {
        self.add_any(path, None, handler.into_handler())
    }

    /// Like [`mount`](Self::mount), but returns errors instead of panicking. Use this method for routes from
    /// user input.
    ///
    /// # Errors
    /// Fails for the same reasons as [`try_on`](Self::try_on).
    pub fn try_mount<M>(&mut self, prefix: &str, handler: impl IntoHandler<M>) -> Result<(), RouteError> {
        let prefix = prefix.trim_end_matches('/');
        if prefix.contains(['{', '}']) {
            return Err(RouteError::new(prefix, "a mount cannot be below a parameter".to_owned()));
        }
        let handler = handler.into_handler();
        let paths = [prefix.to_owned(), format!("{prefix}/"), format!("{prefix}/{{*mounted}}")];
        for path in paths.iter().filter(|path| !path.is_empty()) {
            self.add_any(path, Some(prefix.len()), handler.clone())?;
        }
        Ok(())
    }

    /// Like [`merge`](Self::merge), but returns errors instead of panicking. After an error, the router has some of
    /// the routes of `other`.
    ///
    /// # Errors
    /// Both routers have a handler for a path and a method, or their paths conflict.
    pub fn try_merge(&mut self, other: impl Into<Self>) -> Result<(), RouteError> {
        for Route { path, handlers, any, mount_prefix, .. } in other.into().routes {
            let route = self.route_at(&path)?;
            for (name, handler) in handlers {
                let method = name.as_str();
                if route.handlers.iter().any(|(own, _)| own.as_str() == method) {
                    return Err(RouteError::new(&path, format!("it already has a handler for {method}")));
                }
                route.handlers.push((name, handler));
                route.allow = route.allowed_methods();
            }
            if let Some(handler) = any {
                self.add_any(&path, mount_prefix, handler)?;
            }
        }
        Ok(())
    }

    fn add_any(
        &mut self,
        path: &str,
        mount_prefix: Option<usize>,
        handler: Arc<dyn Handler>,
    ) -> Result<(), RouteError> {
        let route = self.route_at(path)?;
        let has_handler = route.any.is_some();
        match (route.mount_prefix, mount_prefix) {
            // A route has precedence over a mount at the same path.
            (None, Some(_)) if has_handler => return Ok(()),
            (Some(_), None) => {}
            _ if has_handler => {
                return Err(RouteError::new(path, "it already has a handler".to_owned()));
            }
            _ => {}
        }
        route.any = Some(handler);
        route.mount_prefix = mount_prefix;
        Ok(())
    }

    /// Returns the route for `path`. Creates the route if it is missing.
    fn route_at(&mut self, path: &str) -> Result<&mut Route, RouteError> {
        let index = self.routes.iter().position(|route| route.path == path).unwrap_or(self.routes.len());
        if index == self.routes.len() {
            self.paths.insert(path, index).map_err(|error| RouteError::new(path, error.to_string()))?;
            if !path.contains(['{', '}']) {
                self.fixed_paths.insert(path.as_bytes(), index);
            }
            self.routes.push(Route::new(path));
        }
        Ok(&mut self.routes[index])
    }
}

impl Handler for Router {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        if let Some(path) = request.mounted_path_bytes()
            && let Some(index) = self.fixed_paths.find(path)
        {
            return self.routes[index].handle(request);
        }
        self.handle_with_parameters(request)
    }
}

impl Router {
    /// Handles a request whose path matches no route without parameters.
    #[inline(never)]
    fn handle_with_parameters<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match request.target() {
            RequestTarget::Asterisk => {
                return Answer::Now(
                    Response::new(StatusCode::NO_CONTENT).with_field("Allow", ALLOW_ANYWHERE),
                );
            }
            // CONNECT has a host instead of a path, so no route matches.
            RequestTarget::Authority(_) => return self.fallback.handle(request),
            RequestTarget::Origin(_) | RequestTarget::Absolute(_) => {}
        }
        match self.paths.at(request.mounted_path()) {
            Ok(found) => {
                request.set_parameters(Parameters::matched(found.params));
                self.routes[*found.value].handle(request)
            }
            Err(matchit::MatchError::NotFound) => self.fallback.handle(request),
        }
    }
}

impl Route {
    fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            handlers: Vec::new(),
            any: None,
            allow: String::new(),
            mount_prefix: None,
        }
    }

    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match self.find(request.method()) {
            Some(handler) => handler.handle(request),
            None => self.handle_other_method(request),
        }
    }

    /// Handles a request with a method that has no handler of its own.
    #[inline(never)]
    fn handle_other_method<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let method = request.method();
        match (&self.any, method) {
            (_, Method::Head) if let Some(handler) = self.find(Method::Get) => handler.handle(request),
            (Some(handler), _) => {
                request.mount_below(self.mount_prefix.unwrap_or(0));
                handler.handle(request)
            }
            (None, Method::Options) => Answer::Now(self.response_without_handler(StatusCode::NO_CONTENT)),
            (None, _) => Answer::Now(self.response_without_handler(StatusCode::METHOD_NOT_ALLOWED)),
        }
    }

    fn find(&self, method: Method<'_>) -> Option<&dyn Handler> {
        self.handlers.iter().find(|(name, _)| name.is(method)).map(|(_, handler)| &**handler)
    }

    fn response_without_handler(&self, status: StatusCode) -> Response {
        Response::new(status).with_field("Allow", &self.allow)
    }

    /// Returns the value of `Allow`: the methods that have a handler, and OPTIONS. If GET has a handler, the
    /// value also contains HEAD.
    fn allowed_methods(&self) -> String {
        let mut methods: Vec<&str> = self.handlers.iter().map(|(name, _)| name.as_str()).collect();
        if methods.contains(&"GET") && !methods.contains(&"HEAD") {
            methods.push("HEAD");
        }
        if !methods.contains(&"OPTIONS") {
            methods.push("OPTIONS");
        }
        methods.join(", ")
    }
}

impl MethodName {
    fn is(&self, method: Method<'_>) -> bool {
        match (self, method) {
            (Self::Registered(name), method) => *name == method,
            (Self::Other(name), Method::Other(method)) => name == method,
            (Self::Other(_), _) => false,
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Registered(name) => name.as_str(),
            Self::Other(name) => name,
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.routes.iter().map(|route| &route.path)).finish()
    }
}

/// A route that cannot be added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteError {
    path: String,
    reason: String,
}

impl RouteError {
    fn new(path: &str, reason: String) -> Self {
        Self { path: path.to_owned(), reason }
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route `{}` cannot be added: {}", self.path, self.reason)
    }
}

impl std::error::Error for RouteError {}

/// Value of `Allow` in the response to `OPTIONS *`. With this request, a client asks for the methods of the
/// server as a whole (RFC 9110 §9.3.7).
const ALLOW_ANYWHERE: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
