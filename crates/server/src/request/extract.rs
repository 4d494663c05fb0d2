//! Parses values from a request: query, forms, JSON and cookies. Invalid values result in a [`Rejection`].

use std::fmt;

use cookie::Cookie;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thruway_message::{FieldValue, RequestHead, StatusCode};

use super::content::{CONTENT_BYTES_MAX, ContentError};
use super::{Incoming, OwnedRequest, Request};
use crate::response::{IntoResponse, Response};

/// An error that rejects a request with missing or invalid values. A handler can return it as an error
/// response.
#[derive(Debug)]
pub struct Rejection {
    status: StatusCode,
    message: String,
}

impl Rejection {
    /// Creates a rejection with `status` and a message for the client.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// Returns the status of the response.
    pub const fn status(&self) -> StatusCode {
        self.status
    }
}

impl From<ContentError> for Rejection {
    fn from(error: ContentError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        Response::text(self.message).with_status(self.status)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Rejection {}

impl<'a> Request<'a> {
    /// Parses the query of the target as pairs of names and values.
    ///
    /// # Errors
    /// 400 if the query cannot be converted to `T`.
    pub fn query<T: Deserialize<'a>>(&self) -> Result<T, Rejection> {
        parse_query(self.query_string())
    }

    /// Parses the body as `application/x-www-form-urlencoded`.
    ///
    /// # Errors
    /// 415 if the `Content-Type` of the request is not this type. 422 if the body cannot be converted to `T`.
    pub fn form<'s, T: Deserialize<'s>>(&'s self) -> Result<T, Rejection> {
        parse_form(self.field("content-type"), self.content())
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// 415 if `Content-Type` is not JSON. 400 if the body is not JSON. 422 if the JSON cannot be converted to
    /// `T`.
    pub fn json<'s, T: Deserialize<'s>>(&'s self) -> Result<T, Rejection> {
        parse_json(self.field("content-type"), self.content())
    }

    /// Returns the cookie `name` as the client has sent it.
    pub fn cookie(&self, name: &str) -> Option<Cookie<'a>> {
        find_cookie(*self.head(), name)
    }
}

impl OwnedRequest {
    /// Parses the query of the target as pairs of names and values.
    ///
    /// # Errors
    /// 400 if the query cannot be converted to `T`.
    pub fn query<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Rejection> {
        parse_query(self.query_string())
    }

    /// Reads the whole body, which may have at most [`CONTENT_BYTES_MAX`] bytes. Parses it as
    /// `application/x-www-form-urlencoded`.
    ///
    /// # Errors
    /// Fails like [`Request::form`], and also if the body is too large or incomplete.
    pub async fn form<T: DeserializeOwned>(&mut self) -> Result<T, Rejection> {
        let content = self.content().collect(CONTENT_BYTES_MAX).await?;
        parse_form(self.field("content-type"), &content)
    }

    /// Reads the whole body, which may have at most [`CONTENT_BYTES_MAX`] bytes. Parses it as JSON.
    ///
    /// # Errors
    /// Fails like [`Request::json`], and also if the body is too large or incomplete.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Rejection> {
        let content = self.content().collect(CONTENT_BYTES_MAX).await?;
        parse_json(self.field("content-type"), &content)
    }

    /// Returns the cookie `name` as the client has sent it.
    pub fn cookie(&self, name: &str) -> Option<Cookie<'_>> {
        find_cookie(self.head(), name)
    }
}

fn parse_query<'a, T: Deserialize<'a>>(query: Option<&'a str>) -> Result<T, Rejection> {
    serde_urlencoded::from_str(query.unwrap_or_default())
        .map_err(|error| Rejection::new(StatusCode::BAD_REQUEST, format!("invalid query: {error}")))
}

fn parse_form<'s, T: Deserialize<'s>>(
    content_type: Option<FieldValue<'_>>,
    content: &'s [u8],
) -> Result<T, Rejection> {
    let media_type = content_type.and_then(|value| value.as_str()).unwrap_or_default().split(';').next();
    if !media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(FORM)) {
        let message = format!("`Content-Type` must be `{FORM}`");
        return Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    serde_urlencoded::from_bytes(content)
        .map_err(|error| Rejection::new(StatusCode::UNPROCESSABLE_CONTENT, format!("invalid form: {error}")))
}

fn parse_json<'s, T: Deserialize<'s>>(
    content_type: Option<FieldValue<'_>>,
    content: &'s [u8],
) -> Result<T, Rejection> {
    if !is_json(content_type) {
        return Err(Rejection::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "`Content-Type` must be `application/json`",
        ));
    }
    serde_json::from_slice(content).map_err(|error| {
        let status =
            if error.is_data() { StatusCode::UNPROCESSABLE_CONTENT } else { StatusCode::BAD_REQUEST };
        Rejection::new(status, format!("invalid JSON: {error}"))
    })
}

/// Returns `true` for `application/json` and types with the suffix `+json` (RFC 6839 §3.1). Ignores
/// parameters of the type.
fn is_json(content_type: Option<FieldValue<'_>>) -> bool {
    let Some(value) = content_type.and_then(|value| value.as_str()) else { return false };
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"))
}

fn find_cookie<'a>(head: RequestHead<'a>, name: &str) -> Option<Cookie<'a>> {
    head.field_lines
        .all("cookie")
        .filter_map(|value| value.as_str())
        .flat_map(Cookie::split_parse)
        .filter_map(Result::ok)
        .find(|cookie| cookie.name() == name)
}

const FORM: &str = "application/x-www-form-urlencoded";

impl<'a> Request<'a> {
    /// Returns another request of the same client, without a body. Takes the extensions.
    pub(crate) fn as_question<'s>(&mut self, head: &'s RequestHead<'s>) -> Request<'s>
    where
        'a: 's,
    {
        let request = self.with_parts(head, Incoming::Whole(&[]));
        Request { wants_tunnel: false, mount_prefix: 0, ..request }
    }
}
