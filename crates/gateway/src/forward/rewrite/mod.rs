//! Changes of requests and responses on their way: path and headers.
//!
//! All changes are checked when they are created. Text from a client is inserted percent-encoded, as the
//! client sent it. Headers of the connection and of message framing cannot be changed.

mod template;
mod path;
mod fields;
mod response;

use std::fmt;

pub use fields::FieldRewrite;
pub use path::PathRewrite;

pub(super) use response::ResponseRewrite;

/// Changes of requests and responses on their way. Default: none.
#[derive(Clone, Default, Debug)]
pub struct Rewrite {
    /// Path of the request to the upstream. The query stays.
    pub path: Option<PathRewrite>,
    /// Headers of requests.
    pub request: FieldRewrite,
    /// Headers of final responses, also of responses of the gateway about a failed upstream.
    pub response: FieldRewrite,
    /// `true` keeps the path in `Location` as the upstream sends it, although the path of the request was
    /// changed.
    pub keeps_location: bool,
}

/// An error in the config of a rewrite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRewrite {
    /// `{` and `}` do not match.
    Braces,
    /// `.` or `..` is a segment of the path.
    DotSegment,
    /// The header belongs to one connection, frames messages, or is written by the gateway.
    FieldOfGateway,
    /// The name is not a valid header name.
    FieldName,
    /// The value is not a valid header value.
    FieldValue,
    /// A byte that a path cannot contain.
    Bytes,
    /// The name of a placeholder is unknown here.
    Placeholder,
    /// There is a slash before `{rest}`, which begins with one.
    Slash,
    /// The path does not begin with `/` or with `{path}` or `{rest}`.
    Start,
}

impl Rewrite {
    /// Returns `true` if responses may be changed.
    pub(super) fn is_about_responses(&self) -> bool {
        !self.response.is_empty() || self.reverses_location()
    }

    fn reverses_location(&self) -> bool {
        !self.keeps_location && self.path.as_ref().is_some_and(|path| path.replaced_prefix().is_some())
    }
}

/// Writes the changes, separated by commas.
impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, ", path {path}")?;
        }
        if !self.request.is_empty() {
            write!(f, ", request {}", self.request)?;
        }
        if !self.response.is_empty() {
            write!(f, ", response {}", self.response)?;
        }
        Ok(())
    }
}

impl fmt::Display for InvalidRewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Braces => {
                "braces are not balanced: write a placeholder as `{path}`, and a literal brace as `{{`"
            }
            Self::DotSegment => "a path must have no `.` and no `..` segment",
            Self::FieldOfGateway => {
                "this field belongs to the connection, frames the message, or is written by the gateway"
            }
            Self::FieldName => "the field name is invalid",
            Self::FieldValue => "the field value is invalid",
            Self::Bytes => "a path must be percent-encoded, without a query or control characters",
            Self::Placeholder => "unknown placeholder",
            Self::Slash => "`{rest}` already starts with a slash",
            Self::Start => "a path must start with `/`, `{path}` or `{rest}`",
        })
    }
}

impl std::error::Error for InvalidRewrite {}
