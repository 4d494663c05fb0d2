//! The exchange of changes between the replicas of a server.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::changes::Change;

/// Exchanges changes with the other replicas of a server, so that a client also gets the notifications about changes
/// that happen on another replica. The application sends the changes from [`next`](Self::next) to the other replicas,
/// for example over a channel of Redis, and passes the changes of the other replicas to [`apply`](Self::apply).
/// Clones share all state.
///
/// ```
/// use thruway_mcp_server::{ChangeSharing, McpServer};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (here, there) = (ChangeSharing::default(), ChangeSharing::default());
/// let replica = McpServer::new("notes", "1.0.0");
/// replica.share_changes(&here);
/// McpServer::new("notes", "1.0.0").share_changes(&there);
///
/// replica.resource_updated("note://1");
/// // Clients of the other replica that have subscribed to `note://1` now get a notification.
/// there.apply(&here.next().await);
/// # }
/// ```
///
/// A change that another replica has shared is not shared again. Several equal changes become one change if the
/// application does not read them in time, so the memory is bounded.
#[derive(Clone, Default)]
pub struct ChangeSharing(Arc<Sharing>);

#[derive(Default)]
struct Sharing {
    /// The changes that the application has not read yet.
    waiting: Mutex<SharedChanges>,
    noted: Notify,
    receivers: Mutex<Vec<Receiver>>,
}

/// Passes changes of other replicas to a server of this replica. Returns `false` if the server is gone.
type Receiver = Arc<dyn Fn(&SharedChanges) -> bool + Send + Sync>;

/// Changes that a replica shares with the other replicas of a server.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the changes are independent")]
pub struct SharedChanges {
    #[serde(default, skip_serializing_if = "is_false")]
    tools: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    prompts: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    resources: bool,
    /// The URIs of the resources whose content has changed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    uris: BTreeSet<Box<str>>,
    /// `true` if every list and every resource may have changed.
    #[serde(default, skip_serializing_if = "is_false")]
    unknown: bool,
}

impl SharedChanges {
    /// Returns changes of all lists.
    pub fn lists() -> Self {
        Self { tools: true, prompts: true, resources: true, ..Self::default() }
    }

    /// Returns the value for lost messages: every list and every resource may have changed.
    pub fn unknown() -> Self {
        Self { unknown: true, ..Self::default() }
    }

    /// Returns `true` if there is no change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the changes of lists.
    pub fn changed_lists(&self) -> impl Iterator<Item = Change> {
        let lists = [
            (self.tools, Change::Tools),
            (self.prompts, Change::Prompts),
            (self.resources, Change::Resources),
        ];
        let is_unknown = self.unknown;
        lists.into_iter().filter(move |(is_changed, _)| *is_changed || is_unknown).map(|(_, change)| change)
    }

    /// Returns `true` if every list and every resource may have changed.
    pub const fn is_unknown(&self) -> bool {
        self.unknown
    }

    /// Returns the URIs of the resources whose content has changed.
    pub fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.iter().map(|uri| &**uri)
    }

    fn add(&mut self, change: &Change) {
        match change {
            Change::Tools => self.tools = true,
            Change::Prompts => self.prompts = true,
            Change::Resources => self.resources = true,
            Change::Resource(_) if self.unknown => {}
            Change::Resource(uri) => {
                self.uris.insert((**uri).into());
            }
        }
    }

    fn add_all(&mut self, other: Self) {
        self.tools |= other.tools;
        self.prompts |= other.prompts;
        self.resources |= other.resources;
        self.unknown |= other.unknown;
        self.uris.extend(other.uris);
    }

    /// Replaces too many URIs by the notice that every resource may have changed.
    fn limit(&mut self) {
        let is_over =
            self.uris.len() > URIS_MAX || self.uris.iter().map(|uri| uri.len()).sum::<usize>() > BYTES_MAX;
        if is_over || self.unknown {
            self.unknown = true;
            self.uris.clear();
        }
    }
}

