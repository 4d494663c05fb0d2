//! What comes of a message.

use thruway_mcp::json_rpc::{Error, ErrorCode, Id, Request, write_error};
use thruway_mcp::params::Params;

use super::Exchange;
use crate::authorization::Caller;
use crate::server::Shared;

/// What comes of a message.
pub(crate) enum Reply {
    /// The answer was appended to the output.
    Now(Status),
    /// The answer, an error, was appended to the output: the caller would have to be given these scopes first.
    Forbidden(Vec<String>),
    /// The answer will come, perhaps after other messages.
    Later(Exchange),
}

/// What an answer means for a binding that tells by a status of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// The request was understood.
    Ok,
    /// The message breaks the rules of the protocol.
    BadRequest,
    /// There is no such method.
    NotFound,
    /// It cannot be done now; later it may be.
    Unavailable,
}

impl Status {
    /// The status that the modern era gives an error.
    pub(crate) fn of(error: &Error) -> Self {
        match error.code {
            ErrorCode::METHOD_NOT_FOUND => Self::NotFound,
            ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::HEADER_MISMATCH
            | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
            | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => Self::BadRequest,
            _ => Self::Ok,
        }
    }
}

impl Reply {
    /// Appends an error to `output`.
    pub(crate) fn error(output: &mut Vec<u8>, id: &Id<'_>, error: &Error) -> Self {
        write_error(output, Some(id), error);
        Self::Now(Status::of(error))
    }

    /// Counts the bytes of a request as long as it is handled. Refuses it if that would be too many: appends
    /// an error to `output`.
    pub(super) fn counted(
        self,
        shared: &Shared,
        caller: &Caller,
        request: &Request<'_>,
        params: &Params<'_>,
        output: &mut Vec<u8>,
    ) -> Self {
        let Self::Later(exchange) = self else { return self };
        match shared.request_bytes.hold(caller, request, params) {
            Ok(bytes) => Self::Later(exchange.holding(bytes)),
            Err(error) => Self::unavailable(output, &request.id, &error),
        }
    }

    /// Appends an error to `output` for a request that may succeed later.
    pub(crate) fn unavailable(output: &mut Vec<u8>, id: &Id<'_>, error: &Error) -> Self {
        write_error(output, Some(id), error);
        Self::Now(Status::Unavailable)
    }

    /// The same, for a message that says too little of itself, whatever the kind of error.
    pub(crate) fn bad_request(output: &mut Vec<u8>, id: Option<&Id<'_>>, error: &Error) -> Self {
        write_error(output, id, error);
        Self::Now(Status::BadRequest)
    }
}
