//! Sessions of the legacy era.

mod in_flight;
mod asides;
mod log_inbox;
mod streams;
mod table;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::write_notification;
use thruway_mcp::schema::{
    ClientCapabilities, Implementation, InitializeRequestParams, LoggingLevel, methods,
};
use thruway_net::Clock;
use tokio::sync::Notify;

use crate::ask::PendingRequests;
use crate::authorization::Caller;
use crate::bridge::{FarSide, TasksOfSession, Upstream, Watch};
use crate::server::Subscription;
use crate::shares::Shares;

pub(crate) use asides::Asides;
pub(crate) use in_flight::{CancelCause, InFlight, InFlightGuard};
pub(crate) use log_inbox::LogInbox;
pub(crate) use streams::{Event, EventId, EventKind, EventStream, StreamReader, Streams};
use table::nanoseconds;
pub(crate) use table::{Holder, NoCapacity, SessionLimits, Sessions};
pub(crate) use thruway_net::unguessable_id;

/// What is remembered of a client between its requests.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) revision: Revision,
    /// The caller that it belongs to, if callers are known: other callers do not find it.
    owner: Option<String>,
    /// The party that it counts against, and all that it holds.
    holder: Holder,
    /// As JSON, which takes up no more than was sent: as values it could be many times that.
    client_info: Box<str>,
    /// The same of what the client can do.
    client_capabilities: Box<str>,
    /// The place of the level in [`LoggingLevel::ALL`].
    log_level: AtomicU8,
    /// Requests of the server that the client has not answered.
    pub(crate) pending: Arc<PendingRequests>,
    /// What the client is to be told.
    pub(crate) subscription: Subscription,
    /// Requests of the client that are being handled.
    pub(crate) in_flight: InFlight,
    /// Behind a bridge: what the server asks by itself.
    asides: Option<Asides>,
    /// Behind a bridge: log messages that belong to no request.
    logs: LogInbox,
    /// `true` once the shared server behind the bridge knows that the session wants log messages.
    hears_logs: AtomicBool,
    /// Behind a bridge: the server as it appears in the era that the session was begun with.
    far_side: Option<Arc<FarSide>>,
    /// What was sent and may be asked for again.
    pub(crate) streams: Streams,
    /// Time of the last use, in nanoseconds.
    last_used: AtomicU64,
    /// `true` once the client has sent a message besides `initialize`.
    is_confirmed: AtomicBool,
    is_ended: AtomicBool,
    ended: Notify,
    /// Behind a bridge that tasks of 2025-11-25 cross: what gives those of the client up, before its server goes.
    tasks: Option<TasksOfSession>,
    upstream: Mutex<Option<Arc<Upstream>>>,
    /// Behind a bridge: what keeps it telling of resources, by their URIs.
    watches: Mutex<HashMap<String, Watch>>,
}

/// Keeps a session in use: a stream is open, or a request is being handled. A session in use neither expires
/// nor is evicted.
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
            asides: None,
            logs: LogInbox::default(),
            hears_logs: AtomicBool::new(false),
            far_side: None,
            streams: Streams::default(),
            last_used: AtomicU64::new(nanoseconds(now())),
            is_confirmed: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            ended: Notify::new(),
            upstream: Mutex::default(),
            tasks: None,
            watches: Mutex::default(),
        }
    }

    /// Returns the session behind a bridge to `far_side`, whose server may ask outside of requests and make
    /// tasks.
    pub(crate) fn behind_bridge(self, far_side: Arc<FarSide>, tasks: Option<TasksOfSession>) -> Self {
        let streams = Streams::behind_bridge(far_side.dropped().clone());
        Self { asides: Some(Asides::default()), far_side: Some(far_side), tasks, streams, ..self }
    }

    /// Returns the server behind the bridge, if there is one.
    pub(crate) const fn far_side(&self) -> Option<&Arc<FarSide>> {
        self.far_side.as_ref()
    }

    /// Adds a log message that belongs to no request. Returns the number of older messages that were dropped.
    pub(crate) fn note_log(&self, params: Arc<RawValue>) -> u64 {
        self.logs.push(params)
    }

    /// Returns `true` the first time only: the shared server then gets to know the session.
    pub(crate) fn begins_to_hear_logs(&self) -> bool {
        !self.hears_logs.load(Ordering::Relaxed) && !self.hears_logs.swap(true, Ordering::Relaxed)
    }

    /// Whose the tasks of the client are, if calls may become some.
    pub(crate) const fn tasks(&self) -> Option<&TasksOfSession> {
        self.tasks.as_ref()
    }

    /// Where goes what the server asks by itself, if it may.
    pub(crate) fn asides(&self) -> Option<&Asides> {
        self.asides.as_ref()
    }

    /// Returns the next message behind a bridge that belongs to no request: a question or a log message.
    ///
    /// # Cancel safety
    /// No message is lost.
    pub(crate) async fn next_aside(&self) -> Vec<u8> {
        let Some(asides) = &self.asides else { return std::future::pending().await };
        loop {
            let message = tokio::select! {
                message = asides.next() => message,
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

    /// Returns the session as one of `caller`.
    pub(crate) fn of(self, caller: &Caller) -> Self {
        Self { owner: caller.principal(), holder: caller.holder(), ..self }
    }

    /// Returns the session with a limit on the events that it remembers: they count against `shares`.
    pub(crate) fn with_event_limit(mut self, shares: &Arc<Shares>) -> Self {
        self.streams.limit(shares.clone(), self.holder.clone());
        self
    }

    /// Returns the party that the session counts against, and all that it holds.
    pub(crate) const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// What the client says it is.
    pub(crate) fn client_info(&self) -> Option<Implementation> {
        serde_json::from_str(&self.client_info).ok()
    }

    /// What the client can do.
    pub(crate) fn client_capabilities(&self) -> ClientCapabilities {
        serde_json::from_str(&self.client_capabilities).unwrap_or_default()
    }

    /// What the client says it is, as JSON.
    pub(crate) fn info_json(&self) -> &str {
        &self.client_info
    }

    /// What the client can do, as JSON.
    pub(crate) fn capabilities_json(&self) -> &str {
        &self.client_capabilities
    }

    /// Behind a bridge: the server that is this session's alone, if it has one.
    pub(crate) fn upstream(&self) -> MutexGuard<'_, Option<Arc<Upstream>>> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is watched for the client.
    pub(crate) fn watches(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From which level on the client wants log messages.
    pub(crate) fn log_level(&self) -> Option<LoggingLevel> {
        LoggingLevel::ALL.get(usize::from(self.log_level.load(Ordering::Relaxed))).copied()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        self.log_level.store(level as u8, Ordering::Relaxed);
    }

    /// Ends the session: cancels its requests, and fails the handlers that wait for answers of the client.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.ended.notify_waiters();
        self.pending.close();
        self.in_flight.close();
    }

    /// Ready when the session has ended.
    pub(crate) async fn ended(&self) {
        let ended = self.ended.notified();
        if !self.is_ended.load(Ordering::Acquire) {
            ended.await;
        }
    }

    /// Notes that the client has used the session at `now`, in nanoseconds.
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

/// Plain data, which can be written.
fn to_json(data: &impl Serialize) -> Box<str> {
    serde_json::to_string(data).unwrap_or_default().into()
}

fn now() -> Duration {
    Clock::system().now()
}