impl ChangeSharing {
    /// Waits for changes of this replica, and returns all changes since the last call. The changes are for the other
    /// replicas.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn next(&self) -> SharedChanges {
        loop {
            let changes = std::mem::take(&mut *lock(&self.0.waiting));
            if !changes.is_empty() {
                return changes;
            }
            self.0.noted.notified().await;
        }
    }

    /// Adds changes of this replica for the other replicas, for example changes that the application could not send.
    pub fn share(&self, changes: SharedChanges) {
        let mut waiting = lock(&self.0.waiting);
        waiting.add_all(changes);
        waiting.limit();
        drop(waiting);
        self.0.noted.notify_one();
    }

    /// Notifies the clients of this replica about changes of another replica.
    pub fn apply(&self, changes: &SharedChanges) {
        let receivers = lock(&self.0.receivers).clone();
        let gone: Vec<_> = receivers.into_iter().filter(|receive| !receive(changes)).collect();
        let is_gone = |receiver: &Receiver| gone.iter().any(|gone| Arc::ptr_eq(gone, receiver));
        lock(&self.0.receivers).retain(|receiver| !is_gone(receiver));
    }

    /// Passes changes of other replicas to `receive` until it returns `false`.
    pub(super) fn add_receiver(&self, receive: impl Fn(&SharedChanges) -> bool + Send + Sync + 'static) {
        lock(&self.0.receivers).push(Arc::new(receive));
    }

    /// Adds a change of this replica.
    pub(super) fn note(&self, change: &Change) {
        let mut waiting = lock(&self.0.waiting);
        waiting.add(change);
        waiting.limit();
        drop(waiting);
        self.0.noted.notify_one();
    }
}

impl fmt::Debug for ChangeSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeSharing").field("waiting", &*lock(&self.0.waiting)).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Maximum number of URIs that wait.
const URIS_MAX: usize = 1000;

/// Maximum total length of the URIs that wait, in bytes. As JSON, they need at most six times as many bytes, which is
/// less than the maximum size of a message in a store.
const BYTES_MAX: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::McpServer;
    use crate::server::Subscription;

    fn server() -> (McpServer, ChangeSharing) {
        let (server, sharing) = (McpServer::new("notes", "1.0.0"), ChangeSharing::default());
        server.share_changes(&sharing);
        (server, sharing)
    }

    fn waiting(sharing: &ChangeSharing) -> Poll<SharedChanges> {
        pin!(sharing.next()).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn next(subscription: &Subscription) -> Poll<Change> {
        pin!(subscription.next()).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn change_reaches_the_clients_of_another_replica_once_and_is_not_shared_again() {
        let ((here, to_others), (there, of_others)) = (server(), server());
        let subscription =
            there.core.changes.subscribe([Change::Tools, Change::Resource("note://1".into())]).unwrap();
        for _ in 0..3 {
            here.resource_updated("note://1");
            here.resource_updated("note://2");
        }
        let Poll::Ready(changes) = waiting(&to_others) else { panic!("no change") };
        assert_eq!(waiting(&to_others), Poll::Pending);
        let json = serde_json::to_string(&changes).unwrap();
        assert_eq!(json, r#"{"uris":["note://1","note://2"]}"#);
        of_others.apply(&serde_json::from_str(&json).unwrap());
        assert_eq!(next(&subscription), Poll::Ready(Change::Resource("note://1".into())));
        assert_eq!((next(&subscription), waiting(&of_others)), (Poll::Pending, Poll::Pending));
    }

    #[test]
    fn unknown_changes_reach_every_subscription() {
        let (there, of_others) = server();
        let wanted = [Change::Prompts, Change::Resource("note://1".into())];
        let subscription = there.core.changes.subscribe(wanted.clone()).unwrap();
        of_others.apply(&SharedChanges::unknown());
        assert_eq!(wanted.map(Poll::Ready), [next(&subscription), next(&subscription)]);
        assert_eq!(next(&subscription), Poll::Pending);
    }

    #[test]
    fn waiting_changes_are_bounded() {
        let (here, to_others) = server();
        for number in 0..=URIS_MAX {
            here.resource_updated(&format!("note://{number}"));
        }
        assert_eq!(waiting(&to_others), Poll::Ready(SharedChanges::unknown()));
        here.resource_updated(&"x".repeat(BYTES_MAX + 1));
        here.resource_updated("note://1");
        // Changes that the application could not send wait together with newer changes.
        to_others.share(SharedChanges::lists());
        let expected = SharedChanges { unknown: true, ..SharedChanges::lists() };
        assert_eq!(waiting(&to_others), Poll::Ready(expected));
    }
}
