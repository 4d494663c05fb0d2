//! JSON content.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thruway_message::{FieldValue, StatusCode};

use super::{OwnedRequest, Rejection, Request};
use crate::CONTENT_BYTES_MAX;

impl Request<'_> {
    /// The content, read as JSON.
    ///
    /// # Errors
    /// 415 if `Content-Type` is not JSON, 400 if the content is not, 422 if it is something other than a `T`.
    pub fn json<'s, T: Deserialize<'s>>(&'s self) -> Result<T, Rejection> {
        parse(self.field("content-type"), self.content())
    }
}

impl OwnedRequest {
    /// The content, collected and read as JSON; at most [`CONTENT_BYTES_MAX`].
    ///
    /// # Errors
    /// As [`Request::json`], and if the content cannot be collected.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Rejection> {
        let content = self.content.collect(CONTENT_BYTES_MAX).await?;
        parse(self.field("content-type"), &content)
    }
}

fn parse<'s, T: Deserialize<'s>>(
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

/// `application/json`, or a type with the suffix `+json` (RFC 6839 §3.1), with any parameters.
fn is_json(content_type: Option<FieldValue<'_>>) -> bool {
    let Some(value) = content_type.and_then(|value| value.as_str()) else { return false };
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"))
}
