//! What results are read as where they arrive. Results of tools are looked at once, in one pass with the
//! message that brings them; all others are taken over as they were sent, and read when it is known what they
//! are.

use std::convert::Infallible;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Id;
use thruway_mcp::modern::read_tool_result;
use thruway_mcp::schema::CallToolResult;

/// The result of a request as it was sent.
pub type Answer = Box<RawValue>;

/// What has answered a request.
#[derive(Debug)]
pub(super) enum Read<R> {
    /// A result that is complete.
    Complete(R),
    /// Any result, as it was sent.
    Raw(Answer),
}

/// What a result may be wanted as.
pub(super) trait Wanted: Sized {
    /// The result, if `message` answers request `id`, and with a complete one. Whatever else it is, others
    /// find out.
    fn read(message: &[u8], id: i64) -> Option<Self>;
}

/// Wanted as they were sent.
impl Wanted for Infallible {
    fn read(_: &[u8], _: i64) -> Option<Self> {
        None
    }
}

impl Read<Infallible> {
    pub(super) fn into_raw(self) -> Answer {
        match self {
            Self::Complete(never) => match never {},
            Self::Raw(answer) => answer,
        }
    }
}

impl Wanted for CallToolResult {
    fn read(message: &[u8], id: i64) -> Option<Self> {
        read_tool_result(message, &Id::Integer(id))
    }
}
