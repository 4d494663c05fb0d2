//! Stores the tasks that a bridge tracks (MCP revision 2025-11-25).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Notification, write_notification};
use thruway_mcp::params::{self, meta_keys};
use thruway_mcp::schema::{ProgressNotificationParams, RequestId, methods};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, Unsent};
use thruway_mcp_server::backend::{Holder, InterimMessage, LimitReached, Session, Share, Shares};
use thruway_net::unguessable_id;
use tokio::time::Instant;

use super::fields::TaskFields;
use super::json::{RELATED_ID, TASK_ID, TaskIdTranslator, replaced, string_at};
use crate::bridge::messages::one_line;
use crate::bridge::outbox::{Outbox, WeakOutbox};
use crate::bridge::upstream::Upstream;

/// The tasks that a bridge tracks.
#[derive(Debug)]
pub(crate) struct Tasks {
    state: Mutex<State>,
    capacity: Arc<Shares>,
    of_client_max: usize,
    /// The prefix of all task ids that clients get. Empty for a bridge.
    prefix: Box<str>,
}

/// A guard that owns the tasks of a session. Dropping the guard cancels these tasks.
#[derive(Debug)]
pub(crate) struct TasksOfSession {
    tasks: Arc<Tasks>,
    owner: TaskOwner,
    /// `true` if the server supports the cancellation of tasks.
    can_cancel: bool,
}

/// The maximum numbers of tasks that a bridge tracks.
#[derive(Clone, Copy, Debug)]
pub(in crate::bridge) struct TasksMax {
    pub(in crate::bridge) all: usize,
    pub(in crate::bridge) of_client: usize,
}

#[derive(Default, Debug)]
struct State {
    /// The tracked tasks. The key is the task id that the client knows.
    kept: HashMap<Box<str>, TaskEntry>,
    /// The task ids that clients know, by connection id and by the server's task id.
    client_ids: HashMap<(u64, Box<str>), Box<str>>,
    last: u64,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct TaskEntry {
    owner: TaskOwner,
    sink: TaskMessageSink,
    server: Weak<Upstream>,
    connection_id: u64,
    /// Number of server exits before the task began. If the server exits again, the task is lost.
    connection_losses: u64,
    /// The server's id of the task. `None` until the server has answered the call with a task.
    server_id: Option<Box<str>>,
    /// Sequential number of the task. The oldest task has the lowest number.
    number: u64,
    began: Instant,
    until: Option<Instant>,
    is_over: bool,
    _share: Share,
}

/// A task that exists at the server.
#[derive(Debug)]
pub(in crate::bridge) struct Found {
    pub(in crate::bridge) upstream: Arc<Upstream>,
    /// The server's id of the task.
    pub(in crate::bridge) id: Box<str>,
    connection_losses: u64,
}

/// A reserved entry for a call that the server may run as a task. If the server does not create a task,
/// dropping this value removes the entry.
#[derive(Debug)]
pub(in crate::bridge) struct Reserved {
    tasks: Arc<Tasks>,
    /// The client's id of the task.
    pub(in crate::bridge) id: Box<str>,
}

impl TasksOfSession {
    pub(in crate::bridge) const fn new(tasks: Arc<Tasks>, session_id: u64, can_cancel: bool) -> Self {
        Self { tasks, owner: TaskOwner::Session(session_id), can_cancel }
    }

    pub(in crate::bridge) const fn owner(&self) -> &TaskOwner {
        &self.owner
    }
}

impl Drop for TasksOfSession {
    /// Cancels the tasks, because no other session can fetch their results.
    fn drop(&mut self) {
        let working = self.tasks.remove_all_of(&self.owner).into_iter().filter(|_| self.can_cancel);
        working.for_each(|task| task.upstream.client.cancel_task_in_background(task.id));
    }
}

impl TaskEntry {
    /// Returns the connection to the server. Returns `None` if the server process that ran the task has
    /// exited.
    fn server(&self) -> Option<Arc<Upstream>> {
        let server = self.server.upgrade()?;
        (!server.is_closed() && server.client.connection_losses() == self.connection_losses).then_some(server)
    }

