//! What is changed in requests and responses on their way: the path, and fields.
//!
//! All of it is checked when it is made. What comes from a client goes where it is put as it came,
//! percent-encoded; nothing is decoded and encoded again. Fields of a connection and those that frame
//! messages are out of reach.

mod template;
mod path;
mod fields;
mod response;

use std::fmt;

pub use fields::FieldRewrite;
pub use path::PathRewrite;

pub(super) use response::ResponseRewrite;

/// What is changed in requests and responses on their way. By default nothing.
#[derive(Clone, Default, Debug)]
pub struct Rewrite {
    /// What path the upstream is asked for. The query stays.
    pub path: Option<PathRewrite>,
    /// Fields of requests.
    pub request: FieldRewrite,
    /// Fields of final responses, also of those that say that the upstream has failed.
    pub response: FieldRewrite,
    /// Whether a path in `Location` is left as the upstream says it, though the path of the request was
    /// changed.
    pub keeps_location: bool,
}

/// Why nothing can be rewritten so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRewrite {
    /// `{` and `}` do not match.
    Braces,
    /// `.` or `..` is a segment of the path.
    DotSegment,
    /// A field belongs to one connection, frames messages, or is written by the gateway.
    FieldOfGateway,
    /// The name of a field is none.
    FieldName,
    /// The value of a field is none.
    FieldValue,
    /// An octet cannot stand in a path.
    Octets,
    /// A place has a name that says nothing here.
    Place,
    /// There is a slash before `{rest}`, which begins with one.
    Slash,
    /// The path does not begin with `/` or with `{path}` or `{rest}`.
    Start,
}

impl Rewrite {
    /// Whether anything of responses may be changed.
    pub(super) fn is_about_responses(&self) -> bool {
        !self.response.is_empty() || self.reverses_location()
    }

    fn reverses_location(&self) -> bool {
        !self.keeps_location && self.path.as_ref().is_some_and(|path| path.replaced_prefix().is_some())
    }
}

/// What is changed, each thing behind a comma.
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
            Self::Braces => "a place stands in braces, `{path}`, and a brace is written twice: `{{`",
            Self::DotSegment => "a path that is asked for has no `.` and no `..` in it",
            Self::FieldOfGateway => {
                "this field belongs to the connection, frames the message, or is written by the gateway"
            }
            Self::FieldName => "this is not the name of a field",
            Self::FieldValue => "this is not the value of a field",
            Self::Octets => {
                "a path is written as it is sent: percent-encoded, with no query or control character"
            }
            Self::Place => "there is no such place",
            Self::Slash => "`{rest}` begins with a slash itself",
            Self::Start => "a path begins with `/`, `{path}` or `{rest}`",
        })
    }
}

impl std::error::Error for InvalidRewrite {}
