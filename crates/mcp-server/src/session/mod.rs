//! Sessions of the legacy era.

mod in_flight;
mod backend_session;
mod client_session;
mod event_archive;
mod log_inbox;
mod streams;
mod table;

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{Notification, write_notification};
use thruway_mcp::schema::{
    ClientCapabilities, Implementation, InitializeRequestParams, LoggingLevel, methods,
};
use thruway_net::Clock;
use tokio::sync::Notify;

use crate::ask::PendingRequests;
use crate::authorization::Caller;
use crate::server::{Change, Subscription};
use crate::shares::{Holder, Shares};

pub use backend_session::{BackendSession, DroppedMessages, OutOfBandMessages};
pub use client_session::ClientSession;
pub(crate) use event_archive::SessionArchive;
pub use event_archive::{ArchivedEvent, EventArchive};
pub(crate) use in_flight::{CancelCause, InFlight, InFlightGuard};
pub use log_inbox::LogInbox;
pub(crate) use streams::{Event, EventId, EventKind, EventStream, StreamReader, Streams};
pub(crate) use table::{NoCapacity, SessionLimits, Sessions};

/// The state that the server keeps for one client of the legacy era between requests.
#[derive(Debug)]
pub struct Session {
    /// The protocol revision that the client and the server agreed on.
    pub revision: Revision,
    /// The unique name of the caller that owns the session, if callers are authenticated. Other callers
    /// cannot use the session.
    owner: Option<String>,
    /// The caller to whose limits the session and its memory count.
    holder: Holder,
    /// The client's name and version as JSON text, which needs less memory than parsed values.
    client_info: Box<str>,
    /// The client's capabilities as JSON text, which needs less memory than parsed values.
    client_capabilities: Box<str>,
    /// The index of the log level in [`LoggingLevel::ALL`].
    log_level: AtomicU8,
    /// Requests of the server that the client has not answered yet.
    pub pending: Arc<PendingRequests>,
    /// The changes that the client subscribed to.
    pub subscription: Subscription,
    /// Requests of the client that are in progress.
    pub(crate) in_flight: InFlight,
    /// Messages of the backend that do not belong to a request of the client, such as questions to the
    /// client.
    out_of_band: Option<OutOfBandMessages>,
    /// Log messages of the backend that do not belong to a request of the client.
    logs: LogInbox,
    /// Event streams that the client can resume.
    pub(crate) streams: Streams,
    /// Time of the last use, in nanoseconds.
    last_used: AtomicU64,
    /// `true` after the client has sent a message other than `initialize`.
    is_confirmed: AtomicBool,
    is_ended: AtomicBool,
    ended: Notify,
    /// The state that the backend stores in this session, if any.
    backend: Option<Box<dyn BackendSession>>,
    /// The state of the application, if any.
    application: OnceLock<Box<ApplicationState>>,
}

/// The state of the application in a session. A session without such state does not allocate this value.
#[derive(Default)]
struct ApplicationState {
    /// One value of each type.
    values: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    visibility: Mutex<Visibility>,
    /// `true` if `visibility` has overrides.
    has_overrides: AtomicBool,
}

/// The items whose visibility in a session differs from the visibility on the server.
#[derive(Clone, Default)]
pub(crate) struct Visibility {
    /// Contains `true` for an item that the client can see.
    pub(crate) overrides: BTreeMap<ItemName, bool>,
    /// Increases with each change.
    pub(crate) version: u64,
}

/// The name of an item.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ItemName {
    /// The name of a tool.
    Tool(String),
    /// The name of a prompt.
    Prompt(String),
    /// The URI of a resource, or the URI template of resources.
    Resource(String),
}

impl ItemName {
    /// Returns the list that contains the item.
    pub(crate) const fn list(&self) -> Change {
        match self {
            Self::Tool(_) => Change::Tools,
            Self::Prompt(_) => Change::Prompts,
            Self::Resource(_) => Change::Resources,
        }
    }
}

impl fmt::Debug for ApplicationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplicationState").finish_non_exhaustive()
    }
}

/// Keeps a session in use while a stream is open or a request is in progress. A session in use does not
/// expire, and the server does not evict it.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Session>);

impl Session {
    pub(crate) fn new(
        revision: Revision,
        params: &InitializeRequestParams,
        subscription: Subscription,
    ) -> Self {
        Self {
            revision,
            owner: None,
            holder: Holder::Unknown,
            client_info: to_json(&params.client_info),
            client_capabilities: to_json(&params.capabilities),
            log_level: AtomicU8::new(LoggingLevel::Info as u8),
            pending: Arc::default(),
            subscription,
            in_flight: InFlight::default(),
            out_of_band: None,
            logs: LogInbox::default(),
            streams: Streams::default(),
            last_used: AtomicU64::new(nanoseconds(now())),
            is_confirmed: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            ended: Notify::new(),
            backend: None,
            application: OnceLock::new(),
        }
    }

