//! The client that users call.

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
use super::deadline::{OnProgress, Patience, Progress};
use super::eras::{Call, Era, Spoken};
use super::error::McpClientError;
use super::options::McpClientOptions;
use super::reading::{Answer, Read, Wanted};

/// A client of an MCP server. Clones share the connection; any number of requests may be in flight, from any
/// task. What is not over HTTP, such as a child process, is read and written in the runtime that the client
/// was made in: when that has ended, calls fail with [`RuntimeEnded`](McpClientError::RuntimeEnded). Over
/// HTTP, each runtime has connections of its own, and a subscription is told nothing any more when the one
/// has ended that it was made in.
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
/// Unless [told otherwise](McpClientBuilder::era), it asks the server at the first call which era it speaks,
/// and remembers the answer. What is called means the same in both; questions of the server go to one
/// [handler](McpClientBuilder::answers).
///
/// # Cancel safety
/// Who drops the future of a call gives it up, and the server is told. Calls that have taken longer than they
/// [may](Self::with_timeout) end in the same way.
#[derive(Clone)]
pub struct McpClient {
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) options: CallOptions,
}

/// What can be chosen for each call.
#[derive(Clone)]
pub(crate) struct CallOptions {
    pub(crate) patience: Patience,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) meta: Option<Arc<MetaObject>>,
}

