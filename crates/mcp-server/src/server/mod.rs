//! A server: what it is, what it offers, and how that changes while it runs.

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
pub use changes::{Change, Subscription, Tellable};
pub use options::{LegacySessions, McpServerOptions};
pub use server_core::ServerCore;

/// An MCP server. Clones are the same server.
///
/// The methods named after what they add are for building one, and panic at mistakes; those that begin with
/// `add_` and `remove_` are for servers that run, and tell the clients that listen.
#[derive(Clone)]
pub struct McpServer {
    pub(crate) core: Arc<ServerCore>,
    /// Answers requests.
    pub(crate) backend: Arc<dyn Backend>,
    /// The handlers of this process. The backend, unless there is another one.
    local: Arc<LocalBackend>,
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

    /// Returns a server whose requests `backend` answers. Tools, resources and prompts that are added to it
    /// have no effect.
    ///
    /// # Panics
    /// The system has no random numbers.
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
    /// The arguments are read as the handler's input, whose JSON Schema is the tool's input schema unless
    /// `definition` has one; they are checked against it in any case. The output schema is that of
    /// [`Structured`](crate::Structured) content.
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

    /// Offers a tool whose calls become tasks: the client is answered at once that there is one, may go, and
    /// comes back for the result. The handler is the same as that of any other [tool](Self::tool), in four
    /// things:
    /// - what it asks with its [`Context`](crate::Context) is asked while it goes on; it is not run again;
    /// - what it reports as progress becomes the task's message, and its log messages are not sent;
    /// - it is dropped when the task is cancelled, or has had its [time](McpServerOptions::tasks), not when
    ///   the client goes;
    /// - one that is not `async` is answered at once all the same.
    ///
    /// Tasks are an extension of revision 2026-07-28 (SEP-2663). Clients that do not know it are treated as
    /// `support` says.
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

    /// Lets only callers call `tool` whose tokens have all of `scopes`. Over Streamable HTTP that takes an
    /// endpoint that [asks who they are](crate::McpEndpoint::authorize): otherwise nobody has any. Those on
    /// the standard input and output, or in this process, may do everything. The tool may be offered before
    /// or after; a name that no tool has protects nothing.
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

    /// Offers a prompt. The arguments are read as the handler's input; if `definition` names none, they are
    /// its properties.
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
        self.local.change(|registry| registry.completions.push(completion.clone()));
        self
    }

    /// Puts `layer` around all handlers, also those that are added later. The layer added last sees a call
    /// first.
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Self {
        let layer: Arc<dyn Layer> = Arc::new(layer);
        self.local.change(|registry| registry.layers.push(layer.clone()));
        self
    }

    /// Offers [a function with `#[tool]`](crate::tool), or another [`Offer`], in the place of what has the
    /// same name.
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
        self.insert(&Change::Tools, |registry| registry.tools.insert(entry.clone()));
        Ok(())
    }

    /// Offers a tool whose calls become [tasks](Self::task_tool), or another in the place of one with the
    /// same name.
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

    /// Offers a tool no longer. Whether there was such a one.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.take_out(&Change::Tools, |registry| registry.tools.remove(name))
    }

    /// Offers a resource, or another in the place of one with the same URI.
    pub fn add_resource<I: From<UriParameters>, M>(
        &self,
        definition: Resource,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) {
        let entry = Arc::new(ResourceEntry::new(definition, handler));
        self.insert(&Change::Resources, |registry| registry.resources.insert(entry.clone()));
    }

    /// Offers a resource no longer. Whether there was such a one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.take_out(&Change::Resources, |registry| registry.resources.remove(uri))
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
        self.insert(&Change::Resources, |registry| registry.templates.insert(entry.clone()));
        Ok(())
    }

    /// Offers a prompt, or another in the place of one with the same name.
    pub fn add_prompt<I, M>(&self, definition: Prompt, handler: impl Handler<I, GetPromptResult, M>)
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        let entry = Arc::new(PromptEntry::new(definition, handler));
        self.insert(&Change::Prompts, |registry| registry.prompts.insert(entry.clone()));
    }

    /// Offers a prompt no longer. Whether there was such a one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.take_out(&Change::Prompts, |registry| registry.prompts.remove(name))
    }

    /// Tells those who subscribed to a resource that its content is another now.
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

/// What a server offers by [`McpServer::with`]: [a function with `#[tool]`](crate::tool), or a type that
/// brings several things that belong together.
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
    label = "no tool",
    note = "the tool that `#[tool]` makes of a function has braces: `.with(function_name {{}})`"
)]
pub trait Offer {
    /// Offers it: with the methods of the server that begin with `add`.
    ///
    /// # Errors
    /// Something cannot be offered as it is.
    fn offer(self, server: &McpServer) -> Result<(), RegistrationError>;
}

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
        f.debug_struct("McpServer").field("info", &self.core.info).finish_non_exhaustive()
    }
}
