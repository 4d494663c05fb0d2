//! Trace contexts and spans of requests to MCP servers. A program with tracing implements the traits.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

/// A trace context: the values of `traceparent` and `tracestate` (W3C Trace Context).
#[derive(Clone, Debug)]
pub struct TraceContext {
    /// The trace, the span of the sender, and the flags.
    pub parent: Box<str>,
    /// The state. Empty if there is none.
    pub state: Box<str>,
    /// `true` if a forwarded request keeps the trace context in its `_meta`. A request without one gets this
    /// context.
    pub keeps_meta: bool,
    /// Records the forwarded requests. `None` if tracing is off.
    pub tracer: Option<Arc<dyn CallTracer>>,
}

/// Creates spans for requests to MCP servers. Any thread may call it.
pub trait CallTracer: fmt::Debug + Send + Sync {
    /// Begins the span of a request.
    fn begin(&self, call: &TracedCall<'_>) -> Box<dyn CallSpan>;
}

/// The span of a request to an MCP server. The span ends when this value is dropped.
pub trait CallSpan: Send {
    /// Returns the `traceparent` for the request.
    fn trace_parent(&self) -> &str;

    /// Records that the request has failed.
    fn fail(&mut self, failure: CallFailure);
}

/// A request to an MCP server.
#[derive(Clone, Copy, Debug)]
pub struct TracedCall<'a> {
    /// The method, such as `tools/call`.
    pub method: &'a str,
    /// The name of the tool or prompt, or the URI of the resource.
    pub name: Option<&'a str>,
    /// The JSON-RPC id.
    pub id: i64,
    /// The protocol revision.
    pub revision: &'static str,
    /// The name of the server.
    pub server: Option<&'a str>,
    /// `true` if the server is a child process, which uses pipes.
    pub is_on_pipe: bool,
}

/// Reason for the failure of a request to an MCP server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallFailure {
    /// The server answered with an error with this code.
    Code(i64),
    /// The tool reported an error (`isError`).
    Tool,
    /// No answer arrived. The text has few different values.
    Unanswered(&'static str),
}
