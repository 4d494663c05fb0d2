//! Options of tasks.

use std::time::Duration;

/// The conditions under which calls of a tool become tasks.
///
/// ```
/// use thruway_mcp_server::TaskSupport;
///
/// // Calls of clients that support tasks become tasks at once. Other clients wait for the answer.
/// let report = TaskSupport::OPTIONAL;
/// // The server rejects clients that do not support tasks. The handler decides when the task begins.
/// let purchase = TaskSupport::REQUIRED.begun_by_handler();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskSupport {
    clients: Clients,
    start: Start,
}

/// The clients that may call the tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clients {
    All,
    OnlyWithTasks,
}

/// The time at which a call becomes a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    AtOnce,
    OnHandlerRequest,
}

impl TaskSupport {
    /// If a client supports tasks, its calls become tasks. Other clients wait for the answer, and the usual
    /// [handler timeout](crate::McpServerOptions::handler_timeout) applies.
    pub const OPTIONAL: Self = Self { clients: Clients::All, start: Start::AtOnce };

    /// The server rejects calls of clients that do not support tasks. Use this value for tools that take
    /// longer than a client waits for a response.
    pub const REQUIRED: Self = Self { clients: Clients::OnlyWithTasks, start: Start::AtOnce };

    /// Lets the handler decide when the call becomes a task. The handler calls
    /// [`Context::begin_task`](crate::Context::begin_task) to begin the task. The handler may also answer
    /// without a task.
    #[must_use]
    pub const fn begun_by_handler(self) -> Self {
        Self { start: Start::OnHandlerRequest, ..self }
    }

    pub(crate) fn is_required(self) -> bool {
        self.clients == Clients::OnlyWithTasks
    }

    pub(crate) const fn start(self) -> Start {
        self.start
    }
}

/// Limits on the duration, the retention time and the number of tasks. The server stores tasks in memory,
/// so all tasks end with the process.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Time from the start of a task until the server removes it. Default: 1 hour. With a longer time,
    /// clients can fetch results later, but each task counts toward [`tasks_max`](Self::tasks_max) for a
    /// longer time.
    pub ttl: Duration,
    /// Maximum duration of a task, including the time that the client takes to answer questions. Default:
    /// 30 minutes, and never longer than [`ttl`](Self::ttl). A task that takes longer fails.
    pub timeout: Duration,
    /// The interval at which clients should poll the state of a task. Default: 1 second. A shorter interval
    /// causes more requests, and a longer interval delays results.
    pub poll_interval: Duration,
    /// Maximum number of tasks, including tasks that have ended. Default: 1000. If the maximum is reached,
    /// calls that would become tasks get an error. The server never removes a task before the end of
    /// [`ttl`](Self::ttl).
    ///
    /// Each caller on another machine may have at most half as many tasks as the maximum minus the tasks of
    /// other callers. For example, a single caller may have half of the maximum.
    pub tasks_max: usize,
    /// Maximum number of tasks of one caller, if the endpoint [requires
    /// tokens](crate::McpEndpoint::authorize). Default: 100.
    pub tasks_per_caller_max: usize,
    /// Maximum size of the result of a task, in bytes of its JSON. Default: 4 MiB. A task with a larger
    /// result fails.
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
