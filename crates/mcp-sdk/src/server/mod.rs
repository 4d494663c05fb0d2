//! A server: what it is, what it offers, and how that changes while it runs.

mod changes;
mod offer;
mod options;
mod request_bytes;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use thruway_mcp::Revision;
use thruway_mcp::modern::ResultWriter;
use thruway_mcp::schema::{
    CallToolResult, GetPromptResult, Implementation, JsonObject, ListCapability, Prompt, Resource,
    ResourceTemplate, ResourcesCapability, ServerCapabilities, Tool,
};

use crate::ask::StateKey;
use crate::bridge::Bridge;
use crate::handlers::{Handler, Layer};
use crate::registry::{
    CompletionHandler, CompletionInput, PromptEntry, Registry, ResourceAnswer, ResourceEntry, TemplateEntry,
    ToolEntry, UriParameters,
};
use crate::session::Sessions;
use crate::shares::Shares;
use crate::tasks::{TaskSupport, Tasks};

pub(crate) use changes::{Change, Changes, Subscription};
pub use offer::Offer;
pub use options::{LegacySessions, McpServerOptions};
pub(crate) use request_bytes::RequestBytes;

/// An MCP server. Clones are the same server.
///
/// The methods named after what they add are for building one, and panic at mistakes; those that begin with `add_` and
/// `remove_` are for servers that run, and tell the clients that listen.
#[derive(Clone)]
pub struct McpServer {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) info: Implementation,
    pub(crate) options: McpServerOptions,
    pub(crate) results: ResultWriter,
    pub(crate) registry: ArcSwap<Registry>,
    pub(crate) changes: Changes,
    pub(crate) state_key: StateKey,
    pub(crate) sessions: Sessions,
    pub(crate) request_bytes: RequestBytes,
    /// The limit on the bytes of events that sessions remember. It is apart from that of requests, so that
    /// remembered events never cause a request to be refused.
    pub(crate) event_bytes: Arc<Shares>,
    pub(crate) tasks: Tasks,
    /// Who answers in the place of handlers.
    pub(crate) bridge: Option<Arc<Bridge>>,
}

