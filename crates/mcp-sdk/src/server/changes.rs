//! Who wants to know what has changed.
//!
//! A change is noted with each subscription that wants it; one that is noted already is noted once. So a client that
//! does not read costs no more than one that does.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What has changed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// The content of a resource.
    Resource(Arc<str>),
}

/// All subscriptions of a server.
#[derive(Clone, Debug)]
pub(crate) struct Changes<C = Change>(Arc<Mutex<Subscribers<C>>>);

#[derive(Debug)]
struct Subscribers<C> {
    next: u64,
    all: HashMap<u64, Arc<Subscriber<C>>>,
}

/// Somebody who wants to know of some changes, until this is dropped.
#[derive(Debug)]
pub(crate) struct Subscription<C = Change> {
    changes: Changes<C>,
    key: u64,
    subscriber: Arc<Subscriber<C>>,
}

#[derive(Debug)]
struct Subscriber<C> {
    state: Mutex<State<C>>,
    notify: Notify,
}

#[derive(Debug)]
struct State<C> {
    wanted: BTreeSet<C>,
    noted: BTreeSet<C>,
}

impl<C> Default for Changes<C> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Subscribers { next: 0, all: HashMap::new() })))
    }
}

impl<C: Clone + Ord> Changes<C> {
    pub(crate) fn subscribe(&self, wanted: impl IntoIterator<Item = C>) -> Subscription<C> {
        let state = State { wanted: wanted.into_iter().collect(), noted: BTreeSet::new() };
        let subscriber = Arc::new(Subscriber { state: Mutex::new(state), notify: Notify::new() });
        let mut subscribers = self.lock();
        let key = subscribers.next;
        subscribers.next += 1;
        subscribers.all.insert(key, subscriber.clone());
        drop(subscribers);
        Subscription { changes: self.clone(), key, subscriber }
    }

    pub(crate) fn announce(&self, change: &C) {
        for subscriber in self.lock().all.values() {
            let mut state = subscriber.lock();
            if state.wanted.contains(change) && state.noted.insert(change.clone()) {
                drop(state);
                subscriber.notify.notify_one();
            }
        }
    }
}

impl<C> Changes<C> {
    fn lock(&self) -> MutexGuard<'_, Subscribers<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clone + Ord> Subscription<C> {
    /// Tells of everything that is wanted, as if it had just changed.
    pub(crate) fn note_everything(&self) {
        let mut state = self.subscriber.lock();
        let State { wanted, noted } = &mut *state;
        noted.clone_from(wanted);
        drop(state);
        self.subscriber.notify.notify_one();
    }

    /// The next change.
    ///
    /// # Cancel safety
    /// No change is lost.
    pub(crate) async fn next(&self) -> C {
        loop {
            if let Some(change) = self.subscriber.lock().noted.pop_first() {
                return change;
            }
            self.subscriber.notify.notified().await;
        }
    }

    /// Wants to know of `change` too; whether that is new.
    pub(crate) fn add(&self, change: C) -> bool {
        self.subscriber.lock().wanted.insert(change)
    }

    /// Wants to know of `change` no more; whether it did.
    pub(crate) fn remove(&self, change: &C) -> bool {
        let mut state = self.subscriber.lock();
        state.noted.remove(change);
        state.wanted.remove(change)
    }

    /// How many changes are wanted.
    pub(crate) fn wanted_count(&self) -> usize {
        self.subscriber.lock().wanted.len()
    }
}

impl<C> Subscriber<C> {
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Drop for Subscription<C> {
    fn drop(&mut self) {
        self.changes.lock().all.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn next(subscription: &Subscription) -> Poll<Change> {
        pin!(subscription.next()).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_change_is_told_once_to_those_who_want_it() {
        let changes = Changes::default();
        let subscription = changes.subscribe([Change::Tools, Change::Resource("a".into())]);
        assert_eq!(next(&subscription), Poll::Pending);
        for change in [Change::Tools, Change::Prompts, Change::Tools, Change::Resource("b".into())] {
            changes.announce(&change);
        }
        assert_eq!(next(&subscription), Poll::Ready(Change::Tools));
        assert_eq!(next(&subscription), Poll::Pending);
        changes.announce(&Change::Resource("a".into()));
        assert_eq!(next(&subscription), Poll::Ready(Change::Resource("a".into())));
    }

    #[test]
    fn what_is_dropped_is_forgotten() {
        let changes = Changes::default();
        drop(changes.subscribe([Change::Tools]));
        assert!(changes.lock().all.is_empty());
    }
}
