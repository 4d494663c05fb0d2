//! Changes to the path and the headers of forwarded requests, and to the headers of their responses.
//!
//! The methods that create a change also check it. The gateway inserts text from a client exactly as the
//! client sent it, so the text stays percent-encoded. Headers of the connection and headers that frame
//! messages cannot be changed.

mod template;
mod path;
mod fields;
mod response;

use std::fmt;

pub use fields::FieldRewrite;
pub use path::PathRewrite;
pub(crate) use template::Parameter;
pub use template::RoutePaths;

pub(super) use response::ResponseRewrite;

/// Changes to forwarded requests and to their responses. Default: no changes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rewrite {
    /// Template for the path of the request to the upstream. The query stays unchanged.
    pub path: Option<PathRewrite>,
    /// Changes to the headers of requests.
    pub request: FieldRewrite,
    /// Changes to the headers of final responses. These include the error responses of the gateway if
    /// forwarding fails.
    pub response: FieldRewrite,
    /// `true` forwards the path in `Location` exactly as the upstream sends it, even if the path of the
    /// request was changed. Default `false`.
    pub keeps_location: bool,
}

/// An error in the config of a rewrite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRewrite {
    /// The braces `{` and `}` are not balanced.
    Braces,
    /// The path contains the segment `.` or `..`.
    DotSegment,
    /// The header cannot be changed, because it belongs to one connection, frames messages, or is written
    /// by the gateway.
    FieldOfGateway,
    /// The name is not a valid header name.
    FieldName,
    /// The value is not a valid header value.
    FieldValue,
    /// The path contains a byte that is not allowed in paths.
    Bytes,
    /// The name of a placeholder is unknown, or the placeholder is not available in this route.
    Placeholder,
    /// A slash precedes `{rest}`, but the value of `{rest}` already begins with a slash.
    Slash,
    /// The path does not begin with `/`, `{path}` or `{rest}`.
    Start,
}

impl Rewrite {
    /// Returns `true` if the config can change responses.
    pub(super) fn is_about_responses(&self) -> bool {
        !self.response.is_empty() || self.reverses_location()
    }

    fn reverses_location(&self) -> bool {
        !self.keeps_location && self.path.as_ref().is_some_and(|path| path.replaced_prefix().is_some())
    }
}

/// Writes the changes as text, separated by commas.
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
