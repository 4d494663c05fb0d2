//! Parsing of results when their message arrives. The client parses the result of a tool call in the same
//! pass as the message. All other results stay raw JSON until their type is known.

use std::convert::Infallible;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Id;
use thruway_mcp::modern::read_tool_result;
use thruway_mcp::schema::CallToolResult;

/// The result of a request, as raw JSON.
pub type Answer = Box<RawValue>;

/// The result of a request.
#[derive(Debug)]
pub(super) enum Read<R> {
    /// A parsed, complete result.
    Complete(R),
    /// Any result, as raw JSON.
    Raw(Answer),
}

/// A type for results that the client can parse together with their message.
pub(super) trait Wanted: Sized {
    /// Parses the result if `message` answers request `id` with a complete result. Otherwise returns `None`,
    /// and the caller parses the message in full.
    fn read(message: &[u8], id: i64) -> Option<Self>;
}

/// Leaves all results as raw JSON.
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
