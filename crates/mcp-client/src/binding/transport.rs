//! Types for the state of the transports, and for the messages that they send and receive.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustix::process::Pid;
use thruway_client::{Client, ClientError, Destination};
use thruway_mcp::schema::methods;
use thruway_message::FieldLinesBuf;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::reading::Read;
use super::credentials::Credentials;

/// The transport of a client.
#[derive(Debug)]
pub(crate) enum Binding {
    /// One HTTP request for each message.
    Http(Arc<Http>),
    /// One stream for all messages, one message per line.
    Stream(Box<Stream>),
}

/// A message that the client is about to send.
#[derive(Default, Debug)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    /// The headers of the message. Only HTTP sends them.
    pub(crate) field_lines: FieldLinesBuf,
    pub(crate) purpose: Purpose,
    /// `true` if the client can fetch the answer with another request after the event stream breaks.
    pub(crate) is_resumable: bool,
    /// `true` if the message belongs to a session, which may have ended.
    pub(crate) has_session: bool,
}

/// The purpose of a message, which determines whether the client may send the message twice.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Purpose {
    /// The message may change state, so the client sends it only once.
    #[default]
    Act,
    /// The message changes no state, so the client may send it twice.
    Read,
    /// The message opens a subscription. It changes no state, and its response may stay open without limit.
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

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Received<R> {
    pub(crate) answer: Read<R>,
    /// The id of the new session, if the answer starts a session.
    pub(crate) session_id: Option<String>,
}

/// The HTTP transport to an MCP endpoint.
#[derive(Debug)]
pub(crate) struct Http {
    pub(super) client: Client,
    pub(super) url: Box<str>,
    /// Additional headers of every request.
    pub(super) fields: Vec<(String, String)>,
    /// The destinations of requests, or the error for an invalid URL. The first request returns this error.
    pub(super) endpoint: Result<Endpoint, ClientError>,
    /// The shared stream of a server that supports only HTTP with SSE.
    pub(super) stream: ArcSwapOption<OpenStream>,
    pub(super) credentials: Credentials,
}

/// The destinations of requests to an MCP endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) any: Destination,
    pub(super) post: Destination,
}

/// An open stream of HTTP with SSE.
#[derive(Debug)]
pub(crate) struct OpenStream {
    /// The URL for messages.
    pub(super) url: Box<str>,
    pub(super) destination: Destination,
    /// The task that reads the stream.
    pub(super) reading: AbortHandle,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// The client side of a stream transport. After a restart of the server, the client replaces `link`.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) link: ArcSwap<Link>,
    /// Starts the server again after it has exited. `None` if the client did not start the server.
    pub(super) origin: Option<Mutex<Origin>>,
}

/// The client side of one stream to the server.
#[derive(Debug)]
pub(super) struct Link {
    /// The queue of messages to write.
    pub(super) outbox: mpsc::Sender<Vec<u8>>,
    /// Notifies the writer that no more messages follow. Dropping the sender has the same effect.
    pub(super) closing: watch::Sender<bool>,
    /// This channel closes when all tasks of the stream have ended.
    pub(super) over: watch::Receiver<()>,
    /// `true` if no more messages can arrive from the server.
    pub(super) is_lost: AtomicBool,
}

/// Reader for the messages of the server.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;

/// Writer for the messages of the client.
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// A new stream: its reader, its writer, and its child process, if any.
pub(crate) struct StreamIo {
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) child: Option<Child>,
    pub(crate) exit_wait: Duration,
}

/// Receives each line that a child process writes to its standard error.
pub(crate) type OnStderr = Arc<dyn Fn(&str) + Send + Sync>;

/// A child process. Dropping this value kills the process, and the process group that the process leads.
pub(crate) struct Child {
    pub(super) process: tokio::process::Child,
    /// Id of the process group that the process leads. `None` if the process leads no group, or if the group
    /// has ended.
    pub(super) group: Option<Pid>,
}

/// The command of a child process, and its restart counter.
pub(crate) struct Origin {
    pub(super) command: tokio::process::Command,
    pub(super) on_stderr: Option<OnStderr>,
    pub(super) exit_wait: Duration,
    pub(super) started: Instant,
    /// Number of restarts in a row. Each restarted process exited soon after its start.
    pub(super) restarts: u32,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("restarts", &self.restarts).finish_non_exhaustive()
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.process.id()).field("group", &self.group).finish()
    }
}
