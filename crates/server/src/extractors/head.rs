//! Extractors of the head, of extensions and of state.

use std::convert::Infallible;
use std::sync::Arc;

use cookie::Cookie;
use serde::de::DeserializeOwned;
use thruway_message::{OwnedRequestHead, StatusCode};
use thruway_net::{Admitted, ClientAddr, LogLimit};

use super::{Extraction, FromRequestParts};
use crate::connection_info::ConnectionInfo;
use crate::handler::{Answer, Handler};
use crate::layers::Layer;
use crate::request::{Rejection, Request};

/// The state of the router, or a part of it: see [`Router::with_state`](crate::Router::with_state).
#[derive(Clone, Copy, Debug, Default)]
pub struct State<T>(pub T);

/// Conversion of a state into a part of it. Each type is a part of itself.
///
/// ```
/// use std::sync::Arc;
///
/// use thruway_server::extractors::{FromRef, State};
/// use thruway_server::Router;
///
/// #[derive(Clone)]
/// struct App {
///     greeting: Arc<str>,
/// }
///
/// impl FromRef<App> for Arc<str> {
///     fn from_ref(app: &App) -> Self {
///         app.greeting.clone()
///     }
/// }
///
/// let router = Router::new()
///     .with_state(App { greeting: "hello".into() })
///     .get("/", |State(greeting): State<Arc<str>>| greeting.to_string());
/// # let _ = router;
/// ```
pub trait FromRef<S> {
    /// Returns the part. It is usually a cheap clone, such as the clone of an [`Arc`].
    fn from_ref(state: &S) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(state: &T) -> T {
        state.clone()
    }
}

impl<S, T: FromRef<S>> FromRequestParts<S> for State<T> {
    type Rejection = Infallible;

    #[inline]
    fn from_request_parts(_: &mut Request<'_>, state: &S) -> Extraction<Self, Infallible> {
        Extraction::Now(Ok(Self(T::from_ref(state))))
    }
}

/// A clone of a value that a layer has added to the request with
/// [`extensions_mut`](Request::extensions_mut). As a [`Layer`], it adds the value to each request.
///
/// A handler responds 500 if no layer has added the value, because this is a bug of the program. A handler
/// with the argument `Option<Extension<T>>` gets `None` instead.
///
/// ```
/// use thruway_server::extractors::Extension;
/// use thruway_server::layers::from_sync_fn;
/// use thruway_server::{Answer, Response, Router, StatusCode};
///
/// #[derive(Clone)]
/// struct User(String);
///
/// let sign_in = from_sync_fn(|request, next| {
///     let Some(user) = request.field("X-User").and_then(|value| value.as_str()) else {
///         return Answer::Now(Response::new(StatusCode::UNAUTHORIZED));
///     };
///     request.extensions_mut().insert(User(user.to_owned()));
///     next.handle(request)
/// });
/// let router = Router::new().get("/me", |Extension(User(name)): Extension<User>| name).layer(sign_in);
/// # let _ = router;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Extension<T>(pub T);

impl<S, T: Clone + Send + Sync + 'static> FromRequestParts<S> for Extension<T> {
    type Rejection = Rejection;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
        let found = request.extensions().get::<T>().cloned().map(Self);
        found.ok_or_else(missing_extension::<T>).into()
    }
}

#[cold]
fn missing_extension<T>() -> Rejection {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        let extension = std::any::type_name::<T>();
        tracing::error!(extension, suppressed, "a handler needs an extension that no layer has added");
    }
    Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, "")
}

impl<S, T: Clone + Send + Sync + 'static> FromRequestParts<S> for Option<Extension<T>> {
    type Rejection = Infallible;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Infallible> {
        Extraction::Now(Ok(request.extensions().get::<T>().cloned().map(Extension)))
    }
}

impl<T: Clone + Send + Sync + 'static> Layer for Extension<T> {
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithExtension { value: self.0, inner })
    }
}

struct WithExtension<T> {
    value: T,
    inner: Arc<dyn Handler>,
}

impl<T: Clone + Send + Sync + 'static> Handler for WithExtension<T> {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        request.extensions_mut().insert(self.value.clone());
        self.inner.handle(request)
    }
}

/// The query of the request target, converted to `T`. An invalid query gets 400.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<T>(pub T);

impl<S, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Rejection;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
        request.query().map(Self).into()
    }
}

/// The cookies that the client has sent. To set a cookie, use
/// [`Response::with_cookie`](crate::Response::with_cookie).
#[derive(Clone, Debug, Default)]
pub struct Cookies(Vec<Cookie<'static>>);

impl Cookies {
    /// Returns the first cookie `name`.
    pub fn get(&self, name: &str) -> Option<&Cookie<'static>> {
        self.0.iter().find(|cookie| cookie.name() == name)
    }

    /// Returns the value of the first cookie `name`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.get(name).map(Cookie::value)
    }

    /// Returns all cookies in the order of the request.
    pub fn iter(&self) -> impl Iterator<Item = &Cookie<'static>> {
        self.0.iter()
    }
}

impl<S> FromRequestParts<S> for Cookies {
    type Rejection = Infallible;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Infallible> {
        let lines = request.field_lines();
        let values = lines.all("cookie").filter_map(|value| value.as_str());
        let cookies = values.flat_map(Cookie::split_parse).filter_map(Result::ok).map(Cookie::into_owned);
        Extraction::Now(Ok(Self(cookies.collect())))
    }
}

/// A copy of the method, the target and the headers.
impl<S> FromRequestParts<S> for OwnedRequestHead {
    type Rejection = Infallible;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Infallible> {
        Extraction::Now(Ok(Self::from(*request.head())))
    }
}

/// The address of the client: see [`Request::client`].
impl<S> FromRequestParts<S> for ClientAddr {
    type Rejection = Infallible;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Infallible> {
        Extraction::Now(Ok(request.client()))
    }
}

/// The properties of the connection, such as its TLS session.
impl<S> FromRequestParts<S> for ConnectionInfo {
    type Rejection = Infallible;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Infallible> {
        Extraction::Now(Ok(request.connection().clone()))
    }
}
