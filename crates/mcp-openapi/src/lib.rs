//! Tools of an MCP server from an OpenAPI document (3.0 or 3.1, as JSON). Each operation of the document
//! becomes a tool, and each call of the tool sends a request to the HTTP API. This crate reads no YAML,
//! follows no references to other documents and no redirects, and does not check responses against the
//! document.
#![forbid(unsafe_code)]

// the document
mod document;
mod schema;
mod operation;

// calls
mod request;
mod reply;
mod tools;

#[cfg(test)]
mod tests;

use std::fmt;

pub use operation::ApiOperation;
pub use tools::OpenApiTools;

/// The reason why a document or a setting cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The document is not JSON, or not an OpenAPI document of version 3.0 or 3.1.
    Document(String),
    /// The base URL is missing or invalid.
    BaseUrl(String),
    /// A header for all requests is invalid.
    Header(String),
    /// An operation cannot become a tool. Exclude it with a filter, or change the document.
    Operation {
        /// The method and the path, such as `GET /pets`.
        operation: String,
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for OpenApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document(reason) => write!(f, "cannot read the OpenAPI document: {reason}"),
            Self::BaseUrl(reason) => write!(f, "the base URL of the API is invalid: {reason}"),
            Self::Header(reason) => write!(f, "cannot send the header to the API: {reason}"),
            Self::Operation { operation, reason } => {
                write!(f, "the operation `{operation}` cannot become a tool: {reason}")
            }
        }
    }
}

impl std::error::Error for OpenApiError {}
