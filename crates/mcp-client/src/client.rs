//! The public client type.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::ErrorCode;
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
/// Clones share the connection. Any number of requests may be in flight, from any task.
///
/// A connection without HTTP, such as a child process, is tied to the runtime that created the client. When
/// that runtime ends, calls fail with [`RuntimeEnded`](McpClientError::RuntimeEnded). Over HTTP, each runtime
/// has its own connections. A subscription receives no changes after its own runtime has ended.
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
/// By default, the client detects the era of the server at the first call and remembers it.
/// [`McpClientBuilder::era`](crate::McpClientBuilder::era) overrides this. Each call has the same meaning in
/// both eras. One [handler](crate::McpClientBuilder::answers) receives all questions of the server.
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
    /// Returns this client with another timeout. The timeout limits the wait for an answer, and the wait
    /// after each progress report.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.options.request_timeouts.timeout = timeout;
        self
    }

    /// Returns this client with a timeout of at most `timeout`.
    pub fn with_short_timeout(self, timeout: Duration) -> Self {
        let timeout = self.options.request_timeouts.timeout.min(timeout);
        self.with_timeout(timeout)
    }

    /// Returns this client with progress reports enabled. Each report restarts the timeout of the call, up to
    /// [`timeout_max`](McpClientOptions::timeout_max). `on_progress` must return quickly: the client reads
    /// nothing while the callback runs.
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

    /// Returns this client with additional metadata in its requests, such as a trace context.
    #[must_use]
    pub fn with_meta(mut self, meta: MetaObject) -> Self {
        self.options.meta = Some(Arc::new(meta));
        self
    }

    /// Returns the protocol revision in use.
    ///
    /// # Errors
    /// The server is unreachable, or supports no revision that this client may use.
    pub async fn revision(&self) -> Result<Revision, McpClientError> {
        Ok(self.negotiated().await?.revision())
    }

    /// Ends the session and stops a child process. The client closes the input of the child, then signals the
    /// child, then kills it. Later calls of other clones fail, and subscriptions end. Dropping the last clone
    /// has the same effect while the runtime lives, except that the session is not ended.
    pub async fn close(self) {
        self.conversation.close().await;
    }

    /// Closes the client without waiting for the end.
    pub fn close_apart(&self) {
        self.conversation.spawn(self.clone().close());
    }

    /// Requests the same log level as `other`, from the start of the session.
    pub fn log_as(&self, other: &Self) {
        if let Some(level) = other.conversation.log_level() {
            self.conversation.set_log_level(level);
        }
    }

    /// `true` if the client can receive no more messages.
    pub fn is_closed(&self) -> bool {
        self.conversation.incoming.closed().is_some()
    }

    /// Returns `true` if the server is connected by a stream, such as a child process. Such a server ends
    /// with the stream.
    pub fn is_on_stream(&self) -> bool {
        self.conversation.binding.is_stream()
    }

    /// Returns the number of times that the server has exited and was restarted, or will be. Each restart
    /// loses the state of the server.
    pub fn losses(&self) -> u64 {
        self.conversation.losses()
    }

    /// Returns this client with `timeout_max` as its timeout, with or without progress.
    pub fn with_full_timeout(self) -> Self {
        let timeout = self.options.request_timeouts.timeout_max;
        self.with_timeout(timeout)
    }

    /// Cancels a task without waiting for the end.
    pub fn cancel_task_apart(&self, id: Box<str>) {
        let client = self.clone();
        // A server that has exited does not run the task either.
        self.conversation.runtime.spawn(async move { client.cancel_task(&id).await });
    }

    /// Returns a client with default call options, for requests that the library itself sends.
    pub(crate) fn of(conversation: &Arc<Conversation>) -> Self {
        let McpClientOptions { timeout, timeout_max, .. } = conversation.options;
        let request_timeouts = RequestTimeouts { timeout, timeout_max };
        let options = CallOptions { request_timeouts, on_progress: None, meta: None };
        Self { conversation: conversation.clone(), options }
    }

    /// Returns the protocol that was negotiated with the server. Negotiates first if necessary, within the
    /// timeout of one call.
    pub(crate) async fn negotiated(&self) -> Result<Arc<NegotiatedProtocol>, McpClientError> {
        self.conversation.negotiated(self.options.request_timeouts).await
    }

    /// Creates a request without a name.
    pub(crate) fn call<P>(&self, method: &'static str, params: P) -> Call<'_, P> {
        Call {
            meta: self.options.meta.as_deref(),
            progress: self.options.on_progress.clone().map(|told| Arc::new(Progress::new(told))),
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

    /// Sends a request and returns its result unparsed.
    pub(crate) async fn perform_raw<P: Serialize>(
        &self,
        call: &Call<'_, P>,
    ) -> Result<Answer, McpClientError> {
        let negotiated = self.negotiated().await?;
        self.perform_in(&negotiated, call).await.map(Read::into_raw)
    }

    /// Sends a request under an already negotiated protocol. The result may already be parsed.
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

    /// Returns the protocol under which a failed request is sent again, once.
    ///
    /// The client repeats a request that the server has not handled, and a request that is safe to repeat. A
    /// request in an ended session was not handled. The same applies to a request that the server refuses
    /// until the user has visited some pages. A request to a child process that has died may have been
    /// handled.
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

    /// `true` if a request may be handled more than once. This excludes tool calls, unless the server
    /// declares the tool idempotent or read-only.
    pub(crate) fn may_be_repeated(&self, method: &str, name: Option<&str>) -> bool {
        match Purpose::of_method(method) {
            Purpose::Read => true,
            Purpose::Act => name.is_some_and(|name| self.conversation.tools.may_be_repeated(name)),
            // Subscriptions have their own way to resume.
            Purpose::Subscribe => false,
        }
    }

    /// Returns the headers that mirror arguments, if any.
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

    /// `true` if arguments are mirrored in headers.
    pub(crate) fn mirrors(&self, negotiated: &NegotiatedProtocol) -> bool {
        matches!(negotiated, NegotiatedProtocol::Modern(_)) && !self.conversation.binding.has_common_stream()
    }
}

/// `true` if a failed request may succeed when it is sent again: the session or the connection has ended, or
/// the user must visit pages first.
pub(crate) fn may_be_again<T>(outcome: &Result<T, McpClientError>) -> bool {
    match outcome {
        Err(McpClientError::SessionEnded | McpClientError::Closed) => true,
        Err(McpClientError::Server(error)) => error.code == ErrorCode::URL_ELICITATION_REQUIRED,
        _ => false,
    }
}

/// `true` if the server reports that a header that mirrors an argument is missing, or differs from the header
/// that the server now expects.
pub(crate) fn is_header_mismatch<T>(outcome: &Result<T, McpClientError>) -> bool {
    matches!(outcome, Err(McpClientError::Server(error)) if error.code == ErrorCode::HEADER_MISMATCH)
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient").field("binding", &self.conversation.binding).finish_non_exhaustive()
    }
}