impl McpServer {
    /// A server with this name and version that offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::with_options(Implementation::new(name, version), McpServerOptions::default())
    }

    /// The same, with more to say of itself and with options.
    ///
    /// # Panics
    /// The operating system provides no random bytes.
    pub fn with_options(info: Implementation, options: McpServerOptions) -> Self {
        Self::build(info, options, None)
    }

    /// The same, answering with what `bridge` answers.
    pub(crate) fn bridging(info: Implementation, options: McpServerOptions, bridge: Arc<Bridge>) -> Self {
        Self::build(info, options, Some(bridge))
    }

    fn build(info: Implementation, options: McpServerOptions, bridge: Option<Arc<Bridge>>) -> Self {
        let results = ResultWriter::new(&info).expect("plain data can be written");
        let state_key = options.state_key.map_or_else(StateKey::random, StateKey::new);
        let sessions = Sessions::new(options.session_limits());
        let request_bytes = RequestBytes::new(&options);
        let event_bytes = Shares::new(options.in_flight_bytes_max);
        let tasks = Tasks::new(options.tasks.clone());
        let shared = Shared {
            info,
            options,
            results,
            registry: ArcSwap::default(),
            changes: Changes::default(),
            state_key,
            sessions,
            request_bytes,
            event_bytes,
            tasks,
            bridge,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Offers what knows by itself how: [a function with `#[tool]`](crate::tool), or another [`Offer`].
    ///
    /// # Panics
    /// It cannot be offered as it is: a schema is invalid, for instance.
    #[must_use]
    pub fn with(self, offer: impl Offer) -> Self {
        expect(self.add(offer));
        self
    }

    /// Offers a tool.
    ///
    /// The arguments are read as the handler's input, whose JSON Schema is the tool's input schema unless `definition` has
    /// one; they are checked against it in any case. The output schema is that of [`Structured`](crate::Structured)
    /// content.
    ///
    /// # Panics
    /// A schema is invalid.
    #[must_use]
    pub fn tool<I, M>(self, definition: Tool, handler: impl Handler<I, CallToolResult, M>) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        expect(self.add_tool(definition, handler));
        self
    }

    /// Offers a tool whose calls become tasks: the client is answered at once that there is one, may go, and comes back for
    /// the result. The handler is the same as that of any other [tool](Self::tool), in four things:
    /// - what it asks with its [`Context`](crate::Context) is asked while it goes on; it is not run again;
    /// - what it reports as progress becomes the task's message, and its log messages are not sent;
    /// - it is dropped when the task is cancelled, or has had its [time](McpServerOptions::tasks), not when the client goes;
    /// - one that is not `async` is answered at once all the same.
    ///
    /// Tasks are an extension of revision 2026-07-28 (SEP-2663). Clients that do not know it are treated as `support` says.
    ///
    /// ```
    /// use thruway_mcp_sdk::{Context, McpServer, TaskSupport, schema::Tool};
    ///
    /// async fn report(context: Context) -> &'static str {
    ///     context.progress(1.0, Some(2.0), Some("reading")).await;
    ///     "a long report"
    /// }
    ///
    /// let server =
    ///     McpServer::new("reports", "1.0.0").task_tool(Tool::new("report"), TaskSupport::OPTIONAL, report);
    /// ```
    ///
    /// # Panics
    /// A schema is invalid.
    #[must_use]
    pub fn task_tool<I, M>(
        self,
        definition: Tool,
        support: TaskSupport,
        handler: impl Handler<I, CallToolResult, M>,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        expect(self.add_task_tool(definition, support, handler));
        self
    }

    /// Lets only callers call `tool` whose tokens have all of `scopes`. Over Streamable HTTP that takes an endpoint that
    /// [asks who they are](crate::McpEndpoint::authorize): otherwise nobody has any. Those on the standard input and
    /// output, or in this process, may do everything. The tool may be offered before or after; a name that no tool has
    /// protects nothing.
    #[must_use]
    pub fn require_scopes<T: Into<String>>(
        self,
        tool: impl Into<String>,
        scopes: impl IntoIterator<Item = T>,
    ) -> Self {
        let tool = tool.into();
        let scopes: Vec<String> = scopes.into_iter().map(Into::into).collect();
        self.shared.change(|registry| {
            registry.tool_scopes.insert(tool.clone(), scopes.clone());
        });
        self
    }

    /// Offers a resource. What the handler returns becomes its content, with its URI and type.
    #[must_use]
    pub fn resource<I: From<UriParameters>, M>(
        self,
        definition: Resource,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Self {
        self.add_resource(definition, handler);
        self
    }

    /// Offers resources whose URIs match a template.
    ///
    /// # Panics
    /// The template is invalid, or has expressions other than `{name}` and `{+name}`.
    #[must_use]
    pub fn resource_template<I: From<UriParameters>, M>(
        self,
        definition: ResourceTemplate,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Self {
        expect(self.add_resource_template(definition, handler));
        self
    }

    /// Offers a prompt. The arguments are read as the handler's input; if `definition` names none, they are its properties.
    #[must_use]
    pub fn prompt<I, M>(self, definition: Prompt, handler: impl Handler<I, GetPromptResult, M>) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        self.add_prompt(definition, handler);
        self
    }

    /// Completes `argument` of the prompt or resource template named `of`.
    #[must_use]
    pub fn completion<M>(
        self,
        of: impl Into<String>,
        argument: impl Into<String>,
        handler: impl Handler<CompletionInput, Vec<String>, M>,
    ) -> Self {
        let completion = Arc::new(CompletionHandler {
            of: of.into(),
            argument: argument.into(),
            handler: Box::new(move |input, call| handler.call(input, call)),
        });
        self.shared.change(|registry| registry.completions.push(completion.clone()));
        self
    }

    /// Puts `layer` around all handlers, also those that are added later. The layer added last sees a call first.
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Self {
        let layer: Arc<dyn Layer> = Arc::new(layer);
        self.shared.change(|registry| registry.layers.push(layer.clone()));
        self
    }

    /// Offers [a function with `#[tool]`](crate::tool), or another [`Offer`], in the place of what has the same name.
    ///
    /// # Errors
    /// It cannot be offered as it is: a schema is invalid, for instance.
    pub fn add(&self, offer: impl Offer) -> Result<(), RegistrationError> {
        offer.offer(self)
    }

    /// Offers a tool, or another in the place of one with the same name.
    ///
    /// # Errors
    /// A schema is invalid.
    pub fn add_tool<I, M>(
        &self,
        definition: Tool,
        handler: impl Handler<I, CallToolResult, M>,
    ) -> Result<(), RegistrationError>
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        let entry = Arc::new(ToolEntry::new(definition, handler)?);
        self.shared.add(&Change::Tools, |registry| registry.tools.insert(entry.clone()));
        Ok(())
    }

    /// Offers a tool whose calls become [tasks](Self::task_tool), or another in the place of one with the same name.
    ///
    /// # Errors
    /// A schema is invalid.
    pub fn add_task_tool<I, M>(
        &self,
        definition: Tool,
        support: TaskSupport,
        handler: impl Handler<I, CallToolResult, M>,
    ) -> Result<(), RegistrationError>
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        let entry = Arc::new(ToolEntry::new(definition, handler)?.with_task_support(support));
        self.shared.add(&Change::Tools, |registry| registry.tools.insert(entry.clone()));
        Ok(())
    }

    /// Offers a tool no longer. Whether there was such a one.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.shared.remove(&Change::Tools, |registry| registry.tools.remove(name))
    }

    /// Offers a resource, or another in the place of one with the same URI.
    pub fn add_resource<I: From<UriParameters>, M>(
        &self,
        definition: Resource,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) {
        let entry = Arc::new(ResourceEntry::new(definition, handler));
        self.shared.add(&Change::Resources, |registry| registry.resources.insert(entry.clone()));
    }

    /// Offers a resource no longer. Whether there was such a one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.shared.remove(&Change::Resources, |registry| registry.resources.remove(uri))
    }

    /// Offers resources whose URIs match a template.
    ///
    /// # Errors
    /// The template is invalid, or has expressions other than `{name}` and `{+name}`.
    pub fn add_resource_template<I: From<UriParameters>, M>(
        &self,
        definition: ResourceTemplate,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Result<(), RegistrationError> {
        let entry = Arc::new(TemplateEntry::new(definition, handler)?);
        self.shared.add(&Change::Resources, |registry| registry.templates.insert(entry.clone()));
        Ok(())
    }

    /// Offers a prompt, or another in the place of one with the same name.
    pub fn add_prompt<I, M>(&self, definition: Prompt, handler: impl Handler<I, GetPromptResult, M>)
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        let entry = Arc::new(PromptEntry::new(definition, handler));
        self.shared.add(&Change::Prompts, |registry| registry.prompts.insert(entry.clone()));
    }

    /// Offers a prompt no longer. Whether there was such a one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.shared.remove(&Change::Prompts, |registry| registry.prompts.remove(name))
    }

    /// Tells those who subscribed to a resource that its content is another now.
    pub fn resource_updated(&self, uri: &str) {
        self.shared.changes.announce(&Change::Resource(uri.into()));
    }
}

