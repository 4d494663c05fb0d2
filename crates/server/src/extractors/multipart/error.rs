//! Reasons to reject a form.

use std::fmt;

use thruway_message::StatusCode;

use crate::request::ContentError;
use crate::response::{IntoResponse, Response};

/// Reason why a form cannot be read. As a response, it has the [`status`](Self::status) and a text with the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MultipartError {
    /// The body cannot be read. For example, the client has disconnected.
    Content(ContentError),
    /// The form is larger than [`max_bytes`](super::Multipart::max_bytes). 413.
    TooLarge,
    /// A field is larger than [`max_field_bytes`](super::Multipart::max_field_bytes). 413.
    FieldTooLarge,
    /// The form has more fields than [`max_fields`](super::Multipart::max_fields). 413.
    TooManyFields,
    /// The headers of a field have more than 8 KiB, or too much text precedes the first field. 413.
    FieldHeadTooLarge,
    /// The headers of a field are invalid. 400.
    FieldHeadInvalid,
    /// The form ends without the last boundary, or a boundary is followed by other text. 400.
    Incomplete,
    /// The text of a field is not UTF-8. 400.
    NotUtf8,
}

impl MultipartError {
    /// Returns the status of the response to a request with this error: 400, 408 or 413.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Content(error) => error.status(),
            Self::TooLarge | Self::FieldTooLarge | Self::TooManyFields | Self::FieldHeadTooLarge => {
                StatusCode::CONTENT_TOO_LARGE
            }
            Self::FieldHeadInvalid | Self::Incomplete | Self::NotUtf8 => StatusCode::BAD_REQUEST,
        }
    }

    /// Converts an error of the library.
    pub(super) fn of(error: multer::Error) -> Self {
        match error {
            multer::Error::StreamReadFailed(error) => {
                error.downcast_ref().copied().unwrap_or(Self::Content(ContentError::Incomplete))
            }
            multer::Error::IncompleteHeaders
            | multer::Error::ReadHeaderFailed(_)
            | multer::Error::DecodeHeaderName { .. }
            | multer::Error::DecodeHeaderValue { .. } => Self::FieldHeadInvalid,
            _ => Self::Incomplete,
        }
    }
}

impl IntoResponse for MultipartError {
    fn into_response(self) -> Response {
        Response::text(format!("{self}\n")).with_status(self.status())
    }
}

impl fmt::Display for MultipartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Content(error) => return error.fmt(f),
            Self::TooLarge => "the form is larger than allowed",
            Self::FieldTooLarge => "a field of the form is larger than allowed",
            Self::TooManyFields => "the form has more fields than allowed",
            Self::FieldHeadTooLarge => "the headers of a form field are larger than allowed",
            Self::FieldHeadInvalid => "the headers of a form field are invalid",
            Self::Incomplete => "the form is incomplete",
            Self::NotUtf8 => "a field of the form is not UTF-8",
        })
    }
}

impl std::error::Error for MultipartError {}