impl McpClient {
    /// The same client, waiting so long for an answer, or after each report of its progress.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.options.patience.timeout = timeout;
        self
    }

    /// The same client, waiting no longer than this.
    pub fn hurried(self, timeout: Duration) -> Self {
        let timeout = self.options.patience.timeout.min(timeout);
        self.with_timeout(timeout)
    }

    /// The same client, asking for reports of progress; each of them lets a call take longer, up to
    /// [`timeout_max`](McpClientOptions::timeout_max). `on_progress` must be quick: nothing is read
    /// meanwhile.
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

    /// The same client, saying more about its requests, such as the trace context.
    #[must_use]
    pub fn with_meta(mut self, meta: MetaObject) -> Self {
        self.options.meta = Some(Arc::new(meta));
        self
    }

    /// The revision that is spoken.
    ///
    /// # Errors
    /// The server cannot be reached, or speaks none that may be spoken.
    pub async fn revision(&self) -> Result<Revision, McpClientError> {
        Ok(self.spoken().await?.revision())
    }

    /// Ends a session, and sees a child process out: its input is closed, then it is told to end, then it is
    /// killed. Calls that other clones make from then on fail, and subscriptions end. A client that is
    /// dropped does the same, if the runtime lives on, but for the session.
    pub async fn close(self) {
        self.conversation.close().await;
    }

    /// The same, without waiting for it.
    pub fn close_apart(&self) {
        self.conversation.spawn(self.clone().close());
    }

    /// Wants the log messages that `other` does, from the beginning of the session on.
    pub fn log_as(&self, other: &Self) {
        if let Some(level) = other.conversation.log_level() {
            self.conversation.set_log_level(level);
        }
    }

    /// Whether nothing can come any more.
    pub fn is_closed(&self) -> bool {
        self.conversation.incoming.closed().is_some()
    }

    /// Returns `true` if the server is at the other end of a stream, such as a child process: it ends with
    /// the stream.
    pub fn is_on_stream(&self) -> bool {
        self.conversation.binding.is_stream()
    }

    /// How often the server has gone and was, or will be, started again: what the one before kept in mind is
    /// lost.
    pub fn losses(&self) -> u64 {
        self.conversation.losses()
    }

    /// The same client, waiting for as long as it may in all, whether or not there is progress.
    pub fn unhurried(self) -> Self {
        let timeout = self.options.patience.timeout_max;
        self.with_timeout(timeout)
    }

    /// Gives a task up, without waiting for that.
    pub fn cancel_task_apart(&self, id: Box<str>) {
        let client = self.clone();
        // A server that is gone does nothing either.
        self.conversation.runtime.spawn(async move { client.cancel_task(&id).await });
    }

    /// A client for what is done without being called.
    pub(crate) fn of(conversation: &Arc<Conversation>) -> Self {
        let McpClientOptions { timeout, timeout_max, .. } = conversation.options;
        let patience = Patience { timeout, timeout_max };
        let options = CallOptions { patience, on_progress: None, meta: None };
        Self { conversation: conversation.clone(), options }
    }

    /// What was agreed upon with the server. If nothing was, it is now, and waited for no longer than for an
    /// answer.
    pub(crate) async fn spoken(&self) -> Result<Arc<Spoken>, McpClientError> {
        self.conversation.spoken(self.options.patience).await
    }

    /// A request without a name.
    pub(crate) fn call<P>(&self, method: &'static str, params: P) -> Call<'_, P> {
        Call {
            meta: self.options.meta.as_deref(),
            progress: self.options.on_progress.clone().map(|told| Arc::new(Progress::new(told))),
            ..Call::new(method, params, self.options.patience)
        }
    }

    pub(crate) async fn request<R: DeserializeOwned, P: Serialize>(
        &self,
        method: &'static str,
        params: P,
    ) -> Result<R, McpClientError> {
        self.perform(&self.call(method, params)).await
    }

    /// Sends a request and reads its result.
    pub(crate) async fn perform<R: DeserializeOwned, P: Serialize>(
        &self,
        call: &Call<'_, P>,
    ) -> Result<R, McpClientError> {
        let answer = self.perform_raw(call).await?;
        serde_json::from_str(answer.get()).map_err(|error| McpClientError::result_invalid(&error))
    }

    /// Sends a request and returns its result as it was sent.
    pub(crate) async fn perform_raw<P: Serialize>(
        &self,
        call: &Call<'_, P>,
    ) -> Result<Answer, McpClientError> {
        let spoken = self.spoken().await?;
        self.perform_in(&spoken, call).await.map(Read::into_raw)
    }

    /// The same in what was agreed upon; the result may be read already.
    pub(crate) async fn perform_in<R: Wanted, P: Serialize>(
        &self,
        spoken: &Arc<Spoken>,
        call: &Call<'_, P>,
    ) -> Result<Read<R>, McpClientError> {
        let conversation = &self.conversation;
        let outcome = spoken.perform(conversation, call).await;
        if !may_be_again(&outcome) {
            return outcome;
        }
        if conversation.is_stranded() {
            return Err(McpClientError::RuntimeEnded);
        }
        match Box::pin(self.again(spoken, call.method, call.name, &outcome)).await? {
            Some(spoken) => Box::pin(spoken.perform(conversation, call)).await,
            None => outcome,
        }
    }

    /// How to send a request again, once, that was not handled, or may be handled twice. What was sent in a
    /// session that has ended was not, nor was what the server refuses until pages have been visited; what
    /// was sent to a child that has died may have been.
    pub(crate) async fn again<T>(
        &self,
        spoken: &Arc<Spoken>,
        method: &str,
        name: Option<&str>,
        outcome: &Result<T, McpClientError>,
    ) -> Result<Option<Arc<Spoken>>, McpClientError> {
        let conversation = &self.conversation;
        match outcome {
            Err(McpClientError::SessionEnded) => {
                conversation.forget(spoken);
                let spoken = self.spoken().await?;
                conversation.resubscribe();
                Ok(Some(spoken))
            }
            Err(McpClientError::Closed)
                if conversation.binding.can_reopen() && self.may_be_repeated(method, name) =>
            {
                self.spoken().await.map(Some)
            }
            Err(McpClientError::Server(error)) if spoken.era() == Era::Legacy => {
                Ok(conversation.has_visited(error).await.then(|| spoken.clone()))
            }
            _ => Ok(None),
        }
    }

    /// Whether it does not matter how often a request is handled: all but calls of tools, and those of tools
    /// of which the server says so.
    pub(crate) fn may_be_repeated(&self, method: &str, name: Option<&str>) -> bool {
        match Purpose::of_method(method) {
            Purpose::Read => true,
            Purpose::Act => name.is_some_and(|name| self.conversation.tools.may_be_repeated(name)),
            // It has its own way to go on.
            Purpose::Subscribe => false,
        }
    }

    /// The headers that mirror arguments, where there are any.
    pub(crate) fn mirrored(
        &self,
        spoken: &Spoken,
        tool: &str,
        arguments: &RawValue,
    ) -> Result<FieldLinesBuf, McpClientError> {
        if !self.mirrors(spoken) {
            return Ok(FieldLinesBuf::new());
        }
        self.conversation.tools.mirrored(tool, arguments)
    }

    /// Whether arguments are mirrored in headers.
    pub(crate) fn mirrors(&self, spoken: &Spoken) -> bool {
        matches!(spoken, Spoken::Modern(_)) && !self.conversation.binding.has_common_stream()
    }
}

/// Whether a request may have failed for a reason that does not concern it, or that can be helped.
pub(crate) fn may_be_again<T>(outcome: &Result<T, McpClientError>) -> bool {
    match outcome {
        Err(McpClientError::SessionEnded | McpClientError::Closed) => true,
        Err(McpClientError::Server(error)) => error.code == ErrorCode::URL_ELICITATION_REQUIRED,
        _ => false,
    }
}

/// Whether the server missed a header that mirrors an argument, or found another one than it had told of
/// before.
pub(crate) fn is_header_mismatch<T>(outcome: &Result<T, McpClientError>) -> bool {
    matches!(outcome, Err(McpClientError::Server(error)) if error.code == ErrorCode::HEADER_MISMATCH)
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient").field("binding", &self.conversation.binding).finish_non_exhaustive()
    }
}