impl Shared {
    /// Offers something more, and says so.
    fn add(&self, change: &Change, edit: impl FnMut(&mut Registry)) {
        self.change(edit);
        self.changes.announce(change);
    }

    /// Offers something no longer, and says so; whether it was offered.
    fn remove(&self, change: &Change, edit: impl FnMut(&mut Registry) -> bool) -> bool {
        let is_removed = self.change(edit);
        if is_removed {
            self.changes.announce(change);
        }
        is_removed
    }

    fn change<R>(&self, mut edit: impl FnMut(&mut Registry) -> R) -> R {
        let mut outcome = None;
        self.registry.rcu(|registry| {
            let mut registry = Registry::clone(registry);
            outcome = Some(edit(&mut registry));
            registry
        });
        outcome.expect("it was edited at least once")
    }

    /// Whether there are tasks, or tools whose calls become such.
    pub(crate) fn has_tasks(&self) -> bool {
        let registry = self.registry.load();
        registry.tools.entries().iter().any(|tool| tool.task_support().is_some()) || !self.tasks.is_empty()
    }

    /// What the server can do: what it has something of.
    pub(crate) fn capabilities(&self, revision: Revision) -> ServerCapabilities {
        if let Some(bridge) = &self.bridge {
            return bridge.capabilities(revision);
        }
        let registry = self.registry.load();
        let has_resources = !registry.resources.is_empty() || !registry.templates.is_empty();
        let has_completions = !registry.completions.is_empty();
        let has_tools = !registry.tools.is_empty() || self.options.may_add_tools;
        let has_prompts = !registry.prompts.is_empty() || self.options.may_add_prompts;
        let list = ListCapability { list_changed: Some(true) };
        let resources = ResourcesCapability { subscribe: Some(true), list_changed: Some(true) };
        ServerCapabilities {
            tools: has_tools.then_some(list),
            resources: (has_resources || self.options.may_add_resources).then_some(resources),
            prompts: has_prompts.then_some(list),
            completions: has_completions.then(JsonObject::new),
            logging: Some(JsonObject::new()),
            ..ServerCapabilities::default()
        }
    }
}

/// Something cannot be offered as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistrationError {
    name: String,
    reason: String,
}

impl RegistrationError {
    pub(crate) fn new(name: &str, reason: String) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot be offered: {}", self.name, self.reason)
    }
}

impl std::error::Error for RegistrationError {}

/// # Panics
/// At an error.
#[track_caller]
fn expect(outcome: Result<(), RegistrationError>) {
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("info", &self.shared.info).finish_non_exhaustive()
    }
}
