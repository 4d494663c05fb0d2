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

mod error;

#[cfg(test)]
mod tests;

pub use error::OpenApiError;
pub use operation::ApiOperation;
pub use tools::OpenApiTools;
