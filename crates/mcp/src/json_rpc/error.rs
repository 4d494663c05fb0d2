//! Errors of JSON-RPC.

use alloc::borrow::Cow;
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The error of a response.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Error {
    /// The kind of the error.
    pub code: ErrorCode,
    /// A short description of the error.
    pub message: Cow<'static, str>,
    /// Additional data, in a format that depends on the error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// The kind of an error: a number that JSON-RPC 2.0 or MCP defines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorCode(pub i64);

impl Error {
    /// Returns an error without data.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Returns the error for parameters that do not match the method.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// Returns the error for a failure of the server.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// Adds additional data to the error.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

impl ErrorCode {
    /// The message is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The message is JSON, but not a JSON-RPC message.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// The server does not have the requested method.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The parameters do not match the method.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The server failed to handle the request.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// The server does not have the requested resource (up to MCP revision 2025-11-25). Later revisions use
    /// [`INVALID_PARAMS`](Self::INVALID_PARAMS).
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// The user must first visit the web pages that the error data lists (only MCP revision 2025-11-25). In
    /// later revisions, the result of the request lists such web pages.
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
    /// A header is missing, malformed, or different from the body (MCP revision 2026-07-28).
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// The request needs a capability that the client did not declare (MCP revision 2026-07-28).
    pub const MISSING_REQUIRED_CLIENT_CAPABILITY: Self = Self(-32021);
    /// The server does not support the revision of the request (MCP revision 2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: Self = Self(-32022);
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code.0)
    }
}

impl core::error::Error for Error {}
