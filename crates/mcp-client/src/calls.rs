//! Methods of the client that call the server, with typed parameters and results.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::json_rpc::write_notification;
use thruway_mcp::members::one_line;
use thruway_mcp::schema::{
    CallToolResult, CompleteArgument, CompleteContext, CompleteRequestParams, CompleteResult, Completion,
    CompletionReference, DetailedTask, DiscoverResult, GetPromptRequestParams, GetPromptResult,
    InputResponses, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, NotificationParams, PaginatedRequestParams, Prompt,
    ReadResourceRequestParams, ReadResourceResult, RequestParams, Resource, ResourceTemplate,
    SetLevelRequestParams, SubscriptionFilter, Task, Tool, methods,
};
use thruway_mcp::{Revision, check_finite};
use tokio::time::timeout;

use super::builder::McpClientBuilder;
use super::client::{McpClient, is_header_mismatch};
use super::eras::{Call, Era, NegotiatedProtocol};
use super::error::McpClientError;
use super::handlers::ServerNotification;
use super::legacy_tasks;
use super::subscription::{self, Subscription};
use super::tasks::{self, ToolOutcome};

/// Parameters of a tool call.
#[derive(Serialize)]
struct CallToolParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
    /// `Some` if the client requests a task for the call (MCP revision 2025-11-25).
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<JsonObject>,
}

/// The possible errors of these methods are in [`McpClientError`].
impl McpClient {
    /// Returns a builder for a client.
    pub fn builder() -> McpClientBuilder {
        McpClientBuilder::default()
    }

    /// Creates a client of the MCP endpoint at `url`, with the default options.
    ///
    /// # Panics
    /// Panics if the caller is outside a tokio runtime.
    pub fn http(url: &str) -> Self {
        Self::builder().http(url)
    }

