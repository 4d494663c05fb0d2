//! Sessions of the legacy era.

mod in_flight;
mod streams;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_mcp::Revision;
use thruway_mcp::schema::{ClientCapabilities, Implementation, InitializeRequestParams, LoggingLevel};
use thruway_net::Clock;

use crate::ask::PendingRequests;
use crate::server::Subscription;

pub(crate) use in_flight::InFlight;
pub(crate) use streams::{Event, EventId, EventKind, EventStream, Streams};

/// What is remembered of a client between its requests.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) revision: Revision,
    pub(crate) client_info: Implementation,
    pub(crate) client_capabilities: ClientCapabilities,
    /// The place of the level in [`LoggingLevel::ALL`].
    log_level: AtomicU8,
    /// Requests of the server that the client has not answered.
    pub(crate) pending: PendingRequests,
    /// What the client is to be told.
    pub(crate) subscription: Subscription,
    /// Requests of the client that are being handled.
    pub(crate) in_flight: InFlight,
    /// What was sent and may be asked for again.
    pub(crate) streams: Streams,
    last_used: AtomicU64,
}

impl Session {
    pub(crate) fn new(
        revision: Revision,
        params: InitializeRequestParams,
        subscription: Subscription,
    ) -> Self {
        Self {
            revision,
            client_info: params.client_info,
            client_capabilities: params.capabilities,
            log_level: AtomicU8::new(LoggingLevel::Info as u8),
            pending: PendingRequests::default(),
            subscription,
            in_flight: InFlight::default(),
            streams: Streams::default(),
            last_used: AtomicU64::new(now().as_secs()),
        }
    }

    /// From which level on the client wants log messages.
    pub(crate) fn log_level(&self) -> Option<LoggingLevel> {
        LoggingLevel::ALL.get(usize::from(self.log_level.load(Ordering::Relaxed))).copied()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        self.log_level.store(level as u8, Ordering::Relaxed);
    }

    /// Puts the end of the session off.
    pub(crate) fn touch(&self) {
        self.last_used.store(now().as_secs(), Ordering::Relaxed);
    }

    fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }
}

/// The sessions of a server, by their ids.
#[derive(Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "`sessions_max` is called so wherever there is a most of something"
)]
pub(crate) struct Sessions {
    sessions: Mutex<HashMap<Box<str>, Arc<Session>>>,
    /// When the sessions whose time is over were forgotten last, in seconds.
    swept: AtomicU64,
    idle: Duration,
    sessions_max: usize,
}

impl Sessions {
    pub(crate) fn new(idle: Duration, sessions_max: usize) -> Self {
        Self { sessions: Mutex::default(), swept: AtomicU64::new(0), idle, sessions_max }
    }

    /// Keeps a session and returns the id by which it is found: nobody can guess it.
    ///
    /// # Panics
    /// The system has no random numbers.
    pub(crate) fn insert(&self, session: Session) -> Box<str> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).expect("the system has random numbers");
        let id: Box<str> = format!("{:032x}", u128::from_ne_bytes(id)).into();
        let mut sessions = self.lock();
        let now = now().as_secs();
        if self.swept.swap(now, Ordering::Relaxed) != now {
            sessions.retain(|_, session| session.last_used() + self.idle.as_secs() >= now);
        }
        if sessions.len() >= self.sessions_max
            && let Some(oldest) = sessions.iter().min_by_key(|(_, session)| session.last_used())
        {
            let oldest = oldest.0.clone();
            sessions.remove(&oldest);
        }
        sessions.insert(id.clone(), Arc::new(session));
        id
    }

    /// The session, if it has not ended.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Session>> {
        let mut sessions = self.lock();
        let session = sessions.get(id)?;
        if session.last_used() + self.idle.as_secs() < now().as_secs() {
            sessions.remove(id);
            return None;
        }
        session.touch();
        Some(session.clone())
    }

    /// Ends a session; whether there was such a one.
    pub(crate) fn remove(&self, id: &str) -> bool {
        self.lock().remove(id).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> Duration {
    Clock::system().now()
}
