//! Extractors: handler arguments that are read from a request.

mod content;
mod functions;
mod head;
mod path;
#[doc(hidden)]
pub mod text_value;
#[cfg(feature = "axum-extractors")]
mod axum;
#[cfg(feature = "multipart")]
pub mod multipart;
#[cfg(feature = "websocket")]
pub mod websocket;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use crate::request::Request;
use crate::response::{IntoResponse, Response};

#[cfg(feature = "axum-extractors")]
pub use axum::{Axum, AxumRejection};
pub use content::Form;
pub use functions::{Arguments, IntoHandlerWithState};
pub use head::{Cookies, Extension, FromRef, Query, State};
pub use path::Path;

pub(crate) use functions::nested;

/// A handler argument that is read from the head of a request, from its extensions or from the state `S`. A
/// handler can have several of these arguments, in any position.
///
/// Implement this trait for values that several handlers need:
///
/// ```
/// use thruway_server::extractors::{Extraction, FromRequestParts};
/// use thruway_server::{Rejection, Request, Router, StatusCode};
///
/// struct ApiKey(String);
///
/// impl<S> FromRequestParts<S> for ApiKey {
///     type Rejection = Rejection;
///
///     fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
///         let key = request.field("X-Api-Key").and_then(|value| value.as_str());
///         let missing = || Rejection::new(StatusCode::UNAUTHORIZED, "`X-Api-Key` is missing\n");
///         key.map(|key| Self(key.to_owned())).ok_or_else(missing).into()
///     }
/// }
///
/// let router = Router::new().get("/", |ApiKey(key): ApiKey| format!("key {key}\n"));
/// # let _ = router;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from the head of a request with the state `{S}`",
    note = "only the last argument of a handler can read the body, as `Json`, `Form`, `String` and `Bytes` do",
    note = "`State<T>` needs `Router::with_state`, and `T` must implement `FromRef` of this state"
)]
pub trait FromRequestParts<S>: Sized {
    /// The response if the request does not contain the value.
    type Rejection: IntoResponse + 'static;

    /// Reads the value. It must not take the body.
    fn from_request_parts(request: &mut Request<'_>, state: &S) -> Extraction<Self, Self::Rejection>;
}

/// A handler argument that may read the body of a request. Only the last argument of a handler can do so.
/// Leave out the parameter `M` in implementations.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a request with the state `{S}`",
    note = "`Json<T>`, `Form<T>`, `Query<T>` and `Path<T>` need a `T` that implements `serde::Deserialize`",
    note = "`State<T>` needs `Router::with_state`, and `T` must implement `FromRef` of this state"
)]
pub trait FromRequest<S, M = ViaRequest>: Sized {
    /// The response if the request does not contain the value.
    type Rejection: IntoResponse + 'static;

    /// Reads the value.
    fn from_request(request: &mut Request<'_>, state: &S) -> Extraction<Self, Self::Rejection>;
}

/// Marks an implementation of [`FromRequest`] that follows from [`FromRequestParts`].
#[derive(Debug)]
pub struct ViaParts(());

/// Marks an implementation of [`FromRequest`] that may read the body.
#[derive(Debug)]
pub struct ViaRequest(());

/// Marks the implementation of [`FromRequest`] for [`OwnedRequest`](crate::OwnedRequest).
#[derive(Debug)]
pub struct ViaOwned(());

/// A value from a request, or a future of it. [`From`] converts a `Result`.
pub enum Extraction<T, E> {
    /// A value or an error that is available at once.
    Now(Result<T, E>),
    /// A future, which runs on the thread of the connection and need not be `Send`.
    Later(Pin<Box<dyn Future<Output = Result<T, E>>>>),
}

impl<T, E> From<Result<T, E>> for Extraction<T, E> {
    fn from(result: Result<T, E>) -> Self {
        Self::Now(result)
    }
}

impl<T: 'static, E: 'static> Extraction<T, E> {
    /// Creates an extraction with the result of `future`.
    pub fn later(future: impl Future<Output = Result<T, E>> + 'static) -> Self {
        Self::Later(Box::pin(future))
    }

    /// Applies `change` to the result when it is available.
    pub(crate) fn map_result<U: 'static, F: 'static>(
        self,
        change: impl FnOnce(Result<T, E>) -> Result<U, F> + 'static,
    ) -> Extraction<U, F> {
        match self {
            Self::Now(result) => Extraction::Now(change(result)),
            Self::Later(later) => Extraction::later(async move { change(later.await) }),
        }
    }

    /// Waits for the result.
    pub(crate) async fn resolve(self) -> Result<T, E> {
        match self {
            Self::Now(result) => result,
            Self::Later(later) => later.await,
        }
    }
}

impl<S, T: FromRequestParts<S>> FromRequest<S, ViaParts> for T {
    type Rejection = T::Rejection;

    fn from_request(request: &mut Request<'_>, state: &S) -> Extraction<Self, T::Rejection> {
        T::from_request_parts(request, state)
    }
}

/// The handler gets the error instead of the client.
impl<S, T> FromRequestParts<S> for Result<T, T::Rejection>
where
    T: FromRequestParts<S> + 'static,
{
    type Rejection = Infallible;

    fn from_request_parts(request: &mut Request<'_>, state: &S) -> Extraction<Self, Infallible> {
        T::from_request_parts(request, state).map_result(Ok)
    }
}

/// The handler gets the error instead of the client.
impl<S, T> FromRequest<S> for Result<T, T::Rejection>
where
    T: FromRequest<S> + 'static,
{
    type Rejection = Infallible;

    fn from_request(request: &mut Request<'_>, state: &S) -> Extraction<Self, Infallible> {
        T::from_request(request, state).map_result(Ok)
    }
}

impl IntoResponse for Infallible {
    fn into_response(self) -> Response {
        match self {}
    }
}
