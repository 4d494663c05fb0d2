//! MCP servers: their name, their tools, resources and prompts, and changes of these at run time.

mod changes;
mod server_core;
mod options;
mod request_bytes;

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use thruway_mcp::schema::{
    CallToolResult, GetPromptResult, Implementation, Prompt, Resource, ResourceTemplate, Tool,
};

use crate::backend::Backend;
use crate::dispatch::LocalBackend;
use crate::handlers::{Handler, Layer};
use crate::registry::{
    CompletionHandler, CompletionInput, PromptEntry, RegistrationError, Registry, ResourceAnswer,
    ResourceEntry, TemplateEntry, ToolEntry, UriParameters,
};
use crate::tasks::TaskSupport;

pub(crate) use changes::Changes;
pub use changes::{Change, ChangeKey, Subscription};
pub use options::{LegacySessions, McpServerOptions};
pub use server_core::ServerCore;

/// An MCP server. Clones refer to the same server.
///
/// Methods that are named after the added item ([`tool`](Self::tool), [`resource`](Self::resource)) are for
/// building a server. They panic if the item is invalid. Methods that begin with `add_` or `remove_` are for
/// running servers, and notify the subscribed clients.
///
/// ```
/// use thruway_mcp_server::McpServer;
/// use thruway_mcp_server::schema::{Resource, Tool};
///
/// let server = McpServer::new("greeter", "1.0.0")
///     .tool(Tool::new("greet"), || "Hello!")
///     .resource(Resource::new("greeting://en", "greeting"), || "Hello!");
///
/// // Changes at run time notify the subscribed clients.
/// assert!(server.remove_tool("greet"));
/// ```
#[derive(Clone)]
pub struct McpServer {
    pub(crate) core: Arc<ServerCore>,
    /// The backend that answers requests.
    pub(crate) backend: Arc<dyn Backend>,
    /// The handlers of this process. They are the backend unless the application provides another one.
    local: Arc<LocalBackend>,
}

