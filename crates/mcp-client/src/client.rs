//! The public client type.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::ErrorCode;
use thruway_mcp::params::meta_keys;
use thruway_mcp::schema::{MetaObject, ProgressNotificationParams};
use thruway_message::FieldLinesBuf;

use super::binding::Purpose;
use super::conversation::Conversation;
use super::deadline::{OnProgress, Progress, RequestTimeouts};
use super::eras::{Call, Era, NegotiatedProtocol};
use super::error::McpClientError;
use super::options::McpClientOptions;
use super::reading::{Answer, Read, Wanted};

/// A client of an MCP server.
///
/// Clones of a client share its connection. Any number of tokio tasks may call a client at the same time.
///
/// A connection without HTTP, such as the pipes of a child process, belongs to the tokio runtime that
/// created the client. When that runtime ends, calls fail with
/// [`RuntimeEnded`](McpClientError::RuntimeEnded). Over HTTP, each runtime opens its own connections. A
/// subscription receives no changes after the runtime that created the subscription has ended.
///
/// ```
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Greet { name: String }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), thruway_mcp_client::McpClientError> {
/// use serde_json::json;
/// use thruway_mcp_client::McpClient;
/// use thruway_mcp_server::{McpServer, schema::Tool};
///
/// let server = McpServer::new("greeter", "1.0.0")
///     .tool(Tool::new("greet"), |Greet { name }: Greet| format!("Hello, {name}!"));
///
/// let client = McpClient::builder().server(&server);
/// assert_eq!(client.list_tools().await?[0].name, "greet");
/// let result = client.call_tool("greet", json!({"name": "Ada"})).await?;
/// # assert_eq!(serde_json::to_value(&result.content).unwrap()[0]["text"], "Hello, Ada!");
/// # Ok(()) }
/// ```
///
/// # Eras
/// By default, the client detects the era of the server at the first call and remembers the era.
/// [`McpClientBuilder::era`](crate::McpClientBuilder::era) can select an era instead. Each method has the
/// same meaning in both eras. One [handler](crate::McpClientBuilder::answers) answers the elicitation,
/// sampling and roots requests of the server in both eras.
///
/// # Cancel safety
/// Dropping the future of a call cancels the call and notifies the server. A call that exceeds its
/// [timeout](Self::with_timeout) is canceled in the same way.
#[derive(Clone)]
pub struct McpClient {
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) options: CallOptions,
}

/// Options of a single call.
#[derive(Clone)]
pub(crate) struct CallOptions {
    pub(crate) request_timeouts: RequestTimeouts,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) meta: Option<Arc<MetaObject>>,
}

