//! The table of all sessions of a server. The table finds sessions by id, limits the number of sessions,
//! and ends unused sessions.
//!
//! If a caller opens many sessions, these sessions must not evict the sessions of other callers. So each
//! session counts toward the limit of its caller ([`Holder`]), and a session in use is never evicted.
//! Sessions in which the client has sent nothing after `initialize` are evicted first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_net::unguessable_id;

use super::{EventArchive, Session, nanoseconds, now};
use crate::replica_ids::{ReplicaIdKind, ReplicaIds};
use crate::shares::Holder;

/// The sessions of a server, by their ids.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
    limits: SessionLimits,
}

/// Limits on the number and the idle time of sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    /// Time after which an unused session ends.
    pub(crate) idle: Duration,
    /// Maximum number of sessions.
    pub(crate) max: usize,
    /// Maximum number of sessions of one caller with a token.
    pub(crate) per_principal_max: usize,
    /// Maximum number of sessions of one address, or of one IPv6 network.
    pub(crate) per_address_max: usize,
}

/// The error for a new session if a limit on sessions is reached, and the server can evict no session because
/// all are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoCapacity;

#[derive(Default, Debug)]
struct Table {
    slots: HashMap<Arc<str>, Arc<Slot>>,
    /// The eviction order of all sessions.
    order: EvictionOrder,
    /// The eviction order of each caller's sessions. The map contains only callers with sessions.
    holders: HashMap<Holder, EvictionOrder>,
    /// The number in the newest eviction key.
    last_number: u64,
    /// Time of the last search for expired sessions, in nanoseconds.
    swept: u64,
    /// Creates the ids. `None` if ids do not name the replica.
    replica_ids: Option<ReplicaIds>,
    /// `true` if the server ends its sessions, because it shuts down.
    is_ending: bool,
    /// Stores events outside of this process, if requested.
    event_archive: Option<Arc<dyn EventArchive>>,
}

/// A session in the table. While the session is idle, this slot has the only reference to the session.
#[derive(Debug)]
struct Slot {
    id: Arc<str>,
    session: Arc<Session>,
    /// The position of the session in two eviction orders: the order of all sessions, and the order of its
    /// caller's sessions.
    key: Mutex<EvictionKey>,
}

/// Sessions in the order of their eviction. Each key contains the state of its session at the time when the
/// key was created. Requests do not update the key, so it can be outdated. Before an eviction, the server
/// replaces outdated keys at the front of the order.
#[derive(Default, Debug)]
struct EvictionOrder {
    slots: BTreeMap<EvictionKey, Arc<Slot>>,
    /// Until this time, in nanoseconds, the server does not search for a session to evict, because the last
    /// search found all sessions in use.
    exhausted_until: u64,
}

/// The session with the smallest key is evicted first. Sessions without a message after `initialize`
/// (unconfirmed) come before all others. Within each of these two groups, the session that was unused for the
/// longest time comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct EvictionKey {
    is_confirmed: bool,
    last_used: u64,
    /// A unique number, so that all keys are different.
    number: u64,
}

/// The sessions that an eviction may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Evictable {
    Unconfirmed,
    Idle,
}

impl SessionLimits {
    /// Returns the maximum number of sessions of the caller `holder`. Returns `None` if this number is not
    /// limited.
    pub(crate) const fn quota(&self, holder: &Holder) -> Option<usize> {
        match holder {
            Holder::Principal(_) => Some(self.per_principal_max),
            Holder::Address(_) => Some(self.per_address_max),
            Holder::Unknown => None,
        }
    }
}

