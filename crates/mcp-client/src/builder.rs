//! The builder of clients.

use std::process::Command;
use std::sync::Arc;

use thruway_client::Client;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{ClientCapabilities, InputRequest, InputResponse};
use thruway_net::{InProcessServer, PIPE_BYTES};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use super::authorization::{OAuth, TokenSource};
use super::binding::{Binding, Credentials, Http, OnStderr, Origin, Stream, StreamIo};
use super::client::McpClient;
use super::conversation::Conversation;
use super::error::McpClientError;
use super::handlers::{Direction, Handlers, OnLog, OnTask, ServerNotification};
use super::options::{EraChoice, McpClientOptions};
use super::requester::Requester;

/// Configures an MCP client. The final call, such as [`http`](Self::http), names the server and creates the
/// client.
///
/// ```no_run
/// use thruway_mcp_client::{EraChoice, McpClient};
///
/// let client = McpClient::builder()
///     .era(EraChoice::Modern)
///     .field("Authorization", "Bearer secret")
///     .on_notification(|notification| println!("{notification:?}"))
///     .http("https://mcp.example/mcp");
/// # let _ = client;
/// ```
#[derive(Default)]
#[must_use = "call `http`, `command`, `unix_stream` or `server` to create the client"]
pub struct McpClientBuilder {
    options: McpClientOptions,
    handlers: Handlers,
    http: Option<Client>,
    fields: Vec<(String, String)>,
    oauth: Option<OAuth>,
    token_source: Option<Arc<dyn TokenSource>>,
    on_stderr: Option<OnStderr>,
}

