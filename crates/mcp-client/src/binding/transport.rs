//! The state of the bindings, and messages on their way.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use thruway_client::{Client, ClientError, Destination};
use thruway_mcp::schema::methods;
use thruway_message::FieldLinesBuf;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::authorization::Authorizer;
use super::super::reading::Read;

/// Where messages go.
#[derive(Debug)]
pub(crate) enum Binding {
    /// Each by a request of HTTP.
    Http(Arc<Http>),
    /// All on one stream, one a line.
    Stream(Box<Stream>),
}

/// A message on its way.
#[derive(Default, Debug)]
pub(crate) struct Outgoing {
    pub(crate) octets: Vec<u8>,
    /// Its headers, where there are headers.
    pub(crate) field_lines: FieldLinesBuf,
    pub(crate) purpose: Purpose,
    /// Whether the answer can be had by a further request, if its stream breaks.
    pub(crate) is_resumable: bool,
    /// Whether it belongs to a session, which may have ended.
    pub(crate) has_session: bool,
}

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Purpose {
    /// It may change something, so that it is sent once.
    #[default]
    Act,
    /// It changes nothing, so that it may be sent twice.
    Read,
    /// It changes nothing, and may take for ever until there is something to say.
    Subscribe,
}

impl Purpose {
    pub(crate) fn of_method(method: &str) -> Self {
        match method {
            methods::SUBSCRIPTIONS_LISTEN => Self::Subscribe,
            methods::PING
            | methods::SERVER_DISCOVER
            | methods::TOOLS_LIST
            | methods::RESOURCES_LIST
            | methods::RESOURCES_TEMPLATES_LIST
            | methods::RESOURCES_READ
            | methods::RESOURCES_SUBSCRIBE
            | methods::RESOURCES_UNSUBSCRIBE
            | methods::PROMPTS_LIST
            | methods::PROMPTS_GET
            | methods::COMPLETION_COMPLETE
            | methods::LOGGING_SET_LEVEL
            | methods::TASKS_GET
            | methods::TASKS_LIST
            | methods::TASKS_RESULT => Self::Read,
            _ => Self::Act,
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Received<R> {
    pub(crate) answer: Read<R>,
    /// The session that it has begun.
    pub(crate) session_id: Option<String>,
}

/// An MCP endpoint.
#[derive(Debug)]
pub(crate) struct Http {
    pub(super) client: Client,
    pub(super) url: Box<str>,
    /// What every request has besides.
    pub(super) fields: Vec<(String, String)>,
    /// Where requests go, and those that bring a message; why they cannot is said when there is one.
    pub(super) endpoint: Result<Endpoint, ClientError>,
    /// The stream that brings everything, from a server that knows no other binding.
    pub(super) stream: ArcSwapOption<OpenStream>,
    pub(super) authorizer: Option<Arc<Authorizer>>,
}

/// An MCP endpoint, ready for requests.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) any: Destination,
    pub(super) post: Destination,
}

/// A stream that is open.
#[derive(Debug)]
pub(crate) struct OpenStream {
    /// Where messages go.
    pub(super) url: Box<str>,
    pub(super) destination: Destination,
    /// The task that reads it.
    pub(super) reading: AbortHandle,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// The near end of a stream, or of one after another if the other end can be started again.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) link: ArcSwap<Link>,
    /// What starts the other end again.
    pub(super) origin: Option<Mutex<Origin>>,
}

/// The near end of one stream.
#[derive(Debug)]
pub(super) struct Link {
    /// Messages to be written.
    pub(super) outbox: mpsc::Sender<Vec<u8>>,
    /// Tells the writer that there will be no more; so does dropping it.
    pub(super) closing: watch::Sender<bool>,
    /// Whether all is over: closed when it is.
    pub(super) over: watch::Receiver<()>,
    /// Whether nothing comes from the other end any more.
    pub(super) is_lost: AtomicBool,
}

/// Messages of the server.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;

/// Messages of the client.
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Both directions, before anything is sent.
pub(crate) struct Ends {
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) child: Option<Child>,
    pub(crate) exit_wait: Duration,
}

/// Is told each line of what a child process writes to its standard error.
pub(crate) type OnStderr = Arc<dyn Fn(&str) + Send + Sync>;

/// A child process. It is killed if nobody has seen it out.
pub(crate) struct Child {
    pub(super) process: tokio::process::Child,
}

/// How a child is started, and how often it was.
pub(crate) struct Origin {
    pub(super) command: tokio::process::Command,
    pub(super) on_stderr: Option<OnStderr>,
    pub(super) exit_wait: Duration,
    pub(super) started: Instant,
    /// How often it was started again without having lived for long.
    pub(super) restarts: u32,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("restarts", &self.restarts).finish_non_exhaustive()
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.process.id()).finish()
    }
}
