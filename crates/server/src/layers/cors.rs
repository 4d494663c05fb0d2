//! Cross-origin requests (Fetch Standard §3.2).

use std::sync::Arc;
use std::time::Duration;

use thruway_message::{Method, StatusCode};

use super::Layer;
use crate::handler::{Answer, Handler};
use crate::request::Request;
use crate::response::Response;

/// A layer that allows pages from other origins to call the server. It answers preflight requests and adds
/// the CORS headers to responses.
///
/// ```
/// use std::time::Duration;
///
/// use thruway_server::Router;
/// use thruway_server::layers::Cors;
///
/// let cors = Cors::origins(["https://app.example"]).methods(&["GET", "POST"]).max_age(Duration::from_secs(600));
/// let handler = Router::new().get("/data", || "data\n").layer(cors);
/// # let _ = handler;
/// ```
#[derive(Clone, Debug)]
pub struct Cors {
    origins: Origins,
    methods: String,
    request_fields: String,
    response_fields: String,
    allows_credentials: bool,
    max_age: Duration,
}

#[derive(Clone, Debug)]
enum Origins {
    Any,
    Listed(Vec<String>),
}

impl Cors {
    /// Allows any origin, without credentials.
    pub fn any_origin() -> Self {
        Self::with_origins(Origins::Any)
    }

    /// Allows the given origins. Write an origin as browsers send it, such as `https://example.com`.
    pub fn origins<T: Into<String>>(origins: impl IntoIterator<Item = T>) -> Self {
        Self::with_origins(Origins::Listed(origins.into_iter().map(Into::into).collect()))
    }

    fn with_origins(origins: Origins) -> Self {
        Self {
            origins,
            methods: "GET, HEAD, POST, PUT, PATCH, DELETE".to_owned(),
            request_fields: "Content-Type, Authorization".to_owned(),
            response_fields: String::new(),
            allows_credentials: false,
            max_age: Duration::from_hours(1),
        }
    }

    /// Sets the allowed methods. Default GET, HEAD, POST, PUT, PATCH and DELETE.
    #[must_use]
    pub fn methods(mut self, methods: &[&str]) -> Self {
        self.methods = methods.join(", ");
        self
    }

    /// Sets the request headers that a page may set. Default `Content-Type` and `Authorization`.
    #[must_use]
    pub fn request_fields(mut self, names: &[&str]) -> Self {
        self.request_fields = names.join(", ");
        self
    }

    /// Sets the response headers that a page may read, in addition to the headers that browsers always allow.
    /// Default: none.
    #[must_use]
    pub fn response_fields(mut self, names: &[&str]) -> Self {
        self.response_fields = names.join(", ");
        self
    }

    /// Allows pages from the allowed origins to send requests with cookies. Has no effect together with
    /// [`any_origin`](Self::any_origin), because browsers reject this combination.
    #[must_use]
    pub const fn with_credentials(mut self) -> Self {
        self.allows_credentials = true;
        self
    }

    /// Sets the time for which a browser may cache the response to a preflight request. Default one hour.
    #[must_use]
    pub const fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// Returns the value of `Access-Control-Allow-Origin` for `origin`. `None` if the origin is not allowed.
    fn allowed_origin(&self, origin: &str) -> Option<String> {
        match &self.origins {
            Origins::Any => Some("*".to_owned()),
            Origins::Listed(origins) => origins.iter().find(|listed| *listed == origin).cloned(),
        }
    }

    fn preflight(&self, origin: &str) -> Response {
        let response = Response::new(StatusCode::NO_CONTENT)
            .with_field("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
        let Some(allowed) = self.allowed_origin(origin) else { return response };
        self.mark(response, &allowed)
            .with_field("Access-Control-Allow-Methods", &self.methods)
            .with_field("Access-Control-Allow-Headers", &self.request_fields)
            .with_field("Access-Control-Max-Age", self.max_age.as_secs().to_string())
    }

    fn mark(&self, response: Response, allowed: &str) -> Response {
        let mut response = response.with_field("Access-Control-Allow-Origin", allowed);
        if self.allows_credentials && matches!(self.origins, Origins::Listed(_)) {
            response = response.with_field("Access-Control-Allow-Credentials", "true");
        }
        if !self.response_fields.is_empty() {
            response = response.with_field("Access-Control-Expose-Headers", &self.response_fields);
        }
        response
    }
}

impl Layer for Cors {
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithCors { cors: Arc::new(self), inner })
    }
}

struct WithCors {
    cors: Arc<Cors>,
    inner: Arc<dyn Handler>,
}

impl Handler for WithCors {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let Some(origin) = request.field("origin").and_then(|value| value.as_str()) else {
            // `Vary` tells caches that the response depends on the origin.
            return self.inner.handle(request).map(|response| response.with_field("Vary", "Origin"));
        };
        let is_preflight =
            request.method() == Method::Options && request.field("access-control-request-method").is_some();
        if is_preflight {
            return Answer::Now(self.cors.preflight(origin));
        }
        let allowed = self.cors.allowed_origin(origin);
        let cors = self.cors.clone();
        self.inner.handle(request).map(move |response| {
            let response = response.with_field("Vary", "Origin");
            match allowed {
                Some(allowed) => cors.mark(response, &allowed),
                None => response,
            }
        })
    }
}
