//! Subscriptions of clients to changes of lists, resources and tasks.
//!
//! Each subscription has a set of pending changes. The set contains each change at most once, so it stays
//! small even if the client does not read its notifications.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A change that the server reports to subscribed clients. The order of the variants is the order in which a
/// subscription reports its changes: changes of lists come before changes of resources.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// The list of tools has changed.
    Tools,
    /// The list of prompts has changed.
    Prompts,
    /// The list of resources has changed.
    Resources,
    /// The content of the resource with this URI has changed.
    Resource(Arc<str>),
}

/// All subscriptions to changes of type `C`.
#[derive(Clone, Debug)]
pub(crate) struct Changes<C = Change>(Arc<Mutex<Subscribers<C>>>);

#[derive(Debug)]
struct Subscribers<C> {
    next: u64,
    is_ended: bool,
    all: HashMap<u64, Arc<Subscriber<C>>>,
}

/// A subscription to some changes. Dropping this value ends the subscription.
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
    is_ended: bool,
    wanted: BTreeSet<C>,
    noted: BTreeSet<C>,
    /// Number of changes with a name in `wanted`.
    named: usize,
    /// Total length of these names, in bytes.
    bytes: usize,
}

/// A type of changes that clients can subscribe to.
pub trait ChangeKey: Clone + Ord {
    /// Returns the name of the changed object. Returns `None` for a change of a list.
    fn name(&self) -> Option<&str>;
}

impl<C> Default for Changes<C> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Subscribers { next: 0, is_ended: false, all: HashMap::new() })))
    }
}

impl<C: ChangeKey> Changes<C> {
    /// Starts a subscription to the changes in `wanted`. Returns `None` if the changes exceed the limits
    /// for one subscription.
    pub(crate) fn subscribe(&self, wanted: impl IntoIterator<Item = C>) -> Option<Subscription<C>> {
        let mut state =
            State { is_ended: false, wanted: BTreeSet::new(), noted: BTreeSet::new(), named: 0, bytes: 0 };
        if !wanted.into_iter().all(|change| state.add(change)) {
            return None;
        }
        let subscriber = Arc::new(Subscriber { state: Mutex::new(state), notify: Notify::new() });
        let mut subscribers = self.lock();
        subscriber.lock().is_ended = subscribers.is_ended;
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

    /// Marks all changes of all subscriptions as pending.
    pub(crate) fn announce_everything(&self) {
        self.lock().all.values().for_each(|subscriber| subscriber.note_everything());
    }
}

impl<C> Changes<C> {
    /// Returns the number of subscriptions.
    pub(crate) fn subscription_count(&self) -> usize {
        self.lock().all.len()
    }

