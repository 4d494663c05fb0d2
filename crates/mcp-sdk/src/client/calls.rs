//! What can be called, each with the types of the schema.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::Revision;
use thruway_mcp::schema::{
    CallToolResult, CompleteArgument, CompleteContext, CompleteRequestParams, CompleteResult, Completion,
    CompletionReference, DiscoverResult, GetPromptRequestParams, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel, PaginatedRequestParams,
    Prompt, ReadResourceRequestParams, ReadResourceResult, RequestParams, Resource, ResourceTemplate,
    SetLevelRequestParams, Tool, methods,
};

use super::eras::{Call, Era};
use super::error::McpClientError;
use super::handlers::ServerNotification;
use super::tasks::ToolOutcome;
use super::{McpClient, is_header_mismatch};

/// What a tool is called with.
#[derive(Serialize)]
struct CallToolParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
}

/// Any request fails for the reasons that [`McpClientError`] lists.
impl McpClient {
    /// What the server is and can do. The server is asked once, in the legacy era by the handshake.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn discover(&self) -> Result<DiscoverResult, McpClientError> {
        let spoken = self.conversation.spoken().await?;
        spoken.discover(&self.conversation, self.options.patience).await
    }

    /// Whether there is anybody. The modern era has no `ping`: there the server is asked what it is.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn ping(&self) -> Result<(), McpClientError> {
        let spoken = self.conversation.spoken().await?;
        let method = match spoken.era() {
            Era::Legacy => methods::PING,
            Era::Modern => methods::SERVER_DISCOVER,
        };
        self.request::<serde::de::IgnoredAny, _>(method, RequestParams::default()).await.map(drop)
    }

    /// All tools. Those that cannot be called, because they want arguments in headers in a way that cannot be, are left out
    /// where that matters.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn list_tools(&self) -> Result<Vec<Tool>, McpClientError> {
        let mut tools =
            self.list(methods::TOOLS_LIST, |page: ListToolsResult| (page.tools, page.next_cursor)).await?;
        let spoken = self.conversation.spoken().await?;
        self.conversation.tools.learn(&mut tools, self.mirrors(&spoken));
        Ok(tools)
    }

    /// The same, of a server that has shown that the list which may still be kept is not true any more.
    pub(super) async fn list_tools_anew(&self) -> Result<Vec<Tool>, McpClientError> {
        self.conversation.cache.forget(&ServerNotification::ToolsListChanged);
        self.list_tools().await
    }

    /// Calls a tool. What went wrong in the tool is a result too: see [`is_error`](CallToolResult::is_error). If the tool was
    /// [listed](Self::list_tools) before, its structured content is checked against what it promises. If the server makes a
    /// task of the call, its end is waited for; to drop the future is to give the task up.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<CallToolResult, McpClientError> {
        let task = match self.begin_tool(name, arguments).await? {
            ToolOutcome::Result(result) => return Ok(result),
            ToolOutcome::Task(task) => task,
        };
        let result = self.await_task(&task.state.task_id, true).await?;
        self.check(name, &result).await?;
        Ok(result)
    }

    /// Calls a tool, and does not wait if the server makes a task of it. Servers do so only with clients whose
    /// [capabilities](super::McpClientOptions::capabilities) say that they know tasks (2026-07-28).
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn begin_tool(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<ToolOutcome, McpClientError> {
        let arguments = to_raw_value(&arguments).map_err(|_| McpClientError::ArgumentsInvalid)?;
        if !arguments.get().starts_with('{') {
            return Err(McpClientError::ArgumentsInvalid);
        }
        let fields = self.fields_of_arguments(name, &arguments).await?;
        let params = CallToolParams { name, arguments: &arguments };
        let mut call =
            Call { name: Some(name), fields: fields.clone(), ..self.call(methods::TOOLS_CALL, params) };
        let mut outcome = self.perform_raw(&call).await;
        if is_header_mismatch(&outcome) {
            // The tool may have changed since it was listed, or was never listed; it was not called.
            self.list_tools_anew().await?;
            call.fields = self.fields_of_arguments(name, &arguments).await?;
            if call.fields != fields {
                outcome = self.perform_raw(&call).await;
            }
        }
        let outcome = ToolOutcome::parse(&outcome?)?;
        if let ToolOutcome::Result(result) = &outcome {
            self.check(name, result).await?;
        }
        Ok(outcome)
    }

    /// Checks a result against what its tool promises, where tools can promise anything.
    async fn check(&self, tool: &str, result: &CallToolResult) -> Result<(), McpClientError> {
        if self.conversation.spoken().await?.revision() < Revision::R20250618 {
            return Ok(());
        }
        self.conversation.tools.check(tool, result)
    }

    /// All resources.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn list_resources(&self) -> Result<Vec<Resource>, McpClientError> {
        self.list(methods::RESOURCES_LIST, |page: ListResourcesResult| (page.resources, page.next_cursor))
            .await
    }

    /// All templates of resources.
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

    /// All prompts.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, McpClientError> {
        self.list(methods::PROMPTS_LIST, |page: ListPromptsResult| (page.prompts, page.next_cursor)).await
    }

    /// Gets a prompt, filled with `arguments`.
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

    /// Completes an argument of a prompt or a template, of which others may be known already.
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

    /// From which level on the server is to send log messages. The modern era says it with each request, the legacy one once in a
    /// session.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn set_logging_level(&self, level: LoggingLevel) -> Result<(), McpClientError> {
        self.conversation.set_log_level(level);
        match self.conversation.spoken().await?.era() {
            Era::Modern => Ok(()),
            Era::Legacy => {
                let params = SetLevelRequestParams { level, meta: None };
                self.request::<serde::de::IgnoredAny, _>(methods::LOGGING_SET_LEVEL, params).await.map(drop)
            }
        }
    }

    /// All pages of a list. A cursor that has been there before would lead in a circle.
    async fn list<R: DeserializeOwned, T>(
        &self,
        method: &'static str,
        entries: impl Fn(R) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>, McpClientError> {
        let mut all = Vec::new();
        let mut cursors = HashSet::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams { cursor, meta: None };
            let (page, next) = entries(self.request(method, params).await?);
            all.extend(page);
            if all.len() > ENTRIES_MAX {
                break;
            }
            match next {
                None => return Ok(all),
                Some(next) if cursors.insert(next.clone()) => cursor = Some(next),
                Some(_) => break,
            }
        }
        Err(McpClientError::result_invalid(&"the list has no end"))
    }
}

/// How many pages a list may have.
const PAGES_MAX: usize = 10_000;

/// How many entries a list may have.
const ENTRIES_MAX: usize = 1_000_000;
