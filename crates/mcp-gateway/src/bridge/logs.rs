//! Forwards log messages that belong to no call. Each message goes to all clients that requested the
//! severity of the message.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::Deserialize;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Notification;
use thruway_mcp::params;
use thruway_mcp::schema::LoggingLevel;
use thruway_mcp_client::forwarding::{LogOrigin, OnLog};
use thruway_mcp_server::backend::{DroppedMessages, LogInbox, Session};

use super::messages::one_line;
use super::tasks::{TaskIdTranslator, is_related_to_task};

/// The sessions and subscriptions that requested log messages of one server.
#[derive(Default, Debug)]
pub(super) struct LogListeners(Mutex<State>);

#[derive(Default, Debug)]
struct State {
    /// The sessions and subscriptions. The key is a memory address: the address of the session, or of the
    /// subscription's inbox. The address is unique while the map contains the entry.
    all: HashMap<usize, LogListener>,
    /// Number of entries at which the next insertion first removes the entries of ended sessions and
    /// subscriptions.
    sweep_at: usize,
}

#[derive(Clone, Debug)]
enum LogListener {
    /// A legacy session. The second value translates the session's task ids, if the bridge forwards tasks
    /// for the session.
    Session(Weak<Session>, Option<Arc<dyn TaskIdTranslator>>),
    /// A modern subscription that requested log messages of this severity and above.
    Subscription(Weak<LogInbox>, LoggingLevel),
}

/// A log message. The bridge parses only the severity of the message.
struct LogMessage<'n> {
    level: LoggingLevel,
    params: &'n RawValue,
}

impl LogListeners {
    pub(super) fn add_session(
        &self,
        session: &Arc<Session>,
        task_ids: Option<impl TaskIdTranslator + 'static>,
    ) {
        let key = Arc::as_ptr(session).addr();
        let task_ids = task_ids.map(|task_ids| Arc::new(task_ids) as Arc<dyn TaskIdTranslator>);
        self.state().add(key, LogListener::Session(Arc::downgrade(session), task_ids));
    }

    /// Adds a modern subscription. `inbox` is the queue for the subscription's log messages.
    pub(super) fn subscribe(&self, level: LoggingLevel, inbox: &Arc<LogInbox>) {
        let key = Arc::as_ptr(inbox).addr();
        self.state().add(key, LogListener::Subscription(Arc::downgrade(inbox), level));
    }

    /// Copies all sessions and subscriptions from `gone`, the listeners of a closed connection. `self`
    /// belongs to the connection that replaces the closed connection.
    pub(super) fn copy_from(&self, gone: &Self) {
        let all = gone.state().all.clone();
        self.state().all.extend(all);
    }

    /// Returns the lowest log level that any session or subscription requests.
    pub(super) fn finest(&self) -> Option<LoggingLevel> {
        self.state().all.values().filter_map(LogListener::level).min()
    }

    /// Returns the log handler for a server that several clients use. The handler drops log messages that
    /// arrive during a call. Such a message may be meant only for the client of that call, but the message
    /// does not name a client.
    pub(super) fn handler(self: &Arc<Self>, dropped: &Arc<DroppedMessages>) -> OnLog {
        let (listeners, dropped) = (self.clone(), dropped.clone());
        Arc::new(move |notification, origin| {
            let Some(message) = LogMessage::parse(notification) else { return };
            if origin == LogOrigin::OutsideOfCalls {
                dropped.note(listeners.deliver(&message), NOT_READ);
            } else if listeners.finest().is_some_and(|finest| message.level >= finest) {
                dropped.note(1, if origin == LogOrigin::OwnRequest { OF_OWN_REQUEST } else { DURING_CALLS });
            }
        })
    }

    /// Delivers a message to all sessions and subscriptions that requested the severity of the message.
    /// Returns the number of older messages that were dropped because a queue was full.
    fn deliver(&self, message: &LogMessage<'_>) -> u64 {
        let listeners: Vec<_> = self.state().all.values().cloned().collect();
        let is_of_task = is_related_to_task(message.params);
        let params: Arc<RawValue> = one_line(message.params).into();
        let mut dropped = 0;
        for listener in listeners.iter().filter(|one| one.level().is_some_and(|level| message.level >= level))
        {
            match listener {
                LogListener::Session(session, task_ids) => {
                    let Some(session) = session.upgrade() else { continue };
                    if !is_of_task {
                        dropped += session.note_log(params.clone());
                    } else if let Some(params) =
                        task_ids.as_ref().and_then(|task_ids| task_ids.with_client_task_id(message.params))
                    {
                        dropped += session.note_log(one_line(&params).into());
                    }
                }
                LogListener::Subscription(inbox, _) if !is_of_task => {
                    dropped += inbox.upgrade().map_or(0, |inbox| inbox.push(params.clone()));
                }
                LogListener::Subscription(..) => {}
            }
        }
        dropped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, key: usize, listener: LogListener) {
        if self.all.len() >= self.sweep_at {
            self.all.retain(|_, listener| listener.level().is_some());
            self.sweep_at = (2 * self.all.len()).max(SWEEP_MIN);
        }
        self.all.insert(key, listener);
    }
}

impl LogListener {
    /// Returns the log level that the session or subscription requests. Returns `None` if it has ended or
    /// requests no messages.
    fn level(&self) -> Option<LoggingLevel> {
        match self {
            Self::Session(session, _) => session.upgrade()?.log_level(),
            Self::Subscription(inbox, level) => (inbox.strong_count() > 0).then_some(*level),
        }
    }
}

impl<'n> LogMessage<'n> {
    fn parse(notification: &Notification<'n>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Leveled {
            level: LoggingLevel,
        }
        let Leveled { level } = params::parse(notification.params).ok()?;
        Some(Self { level, params: notification.params? })
    }
}

/// Returns the log handler for the dedicated server of a session.
pub(super) fn handler_of_session(
    session: &Arc<Session>,
    task_ids: Option<impl TaskIdTranslator + 'static>,
    dropped: &Arc<DroppedMessages>,
) -> OnLog {
    let (session, dropped) = (Arc::downgrade(session), dropped.clone());
    Arc::new(move |notification, _| {
        let (Some(session), Some(message)) = (session.upgrade(), LogMessage::parse(notification)) else {
            return;
        };
        if session.log_level().is_some_and(|wanted| message.level >= wanted) {
            let translated =
                task_ids.as_ref().and_then(|task_ids| task_ids.with_client_task_id(message.params));
            let params = one_line(translated.as_deref().unwrap_or(message.params));
            dropped.note(session.note_log(params.into()), NOT_READ);
        }
    })
}

const NOT_READ: &str = "a client does not read the event stream for messages that belong to no request";

const DURING_CALLS: &str = "a log message arrived during a call, so its recipient is unknown";

const OF_OWN_REQUEST: &str =
    "a log message arrived during a request of the bridge itself, so its recipient is unknown";

/// Minimum value of `sweep_at`.
const SWEEP_MIN: usize = 64;
