//! Queries, and content that is a form of name and value pairs.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thruway_message::{FieldValue, StatusCode};

use super::{OwnedRequest, Rejection, Request};
use crate::CONTENT_BYTES_MAX;

impl<'a> Request<'a> {
    /// The query of the target, read as pairs of names and values.
    ///
    /// # Errors
    /// 400 if it is not a `T`.
    pub fn query<T: Deserialize<'a>>(&self) -> Result<T, Rejection> {
        parse_query(self.query_string())
    }

    /// The content, read as `application/x-www-form-urlencoded`.
    ///
    /// # Errors
    /// 415 if `Content-Type` is another, 422 if the content is not a `T`.
    pub fn form<'s, T: Deserialize<'s>>(&'s self) -> Result<T, Rejection> {
        parse_form(self.field("content-type"), self.content())
    }
}

impl OwnedRequest {
    /// The query of the target, read as pairs of names and values.
    ///
    /// # Errors
    /// 400 if it is not a `T`.
    pub fn query<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Rejection> {
        parse_query(self.query_string())
    }

    /// The content, collected and read as `application/x-www-form-urlencoded`; at most [`CONTENT_BYTES_MAX`].
    ///
    /// # Errors
    /// As [`Request::form`], and if the content cannot be collected.
    pub async fn form<T: DeserializeOwned>(&mut self) -> Result<T, Rejection> {
        let content = self.content.collect(CONTENT_BYTES_MAX).await?;
        parse_form(self.field("content-type"), &content)
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

const FORM: &str = "application/x-www-form-urlencoded";