    fn into_found(self) -> Option<Found> {
        Some(Found {
            upstream: self.server()?,
            id: self.server_id?,
            connection_losses: self.connection_losses,
        })
    }

    fn note(&mut self, fields: &TaskFields) {
        self.is_over |= fields.is_over();
        self.until = fields.ttl().and_then(|ttl| self.began.checked_add(ttl));
    }

    /// Returns `true` if the task has ended, or if its server process has exited.
    fn is_past(&self) -> bool {
        self.is_over || (self.server_id.is_some() && self.server().is_none())
    }

    fn is_overdue(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl Found {
    /// Checks that the server process with the task still runs.
    ///
    /// # Errors
    /// The server process has exited. A new process may use the same id for another task.
    pub(in crate::bridge) fn check(&self) -> Result<(), McpClientError> {
        let is_there =
            !self.upstream.is_closed() && self.upstream.client.connection_losses() == self.connection_losses;
        if is_there { Ok(()) } else { Err(McpClientError::Server(lost())) }
    }
}

impl State {
    fn remove(&mut self, id: &str) -> Option<TaskEntry> {
        let kept = self.kept.remove(id)?;
        if let Some(server_id) = &kept.server_id {
            let key = (kept.connection_id, server_id.clone());
            if self.client_ids.get(&key).is_some_and(|name| **name == *id) {
                self.client_ids.remove(&key);
            }
        }
        Some(kept)
    }

    fn remove_all(&mut self, is_gone: impl Fn(&TaskEntry) -> bool) -> Vec<TaskEntry> {
        let gone = self.kept.iter().filter(|(_, kept)| is_gone(kept)).map(|(id, _)| id.clone());
        let gone: Vec<_> = gone.collect();
        gone.iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Removes expired tasks, unless the previous removal was less than [`SWEEP_PAUSE`] ago.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_none_or(|swept| now - swept >= SWEEP_PAUSE) {
            self.swept = Some(now);
            self.remove_all(|kept| kept.is_overdue(now));
        }
    }

    /// Returns the number of tasks of `owner`. If the bridge tracks fewer than `max` tasks, returns the
    /// number of all tasks instead. This is an upper bound below `max`, and needs no search.
    fn count_of(&self, owner: &TaskOwner, max: usize) -> usize {
        let all = self.kept.len();
        if all < max { all } else { self.kept.values().filter(|kept| kept.owner == *owner).count() }
    }

    /// Removes the oldest finished task of `owner`. Returns `false` if `owner` has no finished task.
    fn forget_past(&mut self, owner: &TaskOwner) -> bool {
        let over = self.kept.iter().filter(|(_, kept)| kept.owner == *owner && kept.is_past());
        let oldest = over.min_by_key(|(_, kept)| kept.number).map(|(id, _)| id.clone());
        oldest.and_then(|id| self.remove(&id)).is_some()
    }
}

impl Tasks {
    pub(in crate::bridge) fn new(max: TasksMax, prefix: Box<str>) -> Arc<Self> {
        let capacity = Shares::new(max.all);
        Arc::new(Self { state: Mutex::default(), capacity, of_client_max: max.of_client, prefix })
    }

    /// Returns the number of tasks that exist at the server.
    pub(in crate::bridge) fn count(&self) -> usize {
        self.state().client_ids.len()
    }

    /// Reserves an entry for a call that the server `upstream` may run as a task. The session `owner` sends
    /// this call. The entry counts toward the per-caller limit of `holder`. If a limit is reached, the oldest
    /// finished task of `owner` is removed.
    ///
    /// # Errors
    /// All callers together, the caller `holder` or the session `owner` have too many tasks in progress.
    pub(super) fn reserve(
        self: &Arc<Self>,
        (owner, holder): (TaskOwner, &Holder),
        upstream: &Arc<Upstream>,
        sink: TaskMessageSink,
    ) -> Result<Arc<Reserved>, Error> {
        let now = Instant::now();
        let mut state = self.state();
        state.sweep(now);
        let share = self.reserve_capacity(&mut state, &owner, holder)?;
        state.last += 1;
        let kept = TaskEntry {
            owner,
            sink,
            server: Arc::downgrade(upstream),
            connection_id: upstream.connection_id(),
            connection_losses: upstream.client.connection_losses(),
            server_id: None,
            number: state.last,
            began: now,
            until: None,
            is_over: false,
            _share: share,
        };
        let id: Box<str> = format!("{}{}", self.prefix, unguessable_id()).into();
        state.kept.insert(id.clone(), kept);
        Ok(Arc::new(Reserved { tasks: self.clone(), id }))
    }

    fn reserve_capacity(
        self: &Arc<Self>,
        state: &mut State,
        owner: &TaskOwner,
        holder: &Holder,
    ) -> Result<Share, Error> {
        let own = "this client has too many tasks in progress: cancel one, or try again later";
        if state.count_of(owner, self.of_client_max) >= self.of_client_max && !state.forget_past(owner) {
            return Err(Error::internal(own));
        }
        loop {
            match self.capacity.take(holder, 1) {
                Ok(share) => return Ok(share),
                Err(_) if state.forget_past(owner) => {}
                Err(LimitReached::HolderHasShare) => return Err(Error::internal(own)),
                Err(LimitReached::Full) => {
                    return Err(Error::internal("all clients together have too many tasks: try again later"));
                }
            }
        }
    }

    /// Returns the task of `owner` with the client's task id `id`.
    ///
    /// # Errors
    /// The task does not exist, has expired, belongs to another session, or is lost because the server
    /// has exited.
    pub(super) fn find(&self, id: &str, owner: &TaskOwner) -> Result<Found, Error> {
        let unknown = || Error::invalid_params("there is no such task");
        let state = self.state();
        let kept = state.kept.get(id).filter(|kept| kept.owner == *owner && !kept.is_overdue(Instant::now()));
        let kept = kept.ok_or_else(unknown)?;
        let id = kept.server_id.clone().ok_or_else(unknown)?;
        let upstream = kept.server().ok_or_else(lost)?;
        Ok(Found { upstream, id, connection_losses: kept.connection_losses })
    }

    /// Returns the client's id of a task. `connection_id` identifies the connection to the server, and `id`
    /// is the server's id of the task. Returns `None` if `owner` has no such task.
    pub(super) fn client_id_of(&self, connection_id: u64, id: &str, owner: &TaskOwner) -> Option<Box<str>> {
        let state = self.state();
        let name = state.client_ids.get(&(connection_id, id.into()))?;
        let kept = state.kept.get(name)?;
        (kept.owner == *owner && kept.server().is_some()).then(|| name.clone())
    }

    /// Returns the server's id of a task. `id` is the client's id of the task. Returns `None` if the server is a child
    /// process.
    pub(super) fn own_id(&self, id: &str) -> Option<String> {
        let state = self.state();
        let kept = state.kept.get(id)?;
        let is_on_stream = kept.server()?.client.is_on_stream();
        kept.server_id.as_deref().filter(|_| !is_on_stream).map(str::to_owned)
    }

    /// Stores the current state of a task. `id` is the task id that the client uses.
    pub(super) fn note(&self, id: &str, fields: &TaskFields) {
        if let Some(kept) = self.state().kept.get_mut(id) {
            kept.note(fields);
        }
    }

    /// Marks a task as ended. `id` is the client's id of the task.
    pub(super) fn note_end(&self, id: &str) {
        if let Some(kept) = self.state().kept.get_mut(id) {
            kept.is_over = true;
        }
    }

    /// Applies `update` to the message sink of a task. `id` is the client's id of the task.
    pub(super) fn update_sink(&self, id: &str, update: impl FnOnce(&mut TaskMessageSink)) {
        if let Some(kept) = self.state().kept.get_mut(id) {
            update(&mut kept.sink);
        }
    }

    /// Forwards a notification about a task to the client that owns the task. `connection_id` identifies the
    /// connection on which the notification arrived. Discards notifications about unknown tasks. If the
    /// client's message queue is full, returns the message. The calling function must then deliver the
    /// message later.
    pub(in crate::bridge) fn send_notification(
        &self,
        connection_id: u64,
        notification: &Notification<'_>,
    ) -> Option<Unsent> {
        let forwarded = match &*notification.method {
            methods::NOTIFICATIONS_PROGRESS => self.report(connection_id, notification),
            _ => self.status(connection_id, notification),
        };
        let (sink, message) = forwarded?;
        sink.send_notification(message)
    }

    fn status(
        &self,
        connection_id: u64,
        notification: &Notification<'_>,
    ) -> Option<(TaskMessageSink, Vec<u8>)> {
        let params = notification.params?;
        let fields = TaskFields::parse(params.get()).ok()?;
        let mut state = self.state();
        let name = state.client_ids.get(&(connection_id, fields.task_id.clone()))?.clone();
        let kept = state.kept.get_mut(&name)?;
        kept.server()?;
        kept.note(&fields);
        let params = replaced(params, TASK_ID, &name)?;
        let mut message = Vec::with_capacity(params.get().len() + ENVELOPE_BYTES);
        write_notification(&mut message, methods::NOTIFICATIONS_TASKS_STATUS, &one_line(&params));
        Some((kept.sink.clone(), message))
    }

    /// Converts a progress report about a task for the client. When the bridge forwarded the call, it sent
    /// the client's id of the task as the progress token. So the token in the report identifies the task.
    fn report(
        &self,
        connection_id: u64,
        notification: &Notification<'_>,
    ) -> Option<(TaskMessageSink, Vec<u8>)> {
        let mut params: ProgressNotificationParams = params::parse(notification.params).ok()?;
        let RequestId::String(name) = &params.progress_token else { return None };
        let state = self.state();
        let kept = state.kept.get(&**name).filter(|kept| kept.connection_id == connection_id)?;
        kept.server()?;
        let related = params.meta.as_mut().and_then(|meta| meta.get_mut(meta_keys::RELATED_TASK));
        if let Some(related) = related.and_then(Value::as_object_mut) {
            related.insert("taskId".to_owned(), name.as_str().into());
        }
        params.progress_token = kept.sink.progress_token()?.clone();
        let mut message = Vec::new();
        write_notification(&mut message, methods::NOTIFICATIONS_PROGRESS, &params);
        Some((kept.sink.clone(), message))
    }

    /// Removes all tasks of `owner`, because the session has ended. Returns the removed tasks that are
    /// still in progress.
    pub(super) fn remove_all_of(&self, owner: &TaskOwner) -> Vec<Found> {
        let gone = self.state().remove_all(|kept| kept.owner == *owner);
        let working = gone.into_iter().filter(|kept| !kept.is_over);
        working.filter_map(TaskEntry::into_found).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserved {
    /// Stores the task in `answer`. Returns `false` if the answer contains no task. A second call with the
    /// same answer has no effect.
    ///
    /// # Errors
    /// The answer is invalid, or another task already has the same id.
    pub(in crate::bridge) fn settle(&self, answer: &Answer) -> Result<bool, McpClientError> {
        let Some(fields) = TaskFields::created(answer)? else { return Ok(false) };
        let mut guard = self.tasks.state();
        let state = &mut *guard;
        let Some(connection_id) = state.kept.get(&self.id).map(|kept| kept.connection_id) else {
            return Err(McpClientError::Server(Error::internal("the client has disconnected")));
        };
        let key = (connection_id, fields.task_id.clone());
        let other = state.client_ids.get(&key).filter(|name| **name != self.id);
        if other.and_then(|name| state.kept.get(name)).is_some_and(|other| other.server().is_some()) {
            return Err(McpClientError::result_invalid(&"the task has the id of another task"));
        }
        state.client_ids.insert(key, self.id.clone());
        if let Some(kept) = state.kept.get_mut(&self.id) {
            kept.note(&fields);
            kept.server_id = Some(fields.task_id);
        }
        Ok(true)
    }
}

impl Drop for Reserved {
    /// Removes the entry if the call ended or was canceled before a task began.
    fn drop(&mut self) {
        let mut state = self.tasks.state();
        if state.kept.get(&self.id).is_some_and(|kept| kept.server_id.is_none()) {
            state.remove(&self.id);
        }
    }
}

fn lost() -> Error {
    Error::invalid_params("the task is lost: its server has exited")
}

/// Minimum time between two removals of expired tasks.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Estimated size of a message without its parameters, in bytes.
const ENVELOPE_BYTES: usize = 128;

/// Identifies the session that owns a task. Other sessions cannot access the task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TaskOwner {
    /// A session with this unique id.
    Session(u64),
}

/// Forwards messages about a task to the client that owns the task.
#[derive(Clone, Debug)]
pub(in crate::bridge) struct TaskMessageSink {
    session: Weak<Session>,
    /// The message queue of the latest request about the task. Unavailable after this request has ended.
    outbox: WeakOutbox,
    /// The progress token that the client chose for the task.
    progress_token: Option<RequestId>,
}

impl TaskMessageSink {
    pub(in crate::bridge) fn new(
        session: &Arc<Session>,
        outbox: &Outbox,
        progress_token: Option<RequestId>,
    ) -> Self {
        Self { session: Arc::downgrade(session), outbox: outbox.downgrade(), progress_token }
    }

    /// Makes this sink send later messages to `outbox`, the message queue of a newer request about the task.
    pub(in crate::bridge) fn switch_to(&mut self, outbox: &Outbox) {
        self.outbox = outbox.downgrade();
    }

    pub(super) const fn progress_token(&self) -> Option<&RequestId> {
        self.progress_token.as_ref()
    }

    /// Sends a message on the response stream of the latest request about the task. If this request has
    /// ended, uses the session's event stream for messages that belong to no request. If the request's
    /// message queue is full, returns the message. The calling function must then deliver the message later.
    pub(super) fn send_notification(&self, message: Vec<u8>) -> Option<Unsent> {
        if let Some(outbox) = self.outbox.upgrade() {
            return outbox.send(message);
        }
        let session = self.session.upgrade()?;
        if session.out_of_band()?.outbox().try_send(InterimMessage::Message(message)).is_err() {
            self.outbox
                .dropped()
                .note(1, "the client opened no event stream for messages that belong to no request");
        }
        None
    }
}

/// Translates task ids between one client and one connection to the server.
#[derive(Clone, Debug)]
pub(in crate::bridge) struct TaskIdMap {
    tasks: Arc<Tasks>,
    owner: TaskOwner,
    /// Identifies the connection to the server.
    connection_id: u64,
}

impl TaskIdMap {
    pub(in crate::bridge) const fn new(tasks: Arc<Tasks>, owner: TaskOwner, connection_id: u64) -> Self {
        Self { tasks, owner, connection_id }
    }

    /// Converts the client's id of a task to the server's id. Returns `None` if this client has no such task.
    pub(super) fn at_server(&self, id: &str) -> Option<Box<str>> {
        let found = self.tasks.find(id, &self.owner).ok()?;
        (found.upstream.connection_id() == self.connection_id).then_some(found.id)
    }

    /// Converts the server's id of a task to the client's id. Returns `None` if this client has no such task.
    pub(super) fn at_client(&self, id: &str) -> Option<Box<str>> {
        self.tasks.client_id_of(self.connection_id, id, &self.owner)
    }

    /// Replaces the client's task id in a client's answer with the server's id of the same task. If the
    /// client has no such task, removes the task id from the answer.
    pub(in crate::bridge) fn answered(&self, answer: &mut Value) {
        let Some(meta) = answer.get_mut("_meta").and_then(Value::as_object_mut) else { return };
        let Some(related) = meta.get_mut(meta_keys::RELATED_TASK) else { return };
        let id = related.get("taskId").and_then(Value::as_str);
        match id.and_then(|id| self.at_server(id)) {
            Some(id) => related["taskId"] = (*id).into(),
            None => drop(meta.shift_remove(meta_keys::RELATED_TASK)),
        }
    }
}

impl TaskIdTranslator for TaskIdMap {
    fn with_client_task_id(&self, params: &RawValue) -> Option<Box<RawValue>> {
        // Return early, because most messages belong to no task.
        if !params.get().contains(meta_keys::RELATED_TASK) {
            return None;
        }
        let name = self.at_client(&string_at(params, RELATED_ID)?)?;
        replaced(params, RELATED_ID, &name)
    }
}