impl McpServer {
    /// Returns a server with this name and version. It offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::with_options(Implementation::new(name, version), McpServerOptions::default())
    }

    /// Returns a server with a full description of itself and with options.
    ///
    /// # Panics
    /// The operating system provides no random bytes.
    pub fn with_options(info: Implementation, options: McpServerOptions) -> Self {
        Self::build(info, options, None)
    }

    /// Returns a server that gets its answers from `backend`. Tools, resources and prompts that are added to
    /// it have no effect.
    ///
    /// # Panics
    /// The operating system provides no random bytes.
    pub fn with_backend(info: Implementation, options: McpServerOptions, backend: Arc<dyn Backend>) -> Self {
        Self::build(info, options, Some(backend))
    }

    /// Returns the core of the server, for backends.
    pub const fn core(&self) -> &Arc<ServerCore> {
        &self.core
    }

    fn build(info: Implementation, options: McpServerOptions, backend: Option<Arc<dyn Backend>>) -> Self {
        let local = Arc::<LocalBackend>::default();
        let backend = backend.unwrap_or_else(|| local.clone());
        Self { core: Arc::new(ServerCore::new(info, options)), backend, local }
    }

    /// Adds [a function with `#[tool]`](crate::tool) or another [`Offer`].
    ///
    /// # Panics
    /// The offer is invalid, for example because of its schema.
    #[must_use]
    pub fn with(self, offer: impl Offer) -> Self {
        expect(self.add(offer));
        self
    }

    /// Adds a tool.
    ///
    /// The server reads the arguments as the handler's input type. The JSON Schema of that type is the input
    /// schema of the tool unless `definition` has one. The server checks all arguments against the input
    /// schema. The output schema is the schema of the [`Structured`](crate::Structured) content.
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

    /// Adds a tool that runs as a task: the server answers each call at once with a task id. The client
    /// may disconnect, and fetches the result later. The handler differs from that of any other
    /// [tool](Self::tool) in four points:
    /// - Questions that it asks with its [`Context`](crate::Context) do not interrupt it. It does not run
    ///   again after an answer.
    /// - Its progress reports become the message of the task. Its log messages are not sent.
    /// - The server drops the handler when the client cancels the task or the [time
    ///   limit](McpServerOptions::tasks) passes, not when the client disconnects.
    /// - A handler that is not `async` is answered at once, without a task.
    ///
    /// Tasks are an extension of revision 2026-07-28 (SEP-2663). `support` decides about calls from clients
    /// without this extension.
    ///
    /// ```
    /// use thruway_mcp_server::{Context, McpServer, TaskSupport, schema::Tool};
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

    /// Requires all of `scopes` in the caller's token for calls of `tool`.
    ///
    /// Over Streamable HTTP, this needs an endpoint with [authorization](crate::McpEndpoint::authorize):
    /// without it, no caller has any scope. Callers over stdio or in this process have all scopes. The tool
    /// may be added before or after this call. The name of a nonexistent tool has no effect.
    #[must_use]
    pub fn require_scopes<T: Into<String>>(
        self,
        tool: impl Into<String>,
        scopes: impl IntoIterator<Item = T>,
    ) -> Self {
        let tool = tool.into();
        let scopes: Vec<String> = scopes.into_iter().map(Into::into).collect();
        self.local.change(|registry| {
            registry.tool_scopes.insert(tool.clone(), scopes.clone());
        });
        self
    }

    /// Adds a resource. The value that the handler returns becomes the content, with the URI and type of
    /// `definition`.
    #[must_use]
    pub fn resource<I: From<UriParameters>, M>(
        self,
        definition: Resource,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Self {
        self.add_resource(definition, handler);
        self
    }

    /// Adds the resources that match a URI template.
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

    /// Adds a prompt. The server reads the arguments as the handler's input type. If `definition` names no
    /// arguments, the properties of that type become the arguments.
    #[must_use]
    pub fn prompt<I, M>(self, definition: Prompt, handler: impl Handler<I, GetPromptResult, M>) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        self.add_prompt(definition, handler);
        self
    }

    /// Adds a completion of `argument` for the prompt or resource template named `of`.
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
        self.local.change(|registry| registry.completions.push(completion.clone()));
        self
    }

    /// Wraps all handlers in `layer`, including handlers that are added later. The layer that was added last
    /// gets a call first.
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Self {
        let layer: Arc<dyn Layer> = Arc::new(layer);
        self.local.change(|registry| registry.layers.push(layer.clone()));
        self
    }

    /// Adds [a function with `#[tool]`](crate::tool) or another [`Offer`]. Replaces items of the same name.
    ///
    /// # Errors
    /// The offer is invalid, for example because of its schema.
    pub fn add(&self, offer: impl Offer) -> Result<(), RegistrationError> {
        offer.offer(self)
    }

    /// Adds a tool. Replaces a tool of the same name.
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
        self.insert(&Change::Tools, |registry| registry.tools.insert(entry.clone()));
        Ok(())
    }

    /// Adds a tool that runs as a [task](Self::task_tool). Replaces a tool of the same name.
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
        self.insert(&Change::Tools, |registry| registry.tools.insert(entry.clone()));
        Ok(())
    }

    /// Removes a tool. Returns `true` if it existed.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.take_out(&Change::Tools, |registry| registry.tools.remove(name))
    }

    /// Adds a resource. Replaces a resource with the same URI.
    pub fn add_resource<I: From<UriParameters>, M>(
        &self,
        definition: Resource,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) {
        let entry = Arc::new(ResourceEntry::new(definition, handler));
        self.insert(&Change::Resources, |registry| registry.resources.insert(entry.clone()));
    }

    /// Removes a resource. Returns `true` if it existed.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.take_out(&Change::Resources, |registry| registry.resources.remove(uri))
    }

    /// Adds the resources that match a URI template. Replaces an identical template.
    ///
    /// # Errors
    /// The template is invalid, or has expressions other than `{name}` and `{+name}`.
    pub fn add_resource_template<I: From<UriParameters>, M>(
        &self,
        definition: ResourceTemplate,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Result<(), RegistrationError> {
        let entry = Arc::new(TemplateEntry::new(definition, handler)?);
        self.insert(&Change::Resources, |registry| registry.templates.insert(entry.clone()));
        Ok(())
    }

    /// Adds a prompt. Replaces a prompt of the same name.
    pub fn add_prompt<I, M>(&self, definition: Prompt, handler: impl Handler<I, GetPromptResult, M>)
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        let entry = Arc::new(PromptEntry::new(definition, handler));
        self.insert(&Change::Prompts, |registry| registry.prompts.insert(entry.clone()));
    }

    /// Removes a prompt. Returns `true` if it existed.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.take_out(&Change::Prompts, |registry| registry.prompts.remove(name))
    }

    /// Notifies the clients that subscribed to a resource of a change of its content.
    pub fn resource_updated(&self, uri: &str) {
        self.core.announce(&Change::Resource(uri.into()));
    }

    /// Adds an entry to the registry, and announces the change.
    fn insert(&self, change: &Change, edit: impl FnMut(&mut Registry)) {
        self.local.change(edit);
        self.core.announce(change);
    }

    /// Removes an entry from the registry, and announces the change. Returns `false` if there is no such
    /// entry.
    fn take_out(&self, change: &Change, edit: impl FnMut(&mut Registry) -> bool) -> bool {
        let is_removed = self.local.change(edit);
        if is_removed {
            self.core.announce(change);
        }
        is_removed
    }
}

/// An item for [`McpServer::with`]: [a function with `#[tool]`](crate::tool), or a type that adds several
/// items that belong together.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// use thruway_mcp_server::{McpServer, Offer, RegistrationError, schema::Tool, tool};
///
/// /// Says what time zone the counter is in.
/// #[tool]
/// fn zone() -> &'static str {
///     "UTC"
/// }
///
/// struct Counter(Arc<AtomicU64>);
///
/// impl Offer for Counter {
///     fn offer(self, server: &McpServer) -> Result<(), RegistrationError> {
///         server.add(zone {})?;
///         server.add_tool(Tool::new("count"), move || self.0.fetch_add(1, Ordering::Relaxed).to_string())
///     }
/// }
///
/// let server = McpServer::new("counter", "1.0.0").with(Counter(Arc::default()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be offered",
    label = "not a tool",
    note = "`#[tool]` turns a function into a type with braces: write `.with(function_name {{}})`"
)]
pub trait Offer {
    /// Adds the items to the server, with its methods that begin with `add`.
    ///
    /// # Errors
    /// An item is invalid.
    fn offer(self, server: &McpServer) -> Result<(), RegistrationError>;
}

/// # Panics
/// Registration failed.
#[track_caller]
fn expect(outcome: Result<(), RegistrationError>) {
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("info", &self.core.info).finish_non_exhaustive()
    }
}
