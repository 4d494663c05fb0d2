//! Immediate and later answers to requests.

use thruway_mcp::json_rpc::{Error, Id, Request, write_error, write_result};
use thruway_mcp::params::Params;
use tokio::sync::mpsc;

use super::exchange::Exchange;
use super::outgoing::{InterimMessage, Status};
use crate::authorization::Caller;
use crate::server::ServerCore;

/// The outcome of handling a request: an immediate or later answer.
pub enum Reply {
    /// The answer was appended to the output.
    Now(Status),
    /// An error was appended to the output, because the caller lacks at least one of these scopes.
    Forbidden(Vec<String>),
    /// The exchange produces the answer later. Other messages may come before the answer.
    Later(Exchange),
}

impl Reply {
    /// Appends an error to `output`.
    pub fn error(output: &mut Vec<u8>, id: &Id<'_>, error: &Error) -> Self {
        write_error(output, Some(id), error);
        Self::Now(Status::of(error))
    }

    /// Returns a reply that first waits for another reply. The future returns this reply, and the output of a
    /// reply that is available at once. Use this function if the backend must wait before it can handle a
    /// request, for example until it knows the server for the request.
    pub fn deferred(reply: impl Future<Output = (Vec<u8>, Self)> + Send + 'static) -> Self {
        Self::deferred_with(None, reply)
    }

    /// Returns a reply as [`deferred`](Self::deferred) does. Sends `messages` to the client meanwhile, for example
    /// a question that the backend asks before it handles the request.
    pub fn deferred_with(
        messages: Option<mpsc::Receiver<InterimMessage>>,
        reply: impl Future<Output = (Vec<u8>, Self)> + Send + 'static,
    ) -> Self {
        // The future can be large. In a box, it is not copied with each future that contains it.
        let reply = Box::pin(reply);
        Self::Later(Exchange::deferred(messages, async move {
            match reply.await {
                (_, Self::Later(exchange)) => Ok(exchange),
                (output, Self::Now(status)) => Err((output, status)),
                // The transport can no longer send a challenge for the missing scopes.
                (output, Self::Forbidden(_)) => Err((output, Status::Ok)),
            }
        }))
    }

    /// Counts a request that is answered later toward `in_flight_bytes_max`. If this limit is reached,
    /// appends an error to `output` instead.
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

    /// Appends `error` to `output`. The status is [`Status::Unavailable`], because a later retry may succeed.
    pub fn unavailable(output: &mut Vec<u8>, id: &Id<'_>, error: &Error) -> Self {
        write_error(output, Some(id), error);
        Self::Now(Status::Unavailable(None))
    }

    /// Appends `error` to `output` for a message with invalid metadata. The status is 400 for every error
    /// code.
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