impl McpClient {
    /// Returns this client with the timeout `timeout` for each call. The timeout runs from the start of the
    /// call, and again from each progress report.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.options.request_timeouts.timeout = timeout;
        self
    }

    /// Returns this client with its current timeout, or with `timeout` if that is shorter.
    pub fn with_short_timeout(self, timeout: Duration) -> Self {
        let timeout = self.options.request_timeouts.timeout.min(timeout);
        self.with_timeout(timeout)
    }

    /// Returns this client with progress reports enabled: the server may report the progress of each call.
    /// Each report restarts the timeout of the call, up to [`timeout_max`](McpClientOptions::timeout_max).
    /// `on_progress` must return quickly, because the client reads no messages while `on_progress` runs.
    #[must_use]
    pub fn with_progress(
        mut self,
        on_progress: impl Fn(ProgressNotificationParams) + Send + Sync + 'static,
    ) -> Self {
        self.options.on_progress = Some(Arc::new(move |progress| {
            on_progress(progress);
            None
        }));
        self
    }

    /// Returns this client with additional metadata in its requests. If `meta` contains `traceparent` and
    /// `tracestate`, a server over HTTP also gets them as headers. See [`with_trace`](Self::with_trace).
    #[must_use]
    pub fn with_meta(mut self, meta: MetaObject) -> Self {
        self.options.meta = Some(Arc::new(meta));
        self
    }

    /// Returns this client with a trace context in its requests (W3C Trace Context). `parent` is the value of
    /// `traceparent`: the trace and the span of the caller. `state` is the value of `tracestate`, or an empty
    /// text. The server gets the context in `_meta`, and over HTTP also in headers.
    ///
    /// ```
    /// # async fn call(client: &thruway_mcp_client::McpClient) -> Result<(), thruway_mcp_client::McpClientError> {
    /// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// let result = client.clone().with_trace(parent, "").call_tool("greet", serde_json::json!({})).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_trace(mut self, parent: &str, state: &str) -> Self {
        let mut meta = self.options.meta.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        meta.insert(meta_keys::TRACE_PARENT.to_owned(), parent.into());
        if state.is_empty() {
            meta.remove(meta_keys::TRACE_STATE);
        } else {
            meta.insert(meta_keys::TRACE_STATE.to_owned(), state.into());
        }
        self.with_meta(meta)
    }

    /// Returns the protocol revision that the client and the server use.
    ///
    /// # Errors
    /// The server is unreachable, or supports no revision that this client may use.
    pub async fn revision(&self) -> Result<Revision, McpClientError> {
        Ok(self.negotiated().await?.revision())
    }

    /// Ends the session and stops the child process, if any. The client closes the input of the child
    /// process, then sends SIGTERM, and finally kills the process. Afterwards, calls of other clones fail,
    /// and subscriptions end.
    ///
    /// Dropping the last clone also closes the connection while the tokio runtime is running, but it does
    /// not end the session.
    pub async fn close(self) {
        self.conversation.close().await;
    }

    /// Closes the client in a background task, without waiting until the server has stopped.
    pub fn close_in_background(&self) {
        self.conversation.spawn(self.clone().close());
    }

    /// Copies the log level of `other`. The client sends the level with each modern request, or at the
    /// start of its next legacy session.
    pub fn log_as(&self, other: &Self) {
        if let Some(level) = other.conversation.log_level() {
            self.conversation.set_log_level(level);
        }
    }

    /// `true` if the client can receive no more messages.
    pub fn is_closed(&self) -> bool {
        self.conversation.incoming.closed().is_some()
    }

    /// Returns `true` if all messages use one stream of lines, such as the pipes of a child process. The
    /// server ends when this stream ends.
    pub fn is_on_stream(&self) -> bool {
        self.conversation.binding.is_stream()
    }

    /// Returns the number of times that the client has lost its connection to the server: the child process
    /// has exited, or the stream of HTTP with SSE has ended. The server loses its state each time.
    pub fn connection_losses(&self) -> u64 {
        self.conversation.connection_losses()
    }

    /// Permits one more start of the child process after many restarts in a row. Without this call, the client does not
    /// start the process again before the last start is a minute ago. Call this method at most once every few seconds.
    pub async fn permit_restart(&self) {
        self.conversation.binding.permit_restart().await;
    }

    /// Returns this client with `timeout_max` as its timeout. Even a call without progress reports may then
    /// take as long as `timeout_max`.
    pub fn with_full_timeout(self) -> Self {
        let timeout = self.options.request_timeouts.timeout_max;
        self.with_timeout(timeout)
    }

    /// Cancels an MCP task in the background, without waiting for the answer of the server.
    pub fn cancel_task_in_background(&self, id: Box<str>) {
        let client = self.clone();
        // Errors are ignored: a server that has exited no longer runs the MCP task.
        self.conversation.runtime.spawn(async move { client.cancel_task(&id).await });
    }

    /// Returns a client with the default call options: the configured timeouts, no progress reports and no
    /// metadata.
    pub(crate) fn of(conversation: &Arc<Conversation>) -> Self {
        let McpClientOptions { timeout, timeout_max, .. } = conversation.options;
        let request_timeouts = RequestTimeouts { timeout, timeout_max };
        let options = CallOptions { request_timeouts, on_progress: None, meta: None };
        Self { conversation: conversation.clone(), options }
    }

    /// Returns the protocol that was negotiated with the server. Negotiates the protocol first if
    /// necessary, within the timeout of one call.
    pub(crate) async fn negotiated(&self) -> Result<Arc<NegotiatedProtocol>, McpClientError> {
        self.conversation.negotiated(self.options.request_timeouts).await
    }

    /// Creates a request that names no tool, prompt or resource.
    pub(crate) fn call<P>(&self, method: &'static str, params: P) -> Call<'_, P> {
        Call {
            meta: self.options.meta.as_deref(),
            progress: self.options.on_progress.clone().map(|callback| Arc::new(Progress::new(callback))),
            ..Call::new(method, params, self.options.request_timeouts)
        }
    }

    pub(crate) async fn request<R: DeserializeOwned, P: Serialize>(
        &self,
        method: &'static str,
        params: P,
    ) -> Result<R, McpClientError> {
        self.perform(&self.call(method, params)).await
    }

    /// Sends a request and parses its result.
    pub(crate) async fn perform<R: DeserializeOwned, P: Serialize>(
        &self,
        call: &Call<'_, P>,
    ) -> Result<R, McpClientError> {
        let answer = self.perform_raw(call).await?;
        serde_json::from_str(answer.get()).map_err(|error| McpClientError::result_invalid(&error))
    }

    /// Sends a request and returns its result as raw JSON.
    pub(crate) async fn perform_raw<P: Serialize>(
        &self,
        call: &Call<'_, P>,
    ) -> Result<Answer, McpClientError> {
        let negotiated = self.negotiated().await?;
        self.perform_in(&negotiated, call).await.map(Read::into_raw)
    }

    /// Sends a request with the protocol `negotiated`. The result is either parsed or raw JSON.
    pub(crate) async fn perform_in<R: Wanted, P: Serialize>(
        &self,
        negotiated: &Arc<NegotiatedProtocol>,
        call: &Call<'_, P>,
    ) -> Result<Read<R>, McpClientError> {
        let conversation = &self.conversation;
        let outcome = negotiated.perform(conversation, call).await;
        if !may_be_again(&outcome) {
            return outcome;
        }
        if conversation.is_runtime_gone() {
            return Err(McpClientError::RuntimeEnded);
        }
        match Box::pin(self.again(negotiated, call.method, call.name, &outcome)).await? {
            Some(negotiated) => Box::pin(negotiated.perform(conversation, call)).await,
            None => outcome,
        }
    }

    /// Decides whether the caller may repeat a failed request. Returns the protocol for the repetition, or
    /// `None` if the caller must not repeat the request. The caller repeats a request at most once.
    ///
    /// The client repeats a request if the server has not handled the request, or if the server can handle
    /// the request twice without harm. The server does not handle a request in a session that has ended, or a
    /// request for which the user must first visit web pages. A child process that has exited may have
    /// handled its last request.
    pub(crate) async fn again<T>(
        &self,
        negotiated: &Arc<NegotiatedProtocol>,
        method: &str,
        name: Option<&str>,
        outcome: &Result<T, McpClientError>,
    ) -> Result<Option<Arc<NegotiatedProtocol>>, McpClientError> {
        let conversation = &self.conversation;
        match outcome {
            Err(McpClientError::SessionEnded) => {
                conversation.forget(negotiated);
                let negotiated = self.negotiated().await?;
                conversation.resubscribe();
                Ok(Some(negotiated))
            }
            Err(McpClientError::Closed)
                if conversation.binding.can_reopen() && self.may_be_repeated(method, name) =>
            {
                self.negotiated().await.map(Some)
            }
            Err(McpClientError::Server(error)) if negotiated.era() == Era::Legacy => {
                Ok(conversation.has_visited(error).await.then(|| negotiated.clone()))
            }
            _ => Ok(None),
        }
    }

    /// `true` if the server may handle a request more than once without harm. A tool call qualifies only if
    /// the server declares the tool idempotent or read-only.
    pub(crate) fn may_be_repeated(&self, method: &str, name: Option<&str>) -> bool {
        match Purpose::of_method(method) {
            Purpose::Read => true,
            Purpose::Act => name.is_some_and(|name| self.conversation.tools.may_be_repeated(name)),
            // The background task of a subscription sends this request again.
            Purpose::Subscribe => false,
        }
    }

    /// Returns the `Mcp-Param-*` headers that repeat arguments of a tool call. Empty if the tool or the
    /// connection uses no such headers.
    pub(crate) fn mirrored(
        &self,
        negotiated: &NegotiatedProtocol,
        tool: &str,
        arguments: &RawValue,
    ) -> Result<FieldLinesBuf, McpClientError> {
        if !self.mirrors(negotiated) {
            return Ok(FieldLinesBuf::new());
        }
        self.conversation.tools.mirrored(tool, arguments)
    }

    /// `true` if tool calls repeat arguments in headers, as in the modern era over HTTP.
    pub(crate) fn mirrors(&self, negotiated: &NegotiatedProtocol) -> bool {
        matches!(negotiated, NegotiatedProtocol::Modern(_)) && !self.conversation.binding.has_common_stream()
    }
}

/// `true` if a failed request may succeed when it is sent again: the session or the connection has ended,
/// or the user must visit web pages first.
pub(crate) fn may_be_again<T>(outcome: &Result<T, McpClientError>) -> bool {
    match outcome {
        Err(McpClientError::SessionEnded | McpClientError::Closed) => true,
        Err(McpClientError::Server(error)) => error.code == ErrorCode::URL_ELICITATION_REQUIRED,
        _ => false,
    }
}

/// `true` if the server rejected a request because a header is missing or does not match the body of the
/// request.
pub(crate) fn is_header_mismatch<T>(outcome: &Result<T, McpClientError>) -> bool {
    matches!(outcome, Err(McpClientError::Server(error)) if error.code == ErrorCode::HEADER_MISMATCH)
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient").field("binding", &self.conversation.binding).finish_non_exhaustive()
    }
}
