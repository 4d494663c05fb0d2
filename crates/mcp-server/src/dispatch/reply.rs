//! The outcome of handling a request.

use thruway_mcp::json_rpc::{Error, Id, Request, write_error, write_result};
use thruway_mcp::params::Params;

use super::exchange::Exchange;
use super::outgoing::Status;
use crate::authorization::Caller;
use crate::server::ServerCore;

/// The outcome of handling a request: an immediate or later answer.
pub enum Reply {
    /// The answer was appended to the output.
    Now(Status),
    /// An error was appended to the output, because the caller does not have all of these scopes.
    Forbidden(Vec<String>),
    /// The exchange produces the answer later, perhaps after other messages.
    Later(Exchange),
}

impl Reply {
    /// Appends an error to `output`.
    pub fn error(output: &mut Vec<u8>, id: &Id<'_>, error: &Error) -> Self {
        write_error(output, Some(id), error);
        Self::Now(Status::of(error))
    }

    /// Counts the bytes of a request until the request is answered. If the limit on these bytes is
    /// reached, appends an error to `output` instead.
    pub(super) fn counted(
        self,
        core: &ServerCore,
        caller: &Caller,
        request: &Request<'_>,
        params: &Params<'_>,
        output: &mut Vec<u8>,
    ) -> Self {
        let Self::Later(exchange) = self else { return self };
        match core.request_bytes.hold(caller, request, params) {
            Ok(bytes) => Self::Later(exchange.holding(bytes)),
            Err(error) => Self::unavailable(output, &request.id, &error),
        }
    }

    /// Appends `error` to `output`. The status is [`Status::Unavailable`], because a retry of the request
    /// may succeed later.
    pub fn unavailable(output: &mut Vec<u8>, id: &Id<'_>, error: &Error) -> Self {
        write_error(output, Some(id), error);
        Self::Now(Status::Unavailable)
    }

    /// Appends `error` to `output`, because a message has invalid metadata. The status is 400, independent
    /// of the error code.
    pub(crate) fn bad_request(output: &mut Vec<u8>, id: Option<&Id<'_>>, error: &Error) -> Self {
        write_error(output, id, error);
        Self::Now(Status::BadRequest)
    }
}

/// Appends a response with `result` to `output`.
pub(super) fn write_json_result(output: &mut Vec<u8>, id: &Id<'_>, result: &impl serde::Serialize) {
    write_result(output, id, |output| {
        serde_json::to_writer(output, result).map_err(|_| Error::internal("cannot write the result as JSON"))
    });
}
