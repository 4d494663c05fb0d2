//! What can be chosen about tasks.

use std::time::Duration;

/// How the calls of a tool become tasks.
///
/// ```
/// use thruway_mcp_server::TaskSupport;
///
/// // Each call of a client that knows of tasks becomes one at once; others wait for the answer.
/// let report = TaskSupport::OPTIONAL;
/// // Others are refused, and the handler says when: it has something to ask first.
/// let purchase = TaskSupport::REQUIRED.begun_by_handler();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskSupport {
    clients: Clients,
    start: Start,
}

/// Which clients may call the tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clients {
    All,
    OnlyWithTasks,
}

/// When a call becomes a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    AtOnce,
    WhenHandlerSays,
}

impl TaskSupport {
    /// Clients that do not know of tasks wait for the answer, for as long as [any other
    /// handler](crate::McpServerOptions::handler_timeout) may take.
    pub const OPTIONAL: Self = Self { clients: Clients::All, start: Start::AtOnce };

    /// Clients that do not know of tasks are refused: the tool takes longer than anybody would wait.
    pub const REQUIRED: Self = Self { clients: Clients::OnlyWithTasks, start: Start::AtOnce };

    /// The same, where the handler says with [`Context::begin_task`](crate::Context::begin_task) when the
    /// call becomes a task. It may answer before it does.
    #[must_use]
    pub const fn begun_by_handler(self) -> Self {
        Self { start: Start::WhenHandlerSays, ..self }
    }

    pub(crate) fn is_required(self) -> bool {
        self.clients == Clients::OnlyWithTasks
    }

    pub(crate) const fn start(self) -> Start {
        self.start
    }
}

/// How long tasks may take and are kept, and how many. They are kept in memory: they do not outlive the
/// process.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// How long a task is kept from its beginning on. Default: 1 hour. Longer ones give clients more time to
    /// come back, and take up one of [`tasks_max`](Self::tasks_max) for as long.
    pub ttl: Duration,
    /// The longest time a task may take, the time that its client takes to answer questions included.
    /// Default: 30 minutes; then it fails. At most [`ttl`](Self::ttl).
    pub timeout: Duration,
    /// How often clients are told to ask. Default: 1 second. Shorter ones cost more requests, longer ones let
    /// results wait.
    pub poll_interval: Duration,
    /// Tasks kept at one time, those that are over included. Default: 1000; beyond, calls are answered with
    /// an error: none is forgotten before its time. A caller on another machine may have as many as it leaves
    /// for others: half if it is the only one.
    pub tasks_max: usize,
    /// Of these, the tasks of one caller, where the endpoint [asks who calls](crate::McpEndpoint::authorize).
    /// Default: 100.
    pub tasks_per_caller_max: usize,
    /// The longest result that is kept, in octets as JSON. Default: 4 MiB; beyond, the task fails.
    pub result_bytes_max: usize,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            ttl: Duration::from_hours(1),
            timeout: Duration::from_mins(30),
            poll_interval: Duration::from_secs(1),
            tasks_max: 1000,
            tasks_per_caller_max: 100,
            result_bytes_max: 4 << 20,
        }
    }
}
