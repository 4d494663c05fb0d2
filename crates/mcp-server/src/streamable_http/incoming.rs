//! A request to the endpoint.

use thruway_message::{FieldLines, Method};
use thruway_net::PooledBuffer;

use super::answer::json;
use crate::authorization::Caller;
use crate::dispatch::Status;
use crate::http_response::WholeResponse;
use crate::server::McpServer;

/// A request to the endpoint, without its body, and its sender.
pub(super) struct Incoming<'a> {
    pub(super) server: &'a McpServer,
    pub(super) method: Method<'a>,
    pub(super) fields: FieldLines<'a>,
    pub(super) caller: Caller,
}

impl Incoming<'_> {
    /// Returns the refusal of a caller whose token lacks `scopes`. `error` is the body, which says so.
    pub(super) fn forbid(&self, error: PooledBuffer, scopes: &[String]) -> WholeResponse {
        self.caller.forbid(json(Status::Ok, error), scopes)
    }
}
