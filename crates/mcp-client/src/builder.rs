//! A client in the making.

use std::process::Command;
use std::sync::Arc;

use thruway_client::Client;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{ClientCapabilities, InputRequest, InputResponse};
use thruway_net::{InProcessServer, PIPE_BYTES};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use super::authorization::OAuth;
use super::binding::{Binding, Ends, Http, OnStderr, Origin, Stream};
use super::client::McpClient;
use super::conversation::Conversation;
use super::error::McpClientError;
use super::handlers::{Direction, Handlers, OnLog, OnTask, ServerNotification};
use super::options::{EraChoice, McpClientOptions};
use super::party::Party;

/// A client in the making: what it may be asked and told, and last where its server is.
#[derive(Default)]
#[must_use = "a client is made by `http`, `command`, `unix_stream` or `server`"]
pub struct McpClientBuilder {
    options: McpClientOptions,
    handlers: Handlers,
    http: Option<Client>,
    fields: Vec<(String, String)>,
    oauth: Option<OAuth>,
    on_stderr: Option<OnStderr>,
}

impl McpClientBuilder {
    /// Sets all options. Capabilities are set by [`answers`](Self::answers) too: the later one counts.
    pub fn options(mut self, options: McpClientOptions) -> Self {
        self.options = options;
        self
    }

    /// Says how to speak. Default: as the server does.
    pub const fn era(mut self, era: EraChoice) -> Self {
        self.options.era = era;
        self
    }

    /// Lets the server ask what `capabilities` say. Questions of either era go to `answer`, which makes the
    /// answer of the same kind, or an error that ends the call.
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

    /// Tells `notify` what the server says by itself, progress apart. It must be quick: nothing is read
    /// meanwhile.
    pub fn on_notification(mut self, notify: impl Fn(ServerNotification) + Send + Sync + 'static) -> Self {
        self.handlers.notify = Some(Arc::new(notify));
        self
    }

    /// Shows `trace` each message as it is sent or has arrived. It must be quick.
    pub fn on_message(mut self, trace: impl Fn(Direction, &[u8]) + Send + Sync + 'static) -> Self {
        self.handlers.trace = Some(Arc::new(trace));
        self
    }

    /// Lets the server ask `party` what belongs to no request.
    pub fn answers_by(mut self, party: Arc<dyn Party>) -> Self {
        self.handlers.party = Some(party);
        self
    }

    /// Shows `on_task` how tasks of 2025-11-25 stand, and the progress of those whose token is a string: it
    /// goes on when the call has been answered. It must be quick.
    pub fn on_task(mut self, on_task: OnTask) -> Self {
        self.handlers.tasks = Some(on_task);
        self
    }

    /// Passes log messages that belong to no party to `on_log`, as they were sent. It must be quick.
    pub fn on_log(mut self, on_log: OnLog) -> Self {
        self.handlers.logs = Some(on_log);
        self
    }

    /// Declares that several clients of a bridge share this client: none of them may stop the others by not
    /// reading.
    pub const fn shared_by_clients(mut self) -> Self {
        self.handlers.is_shared = true;
        self
    }

    /// Sends requests of HTTP through `client`: with other limits, or to a Unix socket.
    pub fn http_client(mut self, client: Client) -> Self {
        self.http = Some(client);
        self
    }

    /// Adds a header to every request of HTTP, such as `Authorization`.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Gets tokens from the authorization servers of the server, when it wants them, and sends them to it.
    /// Without this, there is [`field`](Self::field) for a token that is known.
    pub fn oauth(mut self, oauth: OAuth) -> Self {
        self.oauth = Some(oauth);
        self
    }

    /// Tells `on_stderr` each line that a child process writes to its standard error. Default: it goes where
    /// the command says, which is where ours goes.
    pub fn on_stderr(mut self, on_stderr: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(on_stderr));
        self
    }

    /// A client of the MCP endpoint at `url`. Nothing is sent before the first call.
    ///
    /// # Panics
    /// There is no tokio runtime around.
    pub fn http(mut self, url: &str) -> McpClient {
        let client = self.http.take().unwrap_or_default();
        let http = Http::new(client, url, std::mem::take(&mut self.fields), self.oauth.take());
        self.client(Binding::Http(Arc::new(http)))
    }

    /// A client of the server that `command` starts, over its standard input and output. The child is started
    /// at once, and again if it dies; what was sent to one that has died is sent again if it only reads.
    ///
    /// # Errors
    /// It cannot be started.
    ///
    /// # Panics
    /// There is no tokio runtime around.
    pub fn command(mut self, command: Command) -> Result<McpClient, McpClientError> {
        let (origin, ends) = Origin::start(command, self.on_stderr.take(), self.options.exit_wait)
            .map_err(|error| McpClientError::Start(error.kind()))?;
        Ok(self.on_stream(ends, Some(origin)))
    }

    /// A client of the server at the other end of a Unix domain socket, one message a line.
    ///
    /// # Panics
    /// There is no tokio runtime around.
    pub fn unix_stream(self, stream: UnixStream) -> McpClient {
        let (input, output) = tokio::io::split(stream);
        self.on_streams(input, output)
    }

    /// A client of a server in the same process, without a port or a pipe.
    ///
    /// # Panics
    /// There is no tokio runtime around.
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
        let ends = Ends { input: Box::new(input), output: Box::new(output), child: None, exit_wait };
        self.on_stream(ends, None)
    }

    fn on_stream(self, ends: Ends, origin: Option<Origin>) -> McpClient {
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
