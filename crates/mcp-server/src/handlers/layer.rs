//! Layers: code that runs before and after every handler.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{CallToolResult, CompleteResult, GetPromptResult, ReadResourceResult};
use thruway_net::{Admitted, LogLimit};

use super::{Call, HandlerError, Later, Outcome};

/// Wraps all handlers of a server. A layer runs code before and after a handler, or answers in place of the
/// handler. Layers can log, measure, reject calls and change results.
///
/// A layer gets all calls of existing tools and prompts, completions for existing prompts and resource
/// templates, and all reads of resources. The server checks the caller's
/// [scopes](crate::McpServer::require_scopes) before it runs the layer. In the modern era, a handler that
/// asks a question runs again when the answer arrives. The layer then runs again too.
///
/// Code before [`Next::run`] must not block. If a layer has to wait, it must return [`Outcome::Later`] and
/// wait in the future. An `async` handler begins when the layer polls the outcome of [`Next::run`].
///
/// If a tool fails or gets invalid arguments, the outcome of [`Next::run`] is `Ok` with a result that has
/// `is_error`.
///
/// ```
/// use thruway_mcp_server::{Call, McpServer, Next, ServerResult, schema::Tool};
///
/// let server = McpServer::new("quiet", "1.0.0")
///     .tool(Tool::new("fail"), || Err::<(), _>("it does not work"))
///     .layer(|call: &Call<'_>, next: Next<'_>| {
///         let name = call.name().unwrap_or_default().to_owned();
///         next.run().map(move |outcome| {
///             match &outcome {
///                 Ok(ServerResult::CallTool(result)) if result.is_error == Some(true) => {
///                     eprintln!("{name} has failed: {:?}", result.content);
///                 }
///                 Ok(_) => {}
///                 Err(error) => eprintln!("{name}: {error}"),
///             }
///             outcome
///         })
///     });
/// ```
pub trait Layer: Send + Sync + 'static {
    /// Answers a call. A layer may run the handler with `next`, or answer without the handler.
    fn call(&self, call: &Call<'_>, next: Next<'_>) -> Outcome<ServerResult>;
}

impl<F> Layer for F
where
    F: Fn(&Call<'_>, Next<'_>) -> Outcome<ServerResult> + Send + Sync + 'static,
{
    fn call(&self, call: &Call<'_>, next: Next<'_>) -> Outcome<ServerResult> {
        self(call, next)
    }
}

/// The remaining layers and the handler. A layer calls them with [`run`](Self::run).
pub struct Next<'a> {
    layers: &'a [Arc<dyn Layer>],
    call: &'a Call<'a>,
    handle: &'a mut dyn FnMut() -> Outcome<ServerResult>,
}

impl Next<'_> {
    /// Calls the next layer, or the handler if no layer remains. A handler that is not `async` has finished
    /// when this method returns. An `async` handler begins when the returned outcome is polled.
    pub fn run(self) -> Outcome<ServerResult> {
        match self.layers.split_last() {
            None => (self.handle)(),
            Some((layer, layers)) => layer.call(self.call, Next { layers, ..self }),
        }
    }
}

/// The result of a handler. The variants correspond to the results of handlers in the schema's
/// `ServerResult`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerResult {
    /// The result of a tool. A failed tool has a result with `is_error`.
    CallTool(CallToolResult),
    /// The result of a prompt.
    GetPrompt(GetPromptResult),
    /// The content of a resource.
    ReadResource(ReadResourceResult),
    /// The result of a completion.
    Complete(CompleteResult),
}

/// A result type that layers can read and change.
pub(crate) trait Layered: Sized + Send + 'static {
    fn into_any(self) -> ServerResult;

    /// Converts `result` back to this type. Returns `None` if `result` has another type.
    fn from_any(result: ServerResult) -> Option<Self>;

    /// Converts an error that a layer returned.
    fn refused(error: HandlerError) -> Result<Self, HandlerError> {
        Err(error)
    }
}

/// Calls a handler through `layers`. The last layer in the slice gets the call first.
fn call_through<O: Layered>(
    layers: &[Arc<dyn Layer>],
    call: &Call<'_>,
    handle: impl FnOnce(&Call<'_>) -> Outcome<O>,
) -> Outcome<O> {
    if layers.is_empty() {
        return handle(call);
    }
    let mut handle = Some(handle);
    let mut innermost = || match handle.take() {
        Some(handle) => handle(call).map(|outcome| outcome.map(O::into_any)),
        None => unreachable!("`Next::run` consumes `Next`, so the handler runs only once"),
    };
    let next = Next { layers, call, handle: &mut innermost };
    next.run().map(|outcome| match outcome {
        Ok(result) => O::from_any(result).ok_or_else(other_kind),
        Err(error) => O::refused(error),
    })
}

fn other_kind() -> HandlerError {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(suppressed, "a layer returned a result of the wrong type for its request");
    }
    Error::internal("the server produced a result of the wrong type").into()
}

/// Calls a handler through `layers`. If the handler or a layer panics, returns an error.
pub(crate) fn begin<O: Layered>(
    layers: &[Arc<dyn Layer>],
    call: &Call<'_>,
    handle: impl FnOnce(&Call<'_>) -> Outcome<O>,
) -> Outcome<O> {
    catch_unwind(AssertUnwindSafe(|| call_through(layers, call, handle)))
        .unwrap_or_else(|_| Outcome::Now(Err(HandlerError::Protocol(panicked()))))
}

/// Polls a handler. If the handler panics, returns an error.
pub(crate) fn poll_caught<O>(
    later: &mut Later<O>,
    cx: &mut TaskContext<'_>,
) -> Poll<Result<O, HandlerError>> {
    catch_unwind(AssertUnwindSafe(|| Pin::new(later).poll(cx)))
        .unwrap_or_else(|_| Poll::Ready(Err(HandlerError::Protocol(panicked()))))
}

/// Returns the error for a handler that exceeded its timeout.
pub(crate) fn too_late() -> HandlerError {
    HandlerError::Protocol(Error::internal("the handler exceeded its time limit"))
}

fn panicked() -> Error {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(suppressed, "a handler panicked");
    }
    Error::internal("the handler failed")
}

impl Layered for CallToolResult {
    fn into_any(self) -> ServerResult {
        ServerResult::CallTool(self)
    }

    fn from_any(result: ServerResult) -> Option<Self> {
        if let ServerResult::CallTool(result) = result { Some(result) } else { None }
    }

    /// Converts the error of a layer to a tool result, so that the model sees the error. The errors of
    /// handlers are converted in the same way.
    fn refused(error: HandlerError) -> Result<Self, HandlerError> {
        error.into_tool_result()
    }
}

impl Layered for GetPromptResult {
    fn into_any(self) -> ServerResult {
        ServerResult::GetPrompt(self)
    }

    fn from_any(result: ServerResult) -> Option<Self> {
        if let ServerResult::GetPrompt(result) = result { Some(result) } else { None }
    }
}

impl Layered for ReadResourceResult {
    fn into_any(self) -> ServerResult {
        ServerResult::ReadResource(self)
    }

    fn from_any(result: ServerResult) -> Option<Self> {
        if let ServerResult::ReadResource(result) = result { Some(result) } else { None }
    }
}

impl Layered for CompleteResult {
    fn into_any(self) -> ServerResult {
        ServerResult::Complete(self)
    }

    fn from_any(result: ServerResult) -> Option<Self> {
        if let ServerResult::Complete(result) = result { Some(result) } else { None }
    }
}
