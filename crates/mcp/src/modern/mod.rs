//! The modern era, since MCP revision 2026-07-28: every request is independent.

// requests
mod headers;
mod request;

// writing results
mod result;

// reading results
mod read_result;

#[cfg(test)]
mod tests;

pub use headers::{
    append_headers, check_headers, check_param_headers, check_present_headers, check_present_param_headers,
    has_mirroring_headers, refuse_param_headers,
};
pub use read_result::{UnknownResultType, read_tool_result, result_type};
pub use request::{
    RequestOptions, RequestWriter, Round, check_meta, client_capabilities, missing_capability,
    unsupported_version,
};
pub use result::{ResultType, ResultWriter};
