//! Extractors of axum and of crates for axum.

use axum_core::body::Body;
use axum_core::extract::{FromRequest as AxumFromRequest, FromRequestParts as AxumFromRequestParts};
use axum_core::response::IntoResponse as _;
use thruway_message::StatusCode;

use super::{Extraction, FromRequest, FromRequestParts};
use crate::request::{Rejection, Request, RequestContent};
use crate::response::{IntoResponse, Response};
use crate::tower::{from_http, to_http};

/// An extractor of axum, or of a crate for axum, as an argument of a handler. It needs the feature
/// `axum-extractors`. axum's `Path` and `State` do not work, because they need axum's router.
///
/// For such an argument, the server copies the request head to the types of the `http` crate. Extensions that
/// the extractor adds to the request are lost.
///
/// ```
/// use axum::extract::RawQuery;
/// use thruway_server::Router;
/// use thruway_server::extractors::Axum;
///
/// async fn show(Axum(RawQuery(query)): Axum<RawQuery>) -> String {
///     format!("{query:?}\n")
/// }
///
/// let router = Router::new().get("/", show);
/// # let _ = router;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Axum<T>(pub T);

/// The response of an axum extractor that rejects the request.
#[derive(Debug)]
pub struct AxumRejection(Response);

impl IntoResponse for AxumRejection {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<S, T: AxumFromRequestParts<()> + 'static> FromRequestParts<S> for Axum<T> {
    type Rejection = AxumRejection;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, AxumRejection> {
        let extensions = request.extensions().clone();
        let converted = to_http(request, |_| ());
        *request.extensions_mut() = extensions;
        let Some(converted) = converted else { return Extraction::Now(Err(not_convertible())) };
        Extraction::later(async move {
            let (mut parts, ()) = converted.into_parts();
            match T::from_request_parts(&mut parts, &()).await {
                Ok(value) => Ok(Self(value)),
                Err(rejection) => Err(AxumRejection(from_http(rejection.into_response(), false).await)),
            }
        })
    }
}

impl<S, T: AxumFromRequest<()> + 'static> FromRequest<S> for Axum<T> {
    type Rejection = AxumRejection;

    fn from_request(request: &mut Request<'_>, _: &S) -> Extraction<Self, AxumRejection> {
        let converted = to_http(request, |request| Body::new::<RequestContent>(request.take_content()));
        let Some(converted) = converted else { return Extraction::Now(Err(not_convertible())) };
        Extraction::later(async move {
            match T::from_request(converted, &()).await {
                Ok(value) => Ok(Self(value)),
                Err(rejection) => Err(AxumRejection(from_http(rejection.into_response(), false).await)),
            }
        })
    }
}

#[cold]
fn not_convertible() -> AxumRejection {
    let rejection = Rejection::new(StatusCode::BAD_REQUEST, "the request target or a header is invalid");
    AxumRejection(rejection.into_response())
}
