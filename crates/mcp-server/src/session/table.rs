//! The sessions of a server: found by their ids, limited in number, and ended when nobody uses them.
//!
//! A flood of new sessions must not end the sessions of others. So each session counts against its
//! [`Holder`], a session in use is never evicted, and the sessions whose clients sent nothing but
//! `initialize` go first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_net::unguessable_id;

use super::{Session, nanoseconds, now};
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
    /// Maximum number of sessions of one principal.
    pub(crate) per_principal_max: usize,
    /// Maximum number of sessions of one address.
    pub(crate) per_address_max: usize,
}

/// All sessions are in use, or all sessions of the holder if its quota is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoCapacity;

#[derive(Default, Debug)]
struct Table {
    slots: HashMap<Arc<str>, Arc<Slot>>,
    /// All sessions.
    order: EvictionOrder,
    /// The sessions of each holder; never empty.
    holders: HashMap<Holder, EvictionOrder>,
    /// Number of the last key.
    last_number: u64,
    /// Time of the last search for overdue sessions, in nanoseconds.
    swept: u64,
}

/// A session in the table. Its only reference to the session is the only one of an idle session.
#[derive(Debug)]
struct Slot {
    id: Arc<str>,
    session: Arc<Session>,
    /// Its place in the eviction orders.
    key: Mutex<EvictionKey>,
}

/// Sessions in the order in which they are evicted. A key shows its session as it was when the key was made:
/// an eviction renews the keys that it finds outdated, so that requests do not have to.
#[derive(Default, Debug)]
struct EvictionOrder {
    slots: BTreeMap<EvictionKey, Arc<Slot>>,
    /// Until then, nobody searches again: all sessions were in use. In nanoseconds.
    exhausted_until: u64,
}

/// The first is evicted first: an unconfirmed session before a confirmed one, then the one unused for
/// longest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct EvictionKey {
    is_confirmed: bool,
    last_used: u64,
    /// Different for each key.
    number: u64,
}

/// Sessions that an eviction may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Evictable {
    Unconfirmed,
    Idle,
}

impl SessionLimits {
    /// Maximum number of sessions of `holder`, if it has a quota.
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

    /// Keeps a session and returns its id, which nobody can guess. Ends an idle session if there are too
    /// many.
    ///
    /// # Errors
    /// There are too many, and all of them are in use.
    ///
    /// # Panics
    /// As [`unguessable_id`] does.
    pub(crate) fn insert(&self, session: Session) -> Result<Arc<str>, NoCapacity> {
        self.insert_at(nanoseconds(now()), session)
    }

    fn insert_at(&self, now: u64, session: Session) -> Result<Arc<str>, NoCapacity> {
        let mut table = self.lock();
        if now >= table.swept + SWEEP_PERIOD {
            table.end_overdue(self.limits.idle, now);
        }
        if !table.make_room(session.holder(), &self.limits, now) {
            return Err(NoCapacity);
        }
        Ok(table.insert(session))
    }

    /// Ends the sessions that have been unused for too long.
    pub(crate) fn sweep(&self) {
        self.lock().end_overdue(self.limits.idle, nanoseconds(now()));
    }

    /// The session, if it is `owner`'s and has not ended. The session is confirmed from now on.
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

    /// Ends a session; `true` if `owner` has such a session.
    pub(crate) fn remove(&self, id: &str, owner: Option<&str>) -> bool {
        self.find(id, owner).is_some() && self.lock().end(id)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, session: Session) -> Arc<str> {
        let id: Arc<str> = unguessable_id().into();
        let key = self.key_of(&session);
        let holder = session.holder().clone();
        let slot = Arc::new(Slot { id: id.clone(), session: Arc::new(session), key: Mutex::new(key) });
        self.order.slots.insert(key, slot.clone());
        self.holders.entry(holder).or_default().slots.insert(key, slot.clone());
        self.slots.insert(id.clone(), slot);
        id
    }

    /// Makes room for a session of `holder`; `false` if that would end a session in use.
    fn make_room(&mut self, holder: &Holder, limits: &SessionLimits, now: u64) -> bool {
        let held = self.holders.get(holder).map_or(0, |order| order.slots.len());
        if limits.quota(holder).is_some_and(|quota| held >= quota) {
            return self.evict(Some(holder), Evictable::Idle, now);
        }
        if self.slots.len() < limits.max || self.evict(None, Evictable::Unconfirmed, now) {
            return true;
        }
        // A holder of more than its share makes room for itself: otherwise, a flood that stays below its
        // quota would evict the idle sessions of everybody else.
        let has_its_share = held * self.holders.len() >= limits.max;
        has_its_share && self.evict(Some(holder), Evictable::Idle, now)
            || self.evict(None, Evictable::Idle, now)
    }

    /// Ends the first session, of `holder` or of anybody, that is idle; `false` if there is none.
    fn evict(&mut self, holder: Option<&Holder>, evictable: Evictable, now: u64) -> bool {
        let Some(order) = self.order_of(holder) else { return false };
        if order.exhausted_until > now {
            return false;
        }
        // Each key is looked at twice at most: when it is found outdated, and when it has been renewed.
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

    /// Puts a session to its present place in both orders.
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

    /// Ends a session; `true` if it was there.
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
    /// `true` while a stream is open, or a request is handled: only then is there another reference.
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

/// Time between two searches for overdue sessions, in nanoseconds.
const SWEEP_PERIOD: u64 = 1_000_000_000;

/// Time for which an order in which all sessions are in use is not searched again, in nanoseconds. A search
/// looks at every session, and the table is locked meanwhile.
const EXHAUSTED_PERIOD: u64 = 100_000_000;

#[cfg(test)]
mod tests;
