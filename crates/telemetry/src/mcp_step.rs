//! Operations of the Model Context Protocol. Other threads complete them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::trace_parent::SpanId;

/// Attributes of an operation of the Model Context Protocol.
#[derive(Clone, Default, Debug)]
pub struct McpDetail {
    /// The method, such as `tools/call`.
    pub method: Box<str>,
    /// The name of the tool or prompt, or the URI of the resource.
    pub target: Option<Box<str>>,
    /// The JSON-RPC id of the request, as text.
    pub request_id: Option<Box<str>>,
    /// The protocol revision.
    pub protocol_version: Option<Box<str>>,
    /// The name of the MCP server.
    pub server: Option<Arc<str>>,
    /// The end of the operation, its failure, and its requests to MCP servers.
    pub progress: Arc<McpProgress>,
}

/// The part of an operation that is known after its start. Any thread may add to it.
#[derive(Default, Debug)]
pub struct McpProgress {
    answered: OnceLock<McpAnswered>,
    calls: Mutex<Vec<McpCall>>,
}

/// The end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct McpAnswered {
    /// Time of the answer.
    pub at: Duration,
    /// Reason for the failure. `None` if the operation has succeeded.
    pub failure: Option<McpFailure>,
}

/// A request from this process to an MCP server.
#[derive(Clone, Debug)]
pub struct McpCall {
    /// The id of the span.
    pub id: SpanId,
    /// The start of the request.
    pub start: Duration,
    /// The end of the request. `None` while no answer has arrived.
    pub answered: Option<McpAnswered>,
    /// The method, such as `tools/call`.
    pub method: Box<str>,
    /// The server's own name of the tool or prompt, or the URI of the resource.
    pub target: Option<Box<str>>,
    /// The JSON-RPC id of the request, as text.
    pub request_id: Box<str>,
    /// The protocol revision.
    pub protocol_version: &'static str,
    /// The name of the MCP server.
    pub server: Option<Box<str>>,
    /// `true` if the server is a child process, which uses pipes.
    pub is_on_pipe: bool,
}

/// Reason for the failure of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum McpFailure {
    /// The answer is a JSON-RPC error with this code.
    Code(i64),
    /// The tool reported an error (`isError`).
    Tool,
    /// No answer arrived. The text has few different values.
    Unanswered(&'static str),
}

impl McpProgress {
    /// Records the answer. Only the first call has an effect.
    pub fn answer(&self, answered: McpAnswered) {
        let _ = self.answered.set(answered);
    }

    /// Returns the end of the operation. `None` without an answer.
    pub fn answered(&self) -> Option<McpAnswered> {
        self.answered.get().copied()
    }

    /// Begins a request to an MCP server. Ignores requests after the first [`CALLS_MAX`].
    pub fn begin_call(&self, call: McpCall) {
        let mut calls = self.calls();
        if calls.len() < CALLS_MAX {
            calls.push(call);
        }
    }

    /// Records the end of the request with the span `id`, if the request was recorded.
    pub fn end_call(&self, id: SpanId, answered: McpAnswered) {
        if let Some(call) = self.calls().iter_mut().rev().find(|call| call.id == id) {
            call.answered = Some(answered);
        }
    }

    /// Returns the requests to MCP servers so far.
    pub fn calls(&self) -> MutexGuard<'_, Vec<McpCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of recorded requests of an operation.
const CALLS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: SpanId) -> McpCall {
        McpCall {
            id,
            start: Duration::ZERO,
            answered: None,
            method: "tools/call".into(),
            target: None,
            request_id: "1".into(),
            protocol_version: "2025-11-25",
            server: None,
            is_on_pipe: true,
        }
    }

    #[test]
    fn number_of_recorded_calls_is_bounded() {
        let progress = McpProgress::default();
        for _ in 0..100 {
            progress.begin_call(call(SpanId::random()));
        }
        assert_eq!(progress.calls().len(), CALLS_MAX);
    }

    #[test]
    fn first_answer_and_the_end_of_each_call_are_kept() {
        let progress = McpProgress::default();
        let answered = McpAnswered { at: Duration::from_secs(1), failure: Some(McpFailure::Tool) };
        progress.answer(answered);
        progress.answer(McpAnswered { failure: None, ..answered });
        assert_eq!(progress.answered(), Some(answered));
        let (one, other) = (SpanId::random(), SpanId::random());
        progress.begin_call(call(one));
        progress.begin_call(call(other));
        progress.end_call(one, answered);
        let ends: Vec<_> = progress.calls().iter().map(|call| call.answered).collect();
        assert_eq!(ends, [Some(answered), None]);
    }
}
