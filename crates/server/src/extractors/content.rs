//! Extractors of the body.

use std::convert::Infallible;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use thruway_message::StatusCode;

use super::{Extraction, FromRequest, ViaOwned};
use crate::request::{CONTENT_BYTES_MAX, ContentError, OwnedRequest, Rejection, Request, RequestContent};
use crate::response::Json;

/// The body as `application/x-www-form-urlencoded`, converted to `T`. See [`Request::form`] for the errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form<T>(pub T);

impl<S, T: DeserializeOwned + 'static> FromRequest<S> for Form<T> {
    type Rejection = Rejection;

    fn from_request(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
        if let Some(error) = too_large(request) {
            return Err(error).into();
        }
        if request.has_whole_content() {
            return request.form().map(Self).into();
        }
        let mut request = request.take_owned();
        Extraction::later(async move { request.form().await.map(Self) })
    }
}

/// The body as JSON, converted to `T`. See [`Request::json`] for the errors.
impl<S, T: DeserializeOwned + 'static> FromRequest<S> for Json<T> {
    type Rejection = Rejection;

    fn from_request(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
        if let Some(error) = too_large(request) {
            return Err(error).into();
        }
        if request.has_whole_content() {
            return request.json().map(Self).into();
        }
        let mut request = request.take_owned();
        Extraction::later(async move { request.json().await.map(Self) })
    }
}

/// The whole body, which may have at most [`CONTENT_BYTES_MAX`] bytes. A larger body gets 413.
impl<S> FromRequest<S> for Bytes {
    type Rejection = Rejection;

    fn from_request(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
        if let Some(error) = too_large(request) {
            return Err(error).into();
        }
        if request.has_whole_content() {
            return Ok(Self::copy_from_slice(request.content())).into();
        }
        let mut content = request.take_content();
        Extraction::later(async move { Ok(content.collect(CONTENT_BYTES_MAX).await?) })
    }
}

/// The whole body as text, which may have at most [`CONTENT_BYTES_MAX`] bytes. A larger body gets 413, and a
/// body that is not UTF-8 gets 400.
impl<S> FromRequest<S> for String {
    type Rejection = Rejection;

    fn from_request(request: &mut Request<'_>, state: &S) -> Extraction<Self, Rejection> {
        Bytes::from_request(request, state).map_result(|content| {
            Self::from_utf8(content?.into())
                .map_err(|_| Rejection::new(StatusCode::BAD_REQUEST, "the body is not UTF-8"))
        })
    }
}

/// The body as a stream, without a limit except the limits of the server.
impl<S> FromRequest<S> for RequestContent {
    type Rejection = Infallible;

    fn from_request(request: &mut Request<'_>, _: &S) -> Extraction<Self, Infallible> {
        Extraction::Now(Ok(request.take_content()))
    }
}

/// The whole request.
impl<S> FromRequest<S, ViaOwned> for OwnedRequest {
    type Rejection = Infallible;

    fn from_request(request: &mut Request<'_>, _: &S) -> Extraction<Self, Infallible> {
        Extraction::Now(Ok(request.take_owned()))
    }
}

/// Returns an error if the body is known to be too large.
fn too_large(request: &Request<'_>) -> Option<Rejection> {
    let is_too_large = request.content_length().is_some_and(|length| length > CONTENT_BYTES_MAX as u64);
    is_too_large.then(|| ContentError::TooLarge.into())
}
