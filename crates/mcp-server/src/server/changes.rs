//! Who wants to know what has changed.
//!
//! A change is noted with each subscription that wants it; one that is noted already is noted once. So a
//! client that does not read costs no more than one that does.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What has changed. The lists are before all resources.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
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
pub struct Subscription<C = Change> {
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
    /// How many of those that are wanted have names, and how long these are together.
    named: usize,
    bytes: usize,
}

/// A change that clients subscribe to.
pub trait Tellable: Clone + Ord {
    /// What tells it apart from others of its kind, if there are many.
    fn name(&self) -> Option<&str>;
}

impl<C> Default for Changes<C> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Subscribers { next: 0, all: HashMap::new() })))
    }
}

impl<C: Tellable> Changes<C> {
    /// Begins a subscription; `None` if it is about more than one may be.
    pub(crate) fn subscribe(&self, wanted: impl IntoIterator<Item = C>) -> Option<Subscription<C>> {
        let mut state = State { wanted: BTreeSet::new(), noted: BTreeSet::new(), named: 0, bytes: 0 };
        if !wanted.into_iter().all(|change| state.add(change)) {
            return None;
        }
        let subscriber = Arc::new(Subscriber { state: Mutex::new(state), notify: Notify::new() });
        let mut subscribers = self.lock();
        let key = subscribers.next;
        subscribers.next += 1;
        subscribers.all.insert(key, subscriber.clone());
        drop(subscribers);
        Some(Subscription { changes: self.clone(), key, subscriber })
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

impl<C: Tellable> Subscription<C> {
    /// Tells of everything that is wanted, as if it had just changed.
    pub fn note_everything(&self) {
        let mut state = self.subscriber.lock();
        let State { wanted, noted, .. } = &mut *state;
        noted.clone_from(wanted);
        drop(state);
        self.subscriber.notify.notify_one();
    }

    /// Tells of `change`, if it is wanted.
    pub fn note(&self, change: C) {
        let mut state = self.subscriber.lock();
        if state.wanted.contains(&change) && state.noted.insert(change) {
            drop(state);
            self.subscriber.notify.notify_one();
        }
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

    /// Wants to know of `change` too; `false` if that would be more than one subscription may be about.
    pub fn add(&self, change: C) -> bool {
        self.subscriber.lock().add(change)
    }

    /// Wants to know of `change` no more; whether it did.
    pub fn remove(&self, change: &C) -> bool {
        let mut state = self.subscriber.lock();
        state.noted.remove(change);
        let is_removed = state.wanted.remove(change);
        if is_removed && let Some(name) = change.name() {
            state.named -= 1;
            state.bytes -= name.len();
        }
        is_removed
    }
}

impl<C: Tellable> State<C> {
    fn add(&mut self, change: C) -> bool {
        if self.wanted.contains(&change) {
            return true;
        }
        if let Some(name) = change.name() {
            let bytes = self.bytes + name.len();
            if self.named >= NAMED_MAX || bytes > NAMES_BYTES_MAX {
                return false;
            }
            self.named += 1;
            self.bytes = bytes;
        }
        self.wanted.insert(change)
    }
}

impl Tellable for Change {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Tools | Self::Prompts | Self::Resources => None,
            Self::Resource(uri) => Some(uri),
        }
    }
}

/// The id of a task.
impl Tellable for Arc<str> {
    fn name(&self) -> Option<&str> {
        Some(self)
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

/// How many resources one subscription may be about.
const NAMED_MAX: usize = 1000;

/// How many octets the URIs of one subscription may have together: they are kept for as long as it lasts.
const NAMES_BYTES_MAX: usize = 256 << 10;

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
        let subscription = changes.subscribe([Change::Tools, Change::Resource("a".into())]).unwrap();
        assert_eq!(next(&subscription), Poll::Pending);
        for change in [Change::Tools, Change::Prompts, Change::Tools, Change::Resource("b".into())] {
            changes.announce(&change);
        }
        assert_eq!(next(&subscription), Poll::Ready(Change::Tools));
        assert_eq!(next(&subscription), Poll::Pending);
        changes.announce(&Change::Resource("a".into()));
        assert_eq!(next(&subscription), Poll::Ready(Change::Resource("a".into())));
    }

    /// A client could have a thousand URIs of 4 MiB each remembered, in each of its sessions.
    #[test]
    fn what_one_subscription_is_about_is_bounded() {
        let changes = Changes::default();
        let resource =
            |n: usize, bytes: usize| Change::Resource(format!("{n}{}", "x".repeat(bytes - 1)).into());
        assert!(changes.subscribe((0..NAMED_MAX).map(|n| resource(n, 8))).is_some());
        assert!(changes.subscribe((0..=NAMED_MAX).map(|n| resource(n, 8))).is_none());
        let subscription = changes.subscribe([resource(0, NAMES_BYTES_MAX)]).unwrap();
        assert!(subscription.add(resource(0, NAMES_BYTES_MAX)), "the same again");
        assert!(subscription.add(Change::Tools) && !subscription.add(resource(1, 1)));
        assert!(subscription.remove(&resource(0, NAMES_BYTES_MAX)) && subscription.add(resource(1, 1)));
    }

    #[test]
    fn what_is_dropped_is_forgotten() {
        let changes = Changes::default();
        drop(changes.subscribe([Change::Tools]));
        assert!(changes.lock().all.is_empty());
    }
}
