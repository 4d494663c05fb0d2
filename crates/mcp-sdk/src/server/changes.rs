//! Who wants to know what has changed.
//!
//! A change is noted with each subscription that wants it; one that is noted already is noted once. So a client that
//! does not read costs no more than one that does.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What has changed. The lists are before all resources.
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
#[derive(Clone, Default, Debug)]
pub(crate) struct Changes(Arc<Mutex<Subscribers>>);

#[derive(Default, Debug)]
struct Subscribers {
    next: u64,
    all: HashMap<u64, Arc<Subscriber>>,
}

/// Somebody who wants to know of some changes, until this is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    changes: Changes,
    key: u64,
    subscriber: Arc<Subscriber>,
}

#[derive(Debug)]
struct Subscriber {
    state: Mutex<State>,
    notify: Notify,
}

#[derive(Default, Debug)]
struct State {
    wanted: BTreeSet<Change>,
    noted: BTreeSet<Change>,
    /// How long the names of the wanted resources are together.
    bytes: usize,
}

impl Changes {
    /// Begins a subscription; `None` if it is about more than one may be.
    pub(crate) fn subscribe(&self, wanted: impl IntoIterator<Item = Change>) -> Option<Subscription> {
        let mut state = State::default();
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

    pub(crate) fn announce(&self, change: &Change) {
        for subscriber in self.lock().all.values() {
            let mut state = subscriber.lock();
            if state.wanted.contains(change) && state.noted.insert(change.clone()) {
                drop(state);
                subscriber.notify.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// The next change.
    ///
    /// # Cancel safety
    /// No change is lost.
    pub(crate) async fn next(&self) -> Change {
        loop {
            if let Some(change) = self.subscriber.lock().noted.pop_first() {
                return change;
            }
            self.subscriber.notify.notified().await;
        }
    }

    /// Wants to know of `change` too; `false` if that would be more than one subscription may be about.
    pub(crate) fn add(&self, change: Change) -> bool {
        self.subscriber.lock().add(change)
    }

    /// Wants to know of `change` no more; whether it did.
    pub(crate) fn remove(&self, change: &Change) -> bool {
        let mut state = self.subscriber.lock();
        state.noted.remove(change);
        let is_removed = state.wanted.remove(change);
        if is_removed {
            state.bytes -= change.bytes();
        }
        is_removed
    }
}

impl State {
    fn add(&mut self, change: Change) -> bool {
        if self.wanted.contains(&change) {
            return true;
        }
        let bytes = self.bytes + change.bytes();
        let resources = self.wanted.len() - self.wanted.range(..=Change::Resources).count();
        let is_resource = change > Change::Resources;
        if is_resource && (resources >= RESOURCES_MAX || bytes > RESOURCES_BYTES_MAX) {
            return false;
        }
        self.bytes = bytes;
        self.wanted.insert(change)
    }
}

impl Change {
    /// What is remembered of it.
    fn bytes(&self) -> usize {
        match self {
            Self::Tools | Self::Prompts | Self::Resources => 0,
            Self::Resource(uri) => uri.len(),
        }
    }
}

impl Subscriber {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.changes.lock().all.remove(&self.key);
    }
}

/// How many resources one subscription may be about.
const RESOURCES_MAX: usize = 1000;

/// How many octets the URIs of one subscription may have together: they are kept for as long as it lasts.
const RESOURCES_BYTES_MAX: usize = 256 << 10;

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
        assert!(changes.subscribe((0..RESOURCES_MAX).map(|n| resource(n, 8))).is_some());
        assert!(changes.subscribe((0..=RESOURCES_MAX).map(|n| resource(n, 8))).is_none());
        let subscription = changes.subscribe([resource(0, RESOURCES_BYTES_MAX)]).unwrap();
        assert!(subscription.add(resource(0, RESOURCES_BYTES_MAX)), "the same again");
        assert!(subscription.add(Change::Tools) && !subscription.add(resource(1, 1)));
        assert!(subscription.remove(&resource(0, RESOURCES_BYTES_MAX)) && subscription.add(resource(1, 1)));
    }

    #[test]
    fn what_is_dropped_is_forgotten() {
        let changes = Changes::default();
        drop(changes.subscribe([Change::Tools]));
        assert!(changes.lock().all.is_empty());
    }
}
