//! MCP servers: construction, registration of tools, resources and prompts, and changes at run time.

mod changes;
mod change_sharing;
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
use crate::session::ItemName;
use crate::tasks::TaskSupport;

pub use change_sharing::{ChangeSharing, SharedChanges};
pub(crate) use changes::Changes;
pub use changes::{Change, ChangeKey, Subscription};
pub use options::{LegacySessions, McpServerOptions};
pub use server_core::ServerCore;

/// An MCP server. Clones refer to the same server.
///
/// Use methods such as [`tool`](Self::tool) and [`resource`](Self::resource) to build a server. They panic if
/// an item is invalid. Use the methods `add_*` and `remove_*` while the server runs. They notify the
/// subscribed clients.
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
    /// The handlers of this process. Unused if the application provides another backend.
    local: Arc<LocalBackend>,
}

impl McpServer {
    /// Returns a server with this name and version, and without tools, resources and prompts.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::with_options(Implementation::new(name, version), McpServerOptions::default())
    }

    /// Returns a server with the name, the version and other details in `info`, and with these options.
    ///
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub fn with_options(info: Implementation, options: McpServerOptions) -> Self {
        Self::build(info, options, None)
    }

    /// Returns a server that gets its answers from `backend`. Tools, resources and prompts that the
    /// application adds to this server have no effect.
    ///
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub fn with_backend(info: Implementation, options: McpServerOptions, backend: Arc<dyn Backend>) -> Self {
        Self::build(info, options, Some(backend))
    }

    /// Returns the state of the server that backends can use.
    pub const fn core(&self) -> &Arc<ServerCore> {
        &self.core
    }

    fn build(info: Implementation, options: McpServerOptions, backend: Option<Arc<dyn Backend>>) -> Self {
        let local = Arc::<LocalBackend>::default();
        let backend = backend.unwrap_or_else(|| local.clone());
        Self { core: Arc::new(ServerCore::new(info, options)), backend, local }
    }

    /// Adds a function with [`#[tool]`](crate::tool), [`#[prompt]`](crate::prompt) or
    /// [`#[resource]`](crate::resource), [a value with such methods](crate::offer), or another
    /// [`Offer`].
    ///
    /// # Panics
    /// Panics if the offer is invalid, for example because of an invalid schema.
    #[must_use]
    pub fn with(self, offer: impl Offer) -> Self {
        expect(self.add(offer));
        self
    }

    /// Adds a tool.
    ///
    /// The server checks the arguments against the input schema, and deserializes them to the handler's input
    /// type. If `definition` has no input schema, the server generates it from the input type. If
    /// `definition` has no output schema, the server generates it from the type in
    /// [`Structured`](crate::Structured), if the handler returns this type.
    ///
    /// # Panics
    /// Panics if a schema is invalid.
    #[must_use]
    pub fn tool<I, M>(self, definition: Tool, handler: impl Handler<I, CallToolResult, M>) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        expect(self.add_tool(definition, handler));
        self
    }

    /// Adds a tool that runs as a task: the server answers each call at once with a task id. The client may
    /// disconnect, and fetch the result later. The handler of such a tool differs from the handler of any
    /// other [tool](Self::tool) in four points:
    /// - Questions that the handler asks with its [`Context`](crate::Context) do not interrupt the handler.
    ///   The handler does not run again after an answer.
    /// - The handler's progress reports become the message of the task. The server does not send the
    ///   handler's log messages.
    /// - The server drops the handler when the client cancels the task or the [time
    ///   limit](McpServerOptions::tasks) passes, not when the client disconnects.
    /// - If the handler is not `async`, the server answers at once, without a task.
    ///
    /// Tasks are an extension of MCP revision 2026-07-28 (SEP-2663). `support` selects what happens if a
    /// client does not support this extension: either the tool runs without a task, or the call gets an
    /// error.
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
    /// Panics if a schema is invalid.
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

    /// Rejects calls of `tool` if the caller's token does not grant all of `scopes`.
    ///
    /// Over HTTP, only an endpoint with [authorization](crate::McpEndpoint::authorize) gives scopes to
    /// callers. Without authorization, the endpoint rejects all calls of `tool`. Callers over stdio or in
    /// this process have all scopes. The application may add the tool before or after this call.
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

    /// Adds a resource with the URI and the media type in `definition`. The handler returns the content of
    /// the resource.
    #[must_use]
    pub fn resource<I: From<UriParameters>, M>(
        self,
        definition: Resource,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Self {
        self.add_resource(definition, handler);
        self
    }

    /// Adds a resource template. If a client reads a resource with a URI that matches the template, the
    /// server calls the handler.
    ///
    /// # Panics
    /// Panics if the template is invalid, or has expressions other than `{name}` and `{+name}`.
    #[must_use]
    pub fn resource_template<I: From<UriParameters>, M>(
        self,
        definition: ResourceTemplate,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Self {
        expect(self.add_resource_template(definition, handler));
        self
    }

    /// Adds a prompt. The server deserializes the arguments to the handler's input type. If `definition`
    /// lists no arguments, the server generates the list from the properties of the input type.
    #[must_use]
    pub fn prompt<I, M>(self, definition: Prompt, handler: impl Handler<I, GetPromptResult, M>) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        self.add_prompt(definition, handler);
        self
    }

    /// Adds a handler that completes `argument` of a prompt or a resource template. `of` is the name of the
    /// prompt, or the URI template.
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

    /// Adds a layer around all handlers, including handlers that are added later. The last added layer gets
    /// each call first.
    #[must_use]
    pub fn layer(self, layer: impl Layer) -> Self {
        let layer: Arc<dyn Layer> = Arc::new(layer);
        self.local.change(|registry| registry.layers.push(layer.clone()));
        self
    }

    /// Hides the tool `name` from all clients, except in sessions that
    /// [show](crate::ClientSession::show_tool) it. Clients without a session, such as clients of MCP revision
    /// 2026-07-28, cannot list and call the tool. The application may add the tool before or after this call.
    #[must_use]
    pub fn hide_tool(self, name: impl Into<String>) -> Self {
        self.hide(&ItemName::Tool(name.into()));
        self
    }

    /// Hides the prompt `name` from all clients, except in sessions that
    /// [show](crate::ClientSession::show_prompt) it, as [`hide_tool`](Self::hide_tool).
    #[must_use]
    pub fn hide_prompt(self, name: impl Into<String>) -> Self {
        self.hide(&ItemName::Prompt(name.into()));
        self
    }

    /// Hides a resource or a resource template from all clients, except in sessions that
    /// [show](crate::ClientSession::show_resource) it, as [`hide_tool`](Self::hide_tool). `uri` is the URI or
    /// the URI template.
    #[must_use]
    pub fn hide_resource(self, uri: impl Into<String>) -> Self {
        self.hide(&ItemName::Resource(uri.into()));
        self
    }

    fn hide(&self, name: &ItemName) {
        self.insert(&name.list(), |registry| registry.hide(name));
    }

    /// Adds a function with [`#[tool]`](crate::tool), [`#[prompt]`](crate::prompt) or
    /// [`#[resource]`](crate::resource), [a value with such methods](crate::offer), or another
    /// [`Offer`]. Replaces existing items that have the same names as the new items.
    ///
    /// # Errors
    /// Returns an error if the offer is invalid, for example because of an invalid schema.
    pub fn add(&self, offer: impl Offer) -> Result<(), RegistrationError> {
        offer.offer(self)
    }

    /// Adds a tool, or replaces the tool with the same name.
    ///
    /// # Errors
    /// Returns an error if a schema is invalid.
    pub fn add_tool<I, M>(
        &self,
        definition: Tool,
        handler: impl Handler<I, CallToolResult, M>,
    ) -> Result<(), RegistrationError>
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        let entry = Arc::new(ToolEntry::new(definition, handler)?);
        self.insert(&Change::Tools, |registry| registry.insert_tool(entry.clone()));
        Ok(())
    }

    /// Adds a tool that runs as a [task](Self::task_tool), or replaces the tool with the same name.
    ///
    /// # Errors
    /// Returns an error if a schema is invalid.
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
        self.insert(&Change::Tools, |registry| registry.insert_tool(entry.clone()));
        Ok(())
    }

    /// Removes the tool `name`. Returns `true` if the server had this tool.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.take_out(&Change::Tools, |registry| {
            registry.tools.remove(name) | registry.hidden.tools.remove(name)
        })
    }

    /// Adds a resource, or replaces the resource with the same URI.
    pub fn add_resource<I: From<UriParameters>, M>(
        &self,
        definition: Resource,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) {
        let entry = Arc::new(ResourceEntry::new(definition, handler));
        self.insert(&Change::Resources, |registry| registry.insert_resource(entry.clone()));
    }

    /// Removes the resource at `uri`. Returns `true` if the server had this resource.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.take_out(&Change::Resources, |registry| {
            registry.resources.remove(uri) | registry.hidden.resources.remove(uri)
        })
    }

    /// Adds a resource template, or replaces the template with the same text. If a client reads a resource
    /// with a URI that matches the template, the server calls the handler.
    ///
    /// # Errors
    /// Returns an error if the template is invalid, or has expressions other than `{name}` and `{+name}`.
    pub fn add_resource_template<I: From<UriParameters>, M>(
        &self,
        definition: ResourceTemplate,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Result<(), RegistrationError> {
        let entry = Arc::new(TemplateEntry::new(definition, handler)?);
        self.insert(&Change::Resources, |registry| registry.insert_template(entry.clone()));
        Ok(())
    }

    /// Adds a prompt, or replaces the prompt with the same name.
    pub fn add_prompt<I, M>(&self, definition: Prompt, handler: impl Handler<I, GetPromptResult, M>)
    where
        I: DeserializeOwned + JsonSchema + 'static,
    {
        let entry = Arc::new(PromptEntry::new(definition, handler));
        self.insert(&Change::Prompts, |registry| registry.insert_prompt(entry.clone()));
    }

    /// Removes the prompt `name`. Returns `true` if the server had this prompt.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.take_out(&Change::Prompts, |registry| {
            registry.prompts.remove(name) | registry.hidden.prompts.remove(name)
        })
    }

    /// Notifies all clients that subscribed to the resource at `uri`. Call this method when the content of
    /// the resource has changed.
    pub fn resource_updated(&self, uri: &str) {
        self.core.announce_and_share(&Change::Resource(uri.into()));
    }

    /// Shares later changes with the other replicas of this server, and notifies clients about their changes. Call this
    /// method after the application has added the items that every replica has from the start. Only the first call has
    /// an effect.
    pub fn share_changes(&self, sharing: &ChangeSharing) {
        if self.core.sharing.set(sharing.clone()).is_ok() {
            let (core, backend) = (Arc::downgrade(&self.core), Arc::downgrade(&self.backend));
            sharing.add_receiver(move |changes| {
                let (Some(core), Some(backend)) = (core.upgrade(), backend.upgrade()) else { return false };
                backend.note_shared_changes(changes);
                core.announce_changes_of_others(changes, backend.may_share_resources());
                true
            });
        }
    }

    /// Changes the registry, and announces the change to subscribed clients.
    fn insert(&self, change: &Change, edit: impl FnMut(&mut Registry)) {
        self.local.change(edit);
        self.core.announce_and_share(change);
    }

    /// Removes an entry from the registry, and announces the change to subscribed clients. Returns `false`
    /// if the registry has no such entry.
    fn take_out(&self, change: &Change, edit: impl FnMut(&mut Registry) -> bool) -> bool {
        let is_removed = self.local.change(edit);
        if is_removed {
            self.core.announce_and_share(change);
        }
        is_removed
    }
}

/// One or several items that [`McpServer::with`] adds to a server. [A function with `#[tool]`](crate::tool)
/// is an offer. [`#[offer]`](crate::offer) on an `impl` block implements the trait for a type with methods
/// that share state. The trait can also be implemented by hand, for example to choose the items at run time:
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// use thruway_mcp_server::{McpServer, Offer, RegistrationError, schema::Tool, tool};
///
/// /// Returns the time zone of the counter.
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
    label = "not a tool, prompt or resource",
    note = "`#[tool]`, `#[prompt]` and `#[resource]` turn a function into a type with braces: write \
            `.with(function_name {{}})`",
    note = "for a type with methods, write `#[offer]` above its `impl` block and `#[tool]`, `#[prompt]` or \
            `#[resource]` above its methods"
)]
pub trait Offer {
    /// Adds the items to `server`. An implementation calls methods such as [`McpServer::add_tool`].
    ///
    /// # Errors
    /// Returns an error if an item is invalid.
    fn offer(self, server: &McpServer) -> Result<(), RegistrationError>;
}

/// # Panics
/// Panics if the registration failed.
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