    /// Adds the state of a backend to the session. The backend can then send messages that do not belong to
    /// a request of the client.
    pub(crate) fn with_backend(self, state: Box<dyn BackendSession>) -> Self {
        let streams = Streams::with_dropped_count(state.dropped().clone());
        Self { out_of_band: Some(OutOfBandMessages::default()), backend: Some(state), streams, ..self }
    }

    /// Returns the state of the backend, if the state has the type `T`.
    pub fn backend<T: BackendSession>(&self) -> Option<&T> {
        let state: &dyn Any = self.backend.as_deref()?;
        state.downcast_ref()
    }

    /// Passes a notification of the client to the backend.
    pub(crate) fn notify_backend(&self, notification: &Notification<'_>) {
        if let Some(state) = &self.backend {
            state.handle_notification(notification);
        }
    }

    /// Adds a log message that does not belong to a request. Returns the number of older messages that were
    /// dropped to make space.
    pub fn note_log(&self, params: Arc<RawValue>) -> u64 {
        self.logs.push(params)
    }

    /// Returns the queue for messages of the backend that do not belong to a request. Returns `None` if no
    /// backend has stored state in the session.
    pub fn out_of_band(&self) -> Option<&OutOfBandMessages> {
        self.out_of_band.as_ref()
    }

    /// Returns the next message of the backend that does not belong to a request of the client. The message
    /// is a question or a log message.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(crate) async fn next_out_of_band(&self) -> Vec<u8> {
        let Some(out_of_band) = &self.out_of_band else { return std::future::pending().await };
        loop {
            let message = tokio::select! {
                message = out_of_band.next() => message,
                params = self.logs.next() => {
                    let mut message = Vec::new();
                    write_notification(&mut message, methods::NOTIFICATIONS_MESSAGE, &&*params);
                    return message;
                }
            };
            if self.pending.is_waiting_for(&message) {
                return message;
            }
        }
    }

    /// Makes `caller` the owner of the session.
    pub(crate) fn of(self, caller: &Caller) -> Self {
        Self { owner: caller.principal(), holder: caller.holder(), ..self }
    }

    /// Limits the events that the session stores for a client that reconnects. The events count toward the
    /// limit `shares`.
    pub(crate) fn with_event_limit(mut self, shares: &Arc<Shares>) -> Self {
        self.streams.limit(shares.clone(), self.holder.clone());
        self
    }

    /// Stores later events in `archive`. `id` is the id of the session.
    pub(crate) fn archive_events(&self, archive: &Arc<dyn EventArchive>, id: &Arc<str>) {
        let (archive, session, caller) = (archive.clone(), id.clone(), self.owner.clone());
        self.streams.archive(SessionArchive { archive, session, caller });
    }

    /// Returns the caller to whose limits the session and its memory count.
    pub const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the client's name and version. Returns `None` if they cannot be parsed.
    pub fn client_info(&self) -> Option<Implementation> {
        serde_json::from_str(&self.client_info).ok()
    }

    /// Returns the client's capabilities.
    pub fn client_capabilities(&self) -> ClientCapabilities {
        serde_json::from_str(&self.client_capabilities).unwrap_or_default()
    }

    /// Returns the client's name and version as JSON.
    pub fn info_json(&self) -> &str {
        &self.client_info
    }

    /// Returns the client's capabilities as JSON.
    pub fn capabilities_json(&self) -> &str {
        &self.client_capabilities
    }

    /// Returns the minimum level of log messages that the client wants.
    pub fn log_level(&self) -> Option<LoggingLevel> {
        LoggingLevel::ALL.get(usize::from(self.log_level.load(Ordering::Relaxed))).copied()
    }

    /// Sets the minimum level of log messages that the client wants.
    pub fn set_log_level(&self, level: LoggingLevel) {
        self.log_level.store(level as u8, Ordering::Relaxed);
    }

    /// Ends the session. Cancels all requests of the session, and then makes all questions to the client fail.
    /// With this order, most clients read that their session has ended, and not that a question has failed.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.ended.notify_waiters();
        self.in_flight.close();
        self.pending.close();
    }

    /// Waits until the session has ended.
    pub async fn ended(&self) {
        let ended = self.ended.notified();
        if !self.is_ended.load(Ordering::Acquire) {
            ended.await;
        }
    }

    /// Stores `now`, in nanoseconds, as the time of the last use by the client. Marks the session as
    /// confirmed.
    fn note_use(&self, now: u64) {
        self.last_used.store(now, Ordering::Relaxed);
        self.is_confirmed.store(true, Ordering::Relaxed);
    }

    fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Ordering::Relaxed)
    }
}

impl InUse {
    pub(crate) const fn new(session: Arc<Session>) -> Self {
        Self(session)
    }
}

impl Deref for InUse {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.note_use(nanoseconds(now()));
    }
}

/// Writes plain data as JSON text. Writing plain data cannot fail.
fn to_json(data: &impl Serialize) -> Box<str> {
    serde_json::to_string(data).unwrap_or_default().into()
}

fn now() -> Duration {
    Clock::system().now()
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
