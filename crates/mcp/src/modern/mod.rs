//! The modern era, from 2026-07-28 on: every request stands for itself.

// requests in
mod headers;
mod request;

// results out
mod result;

// requests out
mod request_writer;

// results in
mod tool_result;

#[cfg(test)]
mod tests;

pub use headers::{
    append_headers, check_headers, check_param_headers, check_present_headers, check_present_param_headers,
    has_mirroring_headers, refuse_param_headers,
};
pub use request::{check_meta, client_capabilities, missing_capability, unsupported_version};
pub use request_writer::{RequestWriter, Round, SaidOfRequest};
pub use result::{ResultType, ResultWriter};
pub use tool_result::read_tool_result;
pub use tool_result::{UnknownResultType, result_type};

use result::append_members;
