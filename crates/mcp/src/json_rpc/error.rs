//! Why a request has no result.

use alloc::borrow::Cow;
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The error of a response.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Error {
    /// What kind of error.
    pub code: ErrorCode,
    /// What went wrong, in a short sentence.
    pub message: Cow<'static, str>,
    /// More, in a form that depends on the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// What kind of error, as JSON-RPC 2.0 and MCP number them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorCode(pub i64);

impl Error {
    /// An error without data.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The parameters are not what the method asks for.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// The server failed.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// The same with data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

impl ErrorCode {
    /// The message is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The message is JSON, but none of JSON-RPC.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// There is no such method.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The parameters are not what the method asks for.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The server failed.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// There is no such resource: revisions up to 2025-11-25 only, later ones say
    /// [`INVALID_PARAMS`](Self::INVALID_PARAMS).
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// The user is to visit pages first, which the data names: 2025-11-25 only, later ones ask by their
    /// answers.
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
    /// A header is missing, malformed, or says something else than the body (2026-07-28).
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// The request cannot be answered without a capability that the client did not declare (2026-07-28).
    pub const MISSING_REQUIRED_CLIENT_CAPABILITY: Self = Self(-32021);
    /// The server does not speak the revision of the request (2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: Self = Self(-32022);
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code.0)
    }
}

impl core::error::Error for Error {}
