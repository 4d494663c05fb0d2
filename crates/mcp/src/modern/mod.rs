//! The modern era, from 2026-07-28 on: every request stands for itself.

// requests in
mod headers;
mod request;

// results out
mod result;

#[cfg(test)]
mod tests;

pub use headers::{check_headers, check_param_headers};
pub use request::{check_meta, client_capabilities, missing_capability, unsupported_version};
pub use result::{ResultType, ResultWriter};
