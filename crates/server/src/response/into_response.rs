//! Return values of handlers.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use thruway_message::{FieldLinesBuf, StatusCode};

use super::{Content, Response, log_invalid_field};

/// Conversion of a return value of a handler into a response.
///
/// | value | response |
/// |---|---|
/// | [`Response`] | itself |
/// | `&'static str`, `String`, `Cow<str>` | 200, `text/plain` |
/// | `&'static [u8]`, `Vec<u8>`, [`Bytes`], [`Content`] | 200, `application/octet-stream` |
/// | [`Json<T>`](Json) | 200, `application/json` |
/// | [`StatusCode`], `()` | this status (204 for `()`) without a body |
/// | `(StatusCode, value)` | response of the value, with this status |
/// | `([(name, header)], value)` | response of the value, with these headers. They replace headers with the same name. |
/// | `(StatusCode, [(name, header)], value)` | both |
/// | `Result`, `Option` | response of the contained value; 404 for `None` |
#[diagnostic::on_unimplemented(message = "`{Self}` is not a response")]
pub trait IntoResponse {
    /// Converts the value into a response.
    fn into_response(self) -> Response;
}

/// A value to send as JSON.
///
/// ```
/// use thruway_server::{Json, Router};
///
/// let router = Router::new().get("/primes", || Json([2, 3, 5, 7]));
/// # let _ = router;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl IntoResponse for Response {
    #[inline]
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for &'static str {
    #[inline]
    fn into_response(self) -> Response {
        Response::text(self)
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Response {
        Response::text(self)
    }
}

impl IntoResponse for Cow<'_, str> {
    fn into_response(self) -> Response {
        Response::text(self.into_owned())
    }
}

impl IntoResponse for &'static [u8] {
    fn into_response(self) -> Response {
        Bytes::from_static(self).into_response()
    }
}

impl IntoResponse for Vec<u8> {
    fn into_response(self) -> Response {
        Response::ok(BYTES, self)
    }
}

impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        Response::ok(BYTES, self)
    }
}

impl IntoResponse for Content {
    fn into_response(self) -> Response {
        Response::ok(BYTES, self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        Response::json(&self.0)
    }
}

impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

impl IntoResponse for () {
    fn into_response(self) -> Response {
        Response::new(StatusCode::NO_CONTENT)
    }
}

impl<R: IntoResponse> IntoResponse for (StatusCode, R) {
    fn into_response(self) -> Response {
        self.1.into_response().with_status(self.0)
    }
}

impl<N, V, R, const HEADERS: usize> IntoResponse for ([(N, V); HEADERS], R)
where
    N: AsRef<str>,
    V: AsRef<[u8]>,
    R: IntoResponse,
{
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        for (name, value) in self.0 {
            if let Err(error) = response.set_field(name.as_ref(), value) {
                log_invalid_field(error, name.as_ref());
                return Response::new(StatusCode::INTERNAL_SERVER_ERROR);
            }
        }
        response
    }
}

impl<N, V, R, const HEADERS: usize> IntoResponse for (StatusCode, [(N, V); HEADERS], R)
where
    N: AsRef<str>,
    V: AsRef<[u8]>,
    R: IntoResponse,
{
    fn into_response(self) -> Response {
        let (status, headers, value) = self;
        (headers, (status, value)).into_response()
    }
}

impl<R: IntoResponse, E: IntoResponse> IntoResponse for Result<R, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

impl<R: IntoResponse> IntoResponse for Option<R> {
    fn into_response(self) -> Response {
        match self {
            Some(value) => value.into_response(),
            None => Response::new(StatusCode::NOT_FOUND),
        }
    }
}

const BYTES: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/octet-stream\r\n");
