//! Parsing of results on arrival. Results of tools are parsed in the same pass as the message. All other
//! results stay unparsed until their type is known.

use std::convert::Infallible;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Id;
use thruway_mcp::modern::read_tool_result;
use thruway_mcp::schema::CallToolResult;

/// The result of a request, unparsed.
pub type Answer = Box<RawValue>;

/// The result of a request.
#[derive(Debug)]
pub(super) enum Read<R> {
    /// A parsed, complete result.
    Complete(R),
    /// Any result, unparsed.
    Raw(Answer),
}

/// A type that results are parsed into on arrival.
pub(super) trait Wanted: Sized {
    /// Parses the result if `message` answers request `id` with a complete result. Otherwise returns `None`,
    /// and the caller parses the message in full.
    fn read(message: &[u8], id: i64) -> Option<Self>;
}

/// Keeps results unparsed.
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