    /// Returns the name, version and capabilities of the server. In the modern era, the client asks the
    /// server once and stores the answer. In the legacy era, the handshake contains the answer.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn discover(&self) -> Result<DiscoverResult, McpClientError> {
        let negotiated = self.negotiated().await?;
        negotiated.discover(&self.conversation, self.options.request_timeouts).await
    }

    /// Checks that the server responds. The modern era has no `ping`, so the client sends `server/discover`
    /// instead.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn ping(&self) -> Result<(), McpClientError> {
        let negotiated = self.negotiated().await?;
        let method = match negotiated.era() {
            Era::Legacy => methods::PING,
            Era::Modern => methods::SERVER_DISCOVER,
        };
        self.request::<serde::de::IgnoredAny, _>(method, RequestParams::default()).await.map(drop)
    }

    /// Lists all tools. If tool calls repeat arguments in headers (modern era over HTTP), the list omits
    /// tools with an invalid `x-mcp-header`, because the client cannot call these tools.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn list_tools(&self) -> Result<Vec<Tool>, McpClientError> {
        let mut tools =
            self.list(methods::TOOLS_LIST, |page: ListToolsResult| (page.tools, page.next_cursor)).await?;
        let negotiated = self.negotiated().await?;
        self.conversation.tools.learn(&mut tools, self.mirrors(&negotiated));
        Ok(tools)
    }

    /// Requests the list of tools again and ignores the cached list. The client does this when an answer of
    /// the server shows that the cached list is outdated.
    pub(super) async fn list_tools_anew(&self) -> Result<Vec<Tool>, McpClientError> {
        self.conversation.cache.forget(&ServerNotification::ToolsListChanged);
        self.list_tools().await
    }

    /// Calls a tool. If the tool itself fails, the call still returns a result. In this result,
    /// [`is_error`](CallToolResult::is_error) is set.
    ///
    /// If the tool was [listed](Self::list_tools) before, the client checks the structured content of the
    /// result against the output schema of the tool. If the server creates a task for the call, this method
    /// waits until the task ends. Dropping the future cancels such a task.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<CallToolResult, McpClientError> {
        let task = match self.begin(name, arguments, false).await? {
            ToolOutcome::Result(result) => return Ok(result),
            ToolOutcome::Task(task) => task,
        };
        let result = Box::pin(tasks::wait(self, &task.state.task_id, true)).await?;
        let negotiated = self.negotiated().await?;
        self.check(&negotiated, name, &result)?;
        Ok(result)
    }

    /// Calls a tool and returns at once if the call becomes a task. The
    /// [capabilities](super::McpClientOptions::capabilities) of the client must include tasks. In MCP
    /// revision 2026-07-28, the server decides whether a call becomes a task. In MCP revision 2025-11-25,
    /// this method requests a task if the tool permits tasks.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn begin_tool(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<ToolOutcome, McpClientError> {
        self.begin(name, arguments, true).await
    }

    /// Calls a tool. Requests a task if the tool requires a task, or if the tool permits a task and
    /// `is_to_be_task` is set.
    async fn begin(
        &self,
        name: &str,
        arguments: impl Serialize,
        is_to_be_task: bool,
    ) -> Result<ToolOutcome, McpClientError> {
        let given = &arguments;
        let arguments = to_raw_value(given).map(one_line).map_err(|_| McpClientError::ArgumentsInvalid)?;
        // `serde_json` writes NaN and infinite numbers as `null`.
        let is_finite = !arguments.get().contains("null") || check_finite(given).is_ok();
        if !is_finite || !arguments.get().starts_with('{') {
            return Err(McpClientError::ArgumentsInvalid);
        }
        let negotiated = self.negotiated().await?;
        let is_task =
            negotiated.allows_task_calls() && legacy_tasks::becomes_task(self, name, is_to_be_task).await?;
        let params = CallToolParams { name, arguments: &arguments, task: is_task.then(JsonObject::new) };
        let mirrored = self.mirrored(&negotiated, name, &arguments)?;
        let mut call = Call { name: Some(name), mirrored, ..self.call(methods::TOOLS_CALL, params) };
        let mut outcome = self.perform_in(&negotiated, &call).await;
        // The server rejected the call because of its headers, and did not run the tool. Either the tool has
        // changed, or the client has never listed the tool.
        if is_header_mismatch(&outcome) && Box::pin(self.list_tools_anew()).await.is_ok() {
            let negotiated = self.negotiated().await?;
            let mirrored = self.mirrored(&negotiated, name, &arguments)?;
            if call.mirrored.bytes() != mirrored.bytes() {
                call.mirrored = mirrored;
                outcome = Box::pin(self.perform_in(&negotiated, &call)).await;
            }
        }
        let outcome = ToolOutcome::of(outcome?)?;
        if let ToolOutcome::Result(result) = &outcome {
            self.check(&negotiated, name, result)?;
        }
        Ok(outcome)
    }

    /// Checks a result against the output schema of its tool, if the revision has output schemas.
    fn check(
        &self,
        negotiated: &NegotiatedProtocol,
        tool: &str,
        result: &CallToolResult,
    ) -> Result<(), McpClientError> {
        if negotiated.revision() < Revision::R20250618 {
            return Ok(());
        }
        self.conversation.tools.check(tool, result)
    }

    /// Lists all resources.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn list_resources(&self) -> Result<Vec<Resource>, McpClientError> {
        self.list(methods::RESOURCES_LIST, |page: ListResourcesResult| (page.resources, page.next_cursor))
            .await
    }

    /// Lists all resource templates.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>, McpClientError> {
        self.list(methods::RESOURCES_TEMPLATES_LIST, |page: ListResourceTemplatesResult| {
            (page.resource_templates, page.next_cursor)
        })
        .await
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, McpClientError> {
        let params =
            ReadResourceRequestParams { uri: uri.to_owned(), ..ReadResourceRequestParams::default() };
        self.perform(&Call { name: Some(uri), ..self.call(methods::RESOURCES_READ, params) }).await
    }

    /// Lists all prompts.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, McpClientError> {
        self.list(methods::PROMPTS_LIST, |page: ListPromptsResult| (page.prompts, page.next_cursor)).await
    }

    /// Gets a prompt. The server inserts `arguments` into the prompt.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: BTreeMap<String, String>,
    ) -> Result<GetPromptResult, McpClientError> {
        let params = GetPromptRequestParams {
            name: name.to_owned(),
            arguments: Some(arguments),
            ..GetPromptRequestParams::default()
        };
        self.perform(&Call { name: Some(name), ..self.call(methods::PROMPTS_GET, params) }).await
    }

    /// Returns suggested values for an argument of a prompt or a resource template. `context` contains the
    /// arguments whose values are already known.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn complete(
        &self,
        reference: CompletionReference,
        argument: CompleteArgument,
        context: Option<CompleteContext>,
    ) -> Result<Completion, McpClientError> {
        let params = CompleteRequestParams { reference, argument, context, meta: None };
        let result: CompleteResult = self.request(methods::COMPLETION_COMPLETE, params).await?;
        Ok(result.completion)
    }

    /// Sets the minimum level of log messages that the server sends. In the modern era, the client sends
    /// the level with each request. In the legacy era, the client sends the level once in each session.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn set_logging_level(&self, level: LoggingLevel) -> Result<(), McpClientError> {
        let negotiated = self.negotiated().await?;
        self.conversation.set_log_level(level);
        match negotiated.era() {
            Era::Modern => Ok(()),
            Era::Legacy => {
                let params = SetLevelRequestParams { level, meta: None };
                self.request::<serde::de::IgnoredAny, _>(methods::LOGGING_SET_LEVEL, params).await.map(drop)
            }
        }
    }

    /// Notifies the server that the roots have changed, so that the server can request the new roots. Does
    /// nothing in the modern era, where servers request the roots whenever they need them.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn roots_changed(&self) -> Result<(), McpClientError> {
        if self.negotiated().await?.era() == Era::Modern {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let params = NotificationParams::default();
        write_notification(&mut bytes, methods::NOTIFICATIONS_ROOTS_LIST_CHANGED, &params);
        self.conversation.send(bytes).await
    }

    /// Requests all pages of a list. Fails if this takes longer than `timeout_max`.
    pub(super) async fn list<R: DeserializeOwned, T>(
        &self,
        method: &'static str,
        entries: impl Fn(R) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>, McpClientError> {
        let pages = self.pages(method, entries);
        timeout(self.options.request_timeouts.timeout_max, pages)
            .await
            .map_err(|_| McpClientError::TimedOut)?
    }

    /// Requests all pages of a list. Fails if the server repeats a cursor, because the list would then
    /// never end.
    async fn pages<R: DeserializeOwned, T>(
        &self,
        method: &'static str,
        entries: impl Fn(R) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>, McpClientError> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        let mut cursors = HashSet::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams { cursor, meta: None };
            let page = self.perform_raw(&self.call(method, params)).await?;
            bytes += page.get().len();
            let page = serde_json::from_str(page.get());
            let (page, next) = entries(page.map_err(|error| McpClientError::result_invalid(&error))?);
            all.extend(page);
            if bytes > self.conversation.options.message_bytes_max.saturating_mul(LARGEST_PAGES_MAX) {
                break;
            }
            match next {
                None => return Ok(all),
                Some(next) if cursors.insert(next.clone()) => cursor = Some(next),
                Some(_) => break,
            }
        }
        Err(McpClientError::result_invalid(&"the list has too many pages, is too large, or repeats a cursor"))
    }

    /// Returns all tasks of this client that the server knows. Only MCP revision 2025-11-25 has such a list.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn list_tasks(&self) -> Result<Vec<Task>, McpClientError> {
        legacy_tasks::list(self).await
    }

    /// Returns the state of a task.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn get_task(&self, id: &str) -> Result<DetailedTask, McpClientError> {
        tasks::get(self, id).await
    }

    /// Answers the elicitation, sampling or roots requests of a task (MCP revision 2026-07-28). The key of
    /// each answer is the name of its request. In earlier revisions, the server sends these requests as
    /// separate messages.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn update_task(&self, id: &str, answers: InputResponses) -> Result<(), McpClientError> {
        tasks::update(self, id, answers).await
    }

    /// Asks the server to cancel a task. The task may still complete.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn cancel_task(&self, id: &str) -> Result<(), McpClientError> {
        tasks::cancel(self, id).await
    }

    /// Waits for the result of a task and answers the elicitation, sampling and roots requests of the task.
    /// The client polls the task at the interval that the server requests. Temporary failures of a poll do
    /// not end the wait.
    ///
    /// # Errors
    /// See [`McpClientError`]. Also fails if the task has failed or was canceled.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the task.
    pub async fn wait_for_task(&self, id: &str) -> Result<CallToolResult, McpClientError> {
        tasks::wait(self, id, false).await
    }

    /// Subscribes to changes of lists and resources. The client sends `subscriptions/listen` in the modern
    /// era, and `resources/subscribe` in the legacy era. A legacy server reports changes of lists without a
    /// subscription.
    ///
    /// # Errors
    /// The server refuses the subscription.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, McpClientError> {
        subscription::listen(self, filter).await
    }
}

/// Maximum number of pages in a list.
const PAGES_MAX: usize = 10_000;

/// Maximum total size of all pages of a list, in multiples of `message_bytes_max`.
const LARGEST_PAGES_MAX: usize = 8;