    /// Ends all subscriptions, and also subscriptions that start later.
    pub(crate) fn end(&self) {
        let mut subscribers = self.lock();
        subscribers.is_ended = true;
        for subscriber in subscribers.all.values() {
            subscriber.lock().is_ended = true;
            subscriber.notify.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: ChangeKey> Subscription<C> {
    /// Marks all changes of the subscription as pending, as if they had just happened.
    pub fn note_everything(&self) {
        self.subscriber.note_everything();
    }

    /// Marks `change` as pending, if the subscription includes this change.
    pub fn note(&self, change: C) {
        let mut state = self.subscriber.lock();
        if state.wanted.contains(&change) && state.noted.insert(change) {
            drop(state);
            self.subscriber.notify.notify_one();
        }
    }

    /// Returns the next pending change. Waits if no change is pending.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub(crate) async fn next(&self) -> C {
        loop {
            if let Some(change) = self.subscriber.lock().noted.pop_first() {
                return change;
            }
            self.subscriber.notify.notified().await;
        }
    }

    /// Returns the next pending change, or `None` after [`Changes::end`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub(crate) async fn next_until_end(&self) -> Option<C> {
        loop {
            {
                let mut state = self.subscriber.lock();
                if let Some(change) = state.noted.pop_first() {
                    return Some(change);
                }
                if state.is_ended {
                    return None;
                }
            }
            self.subscriber.notify.notified().await;
        }
    }

    /// Adds `change` to the subscription. Returns `false` if the subscription would exceed its limits.
    pub fn add(&self, change: C) -> bool {
        self.subscriber.lock().add(change)
    }

    /// Removes `change` from the subscription. Returns `true` if the subscription was for this change.
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

    /// Removes the changes of all objects for whose name `is_removed` returns `true`.
    pub(crate) fn remove_named(&self, is_removed: impl Fn(&str) -> bool) {
        let mut state = self.subscriber.lock();
        let State { wanted, noted, named, bytes, .. } = &mut *state;
        wanted.retain(|change| match change.name() {
            Some(name) if is_removed(name) => {
                noted.remove(change);
                *named -= 1;
                *bytes -= name.len();
                false
            }
            _ => true,
        });
    }
}

impl<C: ChangeKey> State<C> {
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

impl ChangeKey for Change {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Tools | Self::Prompts | Self::Resources => None,
            Self::Resource(uri) => Some(uri),
        }
    }
}

/// In a subscription to tasks, the name of a change is the id of the task.
impl ChangeKey for Arc<str> {
    fn name(&self) -> Option<&str> {
        Some(self)
    }
}

impl<C: ChangeKey> Subscriber<C> {
    fn note_everything(&self) {
        let mut state = self.lock();
        let State { wanted, noted, .. } = &mut *state;
        noted.clone_from(wanted);
        drop(state);
        self.notify.notify_one();
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

/// Maximum number of resources or tasks in one subscription.
const NAMED_MAX: usize = 1000;

/// Maximum total length of the names in one subscription, in bytes. The server stores the names until the
/// subscription ends.
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
    fn subscription_receives_each_requested_change_once() {
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

    #[test]
    fn subscription_ends_after_its_pending_changes() {
        let changes = Changes::default();
        let subscription = changes.subscribe([Change::Tools]).unwrap();
        let next = |subscription: &Subscription| {
            pin!(subscription.next_until_end()).poll(&mut Context::from_waker(Waker::noop()))
        };
        assert_eq!(next(&subscription), Poll::Pending);
        changes.announce(&Change::Tools);
        changes.end();
        assert_eq!(next(&subscription), Poll::Ready(Some(Change::Tools)));
        assert_eq!(next(&subscription), Poll::Ready(None));
        assert_eq!(next(&changes.subscribe([Change::Tools]).unwrap()), Poll::Ready(None));
    }

    /// Without this limit, a client could make the server keep a thousand URIs of 4 MiB in each of its
    /// sessions.
    #[test]
    fn resources_of_a_subscription_are_limited() {
        let changes = Changes::default();
        let resource =
            |n: usize, bytes: usize| Change::Resource(format!("{n}{}", "x".repeat(bytes - 1)).into());
        assert!(changes.subscribe((0..NAMED_MAX).map(|n| resource(n, 8))).is_some());
        assert!(changes.subscribe((0..=NAMED_MAX).map(|n| resource(n, 8))).is_none());
        let subscription = changes.subscribe([resource(0, NAMES_BYTES_MAX)]).unwrap();
        assert!(
            subscription.add(resource(0, NAMES_BYTES_MAX)),
            "a repeated resource should need no more capacity"
        );
        assert!(subscription.add(Change::Tools) && !subscription.add(resource(1, 1)));
        assert!(subscription.remove(&resource(0, NAMES_BYTES_MAX)) && subscription.add(resource(1, 1)));
        subscription.remove_named(|name| name.starts_with('1'));
        assert!(subscription.add(resource(0, NAMES_BYTES_MAX)));
        changes.announce(&resource(1, 1));
        assert_eq!(next(&subscription), Poll::Pending);
    }

    #[test]
    fn dropped_subscription_is_removed() {
        let changes = Changes::default();
        drop(changes.subscribe([Change::Tools]));
        assert!(changes.lock().all.is_empty());
    }
}
