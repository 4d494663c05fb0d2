//! Sessions of the legacy era.

mod in_flight;
mod asides;
mod log_inbox;
mod streams;

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
use crate::bridge::{FarSide, TasksOfSession, Upstream, Watch};
use crate::server::Subscription;

pub(crate) use asides::Asides;
pub(crate) use in_flight::{InFlight, InFlightGuard};
pub(crate) use log_inbox::LogInbox;
pub(crate) use streams::{Event, EventId, EventKind, EventStream, StreamReader, Streams};

/// What is remembered of a client between its requests.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) revision: Revision,
    /// Whose it is, where callers are known: others do not find it.
    owner: Option<String>,
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
    /// In seconds.
    last_used: AtomicU64,
    is_ended: AtomicBool,
    ended: Notify,
    /// Behind a bridge that tasks of 2025-11-25 cross: what gives those of the client up, before its server goes.
    tasks: Option<TasksOfSession>,
    upstream: Mutex<Option<Arc<Upstream>>>,
    /// Behind a bridge: what keeps it telling of resources, by their URIs.
    watches: Mutex<HashMap<String, Watch>>,
}

/// Somebody uses a session for as long as this is there: a stream is open.
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
            last_used: AtomicU64::new(now().as_secs()),
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
        Self { asides: Some(Asides::default()), far_side: Some(far_side), tasks, ..self }
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

    /// The same, for nobody but `owner`.
    pub(crate) fn owned_by(self, owner: Option<String>) -> Self {
        Self { owner, ..self }
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

    /// Ends the session: what is being handled in it over HTTP is given up, and nobody waits for the client any more.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.ended.notify_waiters();
        self.pending.close();
        self.in_flight.cancel_all();
    }

    /// Ready when the session has ended.
    pub(crate) async fn ended(&self) {
        let ended = self.ended.notified();
        if !self.is_ended.load(Ordering::Acquire) {
            ended.await;
        }
    }

    /// Puts the end of the session off.
    fn touch(&self, now: u64) {
        self.last_used.store(now, Ordering::Relaxed);
    }

    fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
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
        self.0.touch(now().as_secs());
    }
}

/// The sessions of a server, by their ids.
#[derive(Debug)]
pub(crate) struct Sessions {
    all: Mutex<HashMap<Box<str>, Arc<Session>>>,
    /// When the sessions whose time is over were forgotten last, in seconds.
    swept: AtomicU64,
    idle: Duration,
    max: usize,
}

impl Sessions {
    pub(crate) fn new(idle: Duration, max: usize) -> Self {
        Self { all: Mutex::default(), swept: AtomicU64::new(0), idle, max }
    }

    /// Keeps a session and returns the id by which it is found: nobody can guess it.
    ///
    /// # Panics
    /// The system has no random numbers.
    pub(crate) fn insert(&self, session: Session) -> Box<str> {
        self.insert_at(now().as_secs(), session)
    }

    fn insert_at(&self, now: u64, session: Session) -> Box<str> {
        let id = unguessable_id();
        let mut sessions = self.lock();
        if self.swept.swap(now, Ordering::Relaxed) != now {
            self.end_overdue(&mut sessions, now);
        }
        if sessions.len() >= self.max
            && let Some((oldest, _)) = sessions.iter().min_by_key(|(_, session)| session.last_used())
        {
            let oldest = oldest.clone();
            end(sessions.remove(&oldest).as_ref());
        }
        sessions.insert(id.clone(), Arc::new(session));
        id
    }

    /// Ends the sessions whose time is over.
    pub(crate) fn sweep(&self) {
        self.end_overdue(&mut self.lock(), now().as_secs());
    }

    fn end_overdue(&self, sessions: &mut HashMap<Box<str>, Arc<Session>>, now: u64) {
        let overdue = sessions.extract_if(|_, session| self.is_overdue(session, now));
        overdue.for_each(|(_, session)| session.end());
    }

    /// The session, if it is `owner`'s and has not ended.
    pub(crate) fn find(&self, id: &str, owner: Option<&str>) -> Option<Arc<Session>> {
        self.find_at(now().as_secs(), id).filter(|session| session.owner.as_deref() == owner)
    }

    fn find_at(&self, now: u64, id: &str) -> Option<Arc<Session>> {
        let mut sessions = self.lock();
        let session = sessions.get(id)?;
        if self.is_overdue(session, now) {
            end(sessions.remove(id).as_ref());
            return None;
        }
        session.touch(now);
        Some(session.clone())
    }

    /// Ends a session; whether there was such a one of `owner`'s.
    pub(crate) fn remove(&self, id: &str, owner: Option<&str>) -> bool {
        self.find(id, owner).is_some() && end(self.lock().remove(id).as_ref())
    }

    /// Whether a session has not been used for too long. One that somebody else holds is in use: a stream is open, or a
    /// request is being handled.
    fn is_overdue(&self, session: &Arc<Session>, now: u64) -> bool {
        session.last_used() + self.idle.as_secs() < now && Arc::strong_count(session) == 1
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Plain data, which can be written.
fn to_json(data: &impl Serialize) -> Box<str> {
    serde_json::to_string(data).unwrap_or_default().into()
}

/// 128 random bits.
///
/// # Panics
/// The system has no random numbers.
pub(crate) fn unguessable_id() -> Box<str> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the system has random numbers");
    format!("{:032x}", u128::from_ne_bytes(id)).into()
}

/// Whether there was one.
fn end(session: Option<&Arc<Session>>) -> bool {
    session.inspect(|session| session.end()).is_some()
}

fn now() -> Duration {
    Clock::system().now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Changes;
    use thruway_mcp::schema::InitializeRequestParams;

    fn session() -> Session {
        let params: InitializeRequestParams = serde_json::from_str(
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}"#,
        )
        .unwrap();
        let subscription = Changes::default().subscribe([]).unwrap();
        let session = Session::new(Revision::R20250618, &params, subscription);
        session.touch(0);
        session
    }

    fn sessions(sessions_max: usize) -> Sessions {
        Sessions::new(Duration::from_secs(10), sessions_max)
    }

    #[test]
    fn a_session_ends_when_it_was_not_used_for_too_long() {
        let sessions = sessions(10);
        let id = sessions.insert_at(0, session());
        for now in [10, 20, 25] {
            assert!(sessions.find_at(now, &id).is_some(), "at {now}");
        }
        assert!(sessions.find_at(36, &id).is_none());
        assert!(sessions.lock().is_empty());
    }

    #[test]
    fn sessions_that_nobody_asks_for_are_forgotten_too() {
        let sessions = sessions(10);
        sessions.insert_at(0, session());
        sessions.insert_at(11, session());
        assert_eq!(sessions.lock().len(), 1);
    }

    #[test]
    fn a_session_that_is_in_use_goes_on() {
        let sessions = sessions(10);
        let id = sessions.insert_at(0, session());
        let stream = InUse::new(sessions.find_at(0, &id).unwrap());
        sessions.insert_at(100, session());
        assert!(sessions.find_at(100, &id).is_some());
        drop(stream);
        assert!(sessions.find_at(u64::MAX, &id).is_none());
    }

    #[test]
    fn the_session_not_used_for_longest_makes_room() {
        let sessions = sessions(2);
        let (first, second) = (sessions.insert_at(0, session()), sessions.insert_at(1, session()));
        let held = sessions.find_at(1, &second).unwrap();
        sessions.find_at(2, &first).unwrap();
        sessions.insert_at(3, session());
        assert!(sessions.find_at(3, &first).is_some() && sessions.find_at(3, &second).is_none());
        assert!(held.is_ended.load(Ordering::Relaxed));
    }
}