impl McpClientBuilder {
    /// Replaces all options, including the capabilities from an earlier call of [`answers`](Self::answers).
    /// A later call of `answers` replaces the capabilities in `options`.
    pub fn options(mut self, options: McpClientOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the protocol era or the protocol revision to use. Default: [`EraChoice::Auto`].
    pub const fn era(mut self, era: EraChoice) -> Self {
        self.options.era = era;
        self
    }

    /// Declares `capabilities` to the server, and calls `answer` with each elicitation, sampling or roots
    /// request of the server. `answer` returns a response of the same kind as the request, or an error. In
    /// the modern era, the error makes the call fail. In the legacy era, the client sends the error to the
    /// server.
    pub fn answers<F>(
        mut self,
        capabilities: ClientCapabilities,
        answer: impl Fn(InputRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<InputResponse, Error>> + Send + 'static,
    {
        self.options.capabilities = capabilities;
        self.handlers.answer = Some(Arc::new(move |question| Box::pin(answer(question))));
        self
    }

    /// Calls `notify` with each notification of the server, except for progress reports. `notify` must
    /// return quickly, because the client reads no messages while `notify` runs.
    pub fn on_notification(mut self, notify: impl Fn(ServerNotification) + Send + Sync + 'static) -> Self {
        self.handlers.notify = Some(Arc::new(notify));
        self
    }

    /// Calls `trace` with each message that the client sends or receives. `trace` must return quickly.
    pub fn on_message(mut self, trace: impl Fn(Direction, &[u8]) + Send + Sync + 'static) -> Self {
        self.handlers.trace = Some(Arc::new(trace));
        self
    }

    /// Lets `requester` answer the elicitation, sampling and roots requests of the server that the client
    /// cannot assign to a forwarded request.
    pub fn answers_by(mut self, requester: Arc<dyn Requester>) -> Self {
        self.handlers.requester = Some(requester);
        self
    }

    /// Calls `on_task` with each task status notification (MCP revision 2025-11-25). Also calls `on_task`
    /// with each progress report whose token is a string, because such reports can arrive even after the
    /// answer to the call. `on_task` must return quickly.
    pub fn on_task(mut self, on_task: OnTask) -> Self {
        self.handlers.tasks = Some(on_task);
        self
    }

    /// Calls `on_log` with each log message that the client cannot assign to one client of the bridge.
    /// `on_log` receives the message unparsed, and must return quickly.
    pub fn on_log(mut self, on_log: OnLog) -> Self {
        self.handlers.logs = Some(on_log);
        self
    }

    /// Declares that several clients of a bridge share this client. This client then limits the time for
    /// which it waits for a client of the bridge that does not read its messages.
    pub const fn shared_by_clients(mut self) -> Self {
        self.handlers.is_shared = true;
        self
    }

    /// Sends HTTP requests through `client`, for example with other limits or to a Unix socket.
    pub fn http_client(mut self, client: Client) -> Self {
        self.http = Some(client);
        self
    }

    /// Adds a header, such as `Authorization`, to every HTTP request.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Lets the client obtain an access token when the server requires one, and send the token with its
    /// requests. To send a token that you already have, use [`field`](Self::field).
    pub fn oauth(mut self, oauth: OAuth) -> Self {
        self.oauth = Some(oauth);
        self
    }

    /// Sends a token of `token_source` with each HTTP request. If the server refuses a token with status 401, the
    /// client sends the request once more with the next token. Replaces [`oauth`](Self::oauth).
    pub fn token_source(mut self, token_source: Arc<dyn TokenSource>) -> Self {
        self.token_source = Some(token_source);
        self
    }

    /// Calls `on_stderr` with each line that a child process writes to its standard error. Without this
    /// callback, the `stderr` setting of the command applies. If the command has no such setting, the child
    /// process inherits the standard error of this process.
    pub fn on_stderr(mut self, on_stderr: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(on_stderr));
        self
    }

    /// Creates a client of the MCP endpoint at `url`. The client sends no request before the first call.
    ///
    /// # Panics
    /// Panics if the caller is outside a tokio runtime.
    pub fn http(mut self, url: &str) -> McpClient {
        let client = self.http.take().unwrap_or_default();
        let credentials = Credentials::of(self.token_source.take(), self.oauth.take(), url);
        let http = Http::new(client, url, std::mem::take(&mut self.fields), credentials);
        self.client(Binding::Http(Arc::new(http)))
    }

    /// Starts `command` and creates a client over the standard input and output of the child process. The
    /// client starts the child process at once, and starts it again after it has exited. After a restart,
    /// the client repeats only requests that are safe to repeat.
    ///
    /// If `command` puts the child process into a process group of its own (`process_group(0)`), the client
    /// ends the whole group, for example a shell and the server that the shell has started.
    ///
    /// # Errors
    /// The child process cannot be started.
    ///
    /// # Panics
    /// Panics if the caller is outside a tokio runtime.
    pub fn command(mut self, command: Command) -> Result<McpClient, McpClientError> {
        let (origin, ends) = Origin::start(command, self.on_stderr.take(), self.options.exit_wait)
            .map_err(|error| McpClientError::Start(error.kind()))?;
        Ok(self.on_stream(ends, Some(origin)))
    }

    /// Creates a client of the server at the other end of a Unix domain socket. Each line on the socket is
    /// one message.
    ///
    /// # Panics
    /// Panics if the caller is outside a tokio runtime.
    pub fn unix_stream(self, stream: UnixStream) -> McpClient {
        let (input, output) = tokio::io::split(stream);
        self.on_streams(input, output)
    }

    /// Creates a client of a server in the same process. The messages stay in memory and use no socket or
    /// pipe of the operating system.
    ///
    /// # Panics
    /// Panics if the caller is outside a tokio runtime.
    pub fn server(self, server: &impl InProcessServer) -> McpClient {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        server.serve_pipe(far);
        let (input, output) = tokio::io::split(near);
        self.on_streams(input, output)
    }

    fn on_streams(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> McpClient {
        let exit_wait = self.options.exit_wait;
        let ends = StreamIo { input: Box::new(input), output: Box::new(output), child: None, exit_wait };
        self.on_stream(ends, None)
    }

    fn on_stream(self, ends: StreamIo, origin: Option<Origin>) -> McpClient {
        let (stream, unstarted) = Stream::new(ends, origin);
        let client = self.client(Binding::Stream(Box::new(stream)));
        unstarted.start(&client.conversation);
        client
    }

    fn client(self, binding: Binding) -> McpClient {
        let Self { options, handlers, .. } = self;
        McpClient::of(&Conversation::new(options, binding, handlers, Handle::current()))
    }
}

impl std::fmt::Debug for McpClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpClientBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