impl Sessions {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        Self { table: Mutex::default(), limits }
    }

    /// Lets the ids of sessions name this replica, if `replica_ids` is set.
    pub(crate) fn name_replica(mut self, replica_ids: Option<ReplicaIds>) -> Self {
        self.table.get_mut().unwrap_or_else(PoisonError::into_inner).replica_ids = replica_ids;
        self
    }

    /// Stores the events of later sessions in `archive`, if it is set.
    pub(crate) fn archive_events(mut self, archive: Option<Arc<dyn EventArchive>>) -> Self {
        self.table.get_mut().unwrap_or_else(PoisonError::into_inner).event_archive = archive;
        self
    }

    /// Adds a session and returns its unguessable id. If a limit on sessions is reached, ends an idle
    /// session first.
    ///
    /// # Errors
    /// Returns an error if a limit is reached, and all sessions that count toward this limit are in use.
    ///
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub(crate) fn insert(&self, session: Session) -> Result<Arc<str>, NoCapacity> {
        self.insert_at(nanoseconds(now()), session)
    }

    fn insert_at(&self, now: u64, session: Session) -> Result<Arc<str>, NoCapacity> {
        let mut table = self.lock();
        if now >= table.swept + SWEEP_PERIOD {
            table.end_overdue(self.limits.idle, now);
        }
        if !table.evict_for(session.holder(), &self.limits, now) {
            return Err(NoCapacity);
        }
        Ok(table.insert(session))
    }

    /// Returns the number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Returns the number of questions that clients have not answered yet, in all sessions.
    pub(crate) fn unanswered(&self) -> usize {
        self.lock().slots.values().map(|slot| slot.session.pending.count()).sum()
    }

    /// Ends all sessions that were idle for too long.
    pub(crate) fn sweep(&self) {
        self.lock().end_overdue(self.limits.idle, nanoseconds(now()));
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self) {
        let mut table = self.lock();
        let ids: Vec<_> = table.slots.keys().cloned().collect();
        for id in ids {
            table.end(&id);
        }
    }

    /// Ends all sessions without a request in progress. Later answers about unknown sessions say that the server shuts
    /// down.
    pub(crate) fn end_without_requests(&self) {
        let mut table = self.lock();
        table.is_ending = true;
        let idle = table.slots.values().filter(|slot| slot.session.in_flight.len() == 0);
        let idle: Vec<_> = idle.map(|slot| slot.id.clone()).collect();
        for id in idle {
            table.end(&id);
        }
    }

    /// Returns `true` after the first call of [`end_without_requests`](Self::end_without_requests).
    pub(crate) fn are_ending(&self) -> bool {
        self.lock().is_ending
    }

    /// Returns the session `id` if this session belongs to `owner` and has not ended. Marks the session as
    /// confirmed.
    pub(crate) fn find(&self, id: &str, owner: Option<&str>) -> Option<Arc<Session>> {
        self.find_at(nanoseconds(now()), id, owner)
    }

    fn find_at(&self, now: u64, id: &str, owner: Option<&str>) -> Option<Arc<Session>> {
        let mut table = self.lock();
        let slot = table.slots.get(id)?;
        if slot.session.owner.as_deref() != owner {
            return None;
        }
        if slot.is_overdue(self.limits.idle, now) {
            table.end(id);
            return None;
        }
        slot.session.note_use(now);
        Some(slot.session.clone())
    }

    /// Ends the session `id`. Returns `true` if `owner` had this session.
    pub(crate) fn remove(&self, id: &str, owner: Option<&str>) -> bool {
        self.find(id, owner).is_some() && self.lock().end(id)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, session: Session) -> Arc<str> {
        let id: Arc<str> = match &self.replica_ids {
            Some(ids) => ids.issue_id(ReplicaIdKind::Session).into(),
            None => unguessable_id().into(),
        };
        let key = self.key_of(&session);
        let holder = session.holder().clone();
        if let Some(archive) = &self.event_archive {
            session.archive_events(archive, &id);
        }
        let slot = Arc::new(Slot { id: id.clone(), session: Arc::new(session), key: Mutex::new(key) });
        self.order.slots.insert(key, slot.clone());
        self.holders.entry(holder).or_default().slots.insert(key, slot.clone());
        self.slots.insert(id.clone(), slot);
        id
    }

    /// Makes space for a new session of the caller `holder`. Returns `false` if a limit is reached and no
    /// session can be evicted.
    fn evict_for(&mut self, holder: &Holder, limits: &SessionLimits, now: u64) -> bool {
        let held = self.holders.get(holder).map_or(0, |order| order.slots.len());
        if limits.quota(holder).is_some_and(|quota| held >= quota) {
            return self.evict(Some(holder), Evictable::Idle, now);
        }
        if self.slots.len() < limits.max || self.evict(None, Evictable::Unconfirmed, now) {
            return true;
        }
        // If this caller already has its share of all sessions or more, evict one of its own sessions if
        // possible. Otherwise, the new sessions of one caller could evict the idle sessions of all other
        // callers.
        let has_its_share = held * self.holders.len() >= limits.max;
        has_its_share && self.evict(Some(holder), Evictable::Idle, now)
            || self.evict(None, Evictable::Idle, now)
    }

    /// Ends the first idle session in the eviction order of the caller `holder`, or of all sessions if
    /// `holder` is `None`. Returns `false` if no session can be ended.
    fn evict(&mut self, holder: Option<&Holder>, evictable: Evictable, now: u64) -> bool {
        let Some(order) = self.order_of(holder) else { return false };
        if order.exhausted_until > now {
            return false;
        }
        // The loop visits each key at most twice: first as an outdated key, and then after its renewal.
        for _ in 0..2 * order.slots.len() {
            let Some(first) = self.order_of(holder).and_then(|order| order.slots.values().next()).cloned()
            else {
                return false;
            };
            let (key, session) = (first.key(), &first.session);
            if key.is_confirmed && evictable == Evictable::Unconfirmed {
                return false;
            }
            let is_in_use = first.is_in_use();
            if !is_in_use
                && key.last_used == session.last_used()
                && key.is_confirmed == session.is_confirmed()
            {
                return self.end(&first.id);
            }
            if is_in_use {
                session.note_use(now);
            }
            self.renew_key(&first);
        }
        if let Some(order) = self.order_of_mut(holder) {
            order.exhausted_until = now + EXHAUSTED_PERIOD;
        }
        false
    }

    fn order_of(&self, holder: Option<&Holder>) -> Option<&EvictionOrder> {
        holder.map_or(Some(&self.order), |holder| self.holders.get(holder))
    }

    fn order_of_mut(&mut self, holder: Option<&Holder>) -> Option<&mut EvictionOrder> {
        match holder {
            None => Some(&mut self.order),
            Some(holder) => self.holders.get_mut(holder),
        }
    }

    /// Moves a session to its current position in both eviction orders.
    fn renew_key(&mut self, slot: &Arc<Slot>) {
        let new = self.key_of(&slot.session);
        let old = std::mem::replace(&mut *slot.lock_key(), new);
        let orders = [Some(&mut self.order), self.holders.get_mut(slot.session.holder())];
        for order in orders.into_iter().flatten() {
            order.slots.remove(&old);
            order.slots.insert(new, slot.clone());
        }
    }

    fn key_of(&mut self, session: &Session) -> EvictionKey {
        self.last_number += 1;
        EvictionKey {
            is_confirmed: session.is_confirmed(),
            last_used: session.last_used(),
            number: self.last_number,
        }
    }

    /// Ends the session `id`. Returns `true` if the table contained this session.
    fn end(&mut self, id: &str) -> bool {
        let Some(slot) = self.slots.remove(id) else { return false };
        let key = slot.key();
        self.order.slots.remove(&key);
        if let Some(order) = self.holders.get_mut(slot.session.holder()) {
            order.slots.remove(&key);
            if order.slots.is_empty() {
                self.holders.remove(slot.session.holder());
            }
        }
        slot.session.end();
        true
    }

    fn end_overdue(&mut self, idle: Duration, now: u64) {
        self.swept = now;
        let overdue = self.slots.values().filter(|slot| slot.is_overdue(idle, now));
        let overdue: Vec<_> = overdue.map(|slot| slot.id.clone()).collect();
        for id in overdue {
            self.end(&id);
        }
    }
}

impl Slot {
    /// Returns `true` if the session has an open stream or a request in progress. Only these two hold further
    /// references to the session.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.session) > 1
    }

    fn is_overdue(&self, idle: Duration, now: u64) -> bool {
        self.session.last_used().saturating_add(nanoseconds(idle)) < now && !self.is_in_use()
    }

    fn key(&self) -> EvictionKey {
        *self.lock_key()
    }

    fn lock_key(&self) -> MutexGuard<'_, EvictionKey> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time between two searches for expired sessions, in nanoseconds.
const SWEEP_PERIOD: u64 = 1_000_000_000;

/// After a search that found all sessions in use, the server evicts no session for this time, in nanoseconds.
/// Searches must be rare, because each search locks the table and visits every session.
const EXHAUSTED_PERIOD: u64 = 100_000_000;

#[cfg(test)]
mod tests;
