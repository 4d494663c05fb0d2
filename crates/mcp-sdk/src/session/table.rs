//! The sessions of a server: found by their ids.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Session, now};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Changes;
    use thruway_mcp::Revision;
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
