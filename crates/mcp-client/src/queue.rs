//! State of subscriptions: the changes that the caller has not fetched yet, and the locks for subscription
//! requests.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use thruway_mcp::schema::{ResourceUpdatedNotificationParams, SubscriptionFilter, methods};
use tokio::sync::{Notify, OwnedMutexGuard};

use super::error::McpClientError;
use super::handlers::ServerNotification;

/// The changes that the caller of a subscription has not fetched yet. Each list and each resource occurs at
/// most once, even if it changes repeatedly. Therefore the filter limits the length of the queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) filter: SubscriptionFilter,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default, Debug)]
pub(super) struct State {
    pub(super) notifications: VecDeque<ServerNotification>,
    /// `true` if the server has acknowledged the current stream of the subscription.
    pub(super) is_acknowledged: bool,
    /// `true` if the server has acknowledged any stream of the subscription.
    was_subscribed: bool,
    /// The reason why the subscription has ended, if it has ended.
    pub(super) end: Option<McpClientError>,
}

impl Queue {
    pub(super) fn new(filter: SubscriptionFilter) -> Self {
        Self { filter, state: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a notification if it matches the filter of the subscription. Also handles the acknowledgment of
    /// the subscription.
    pub(super) fn handle(&self, method: &str, notification: &ServerNotification) {
        if method == methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED {
            return self.acknowledge();
        }
        if admits(&self.filter, notification) {
            self.push(notification.clone());
        }
    }

    fn acknowledge(&self) {
        let mut state = self.state();
        state.is_acknowledged = true;
        state.was_subscribed = true;
        drop(state);
        self.changed.notify_waiters();
    }

    pub(super) fn push(&self, notification: ServerNotification) {
        let mut state = self.state();
        match state.notifications.iter_mut().find(|noted| is_same(noted, &notification)) {
            Some(noted) => *noted = notification,
            None => state.notifications.push_back(notification),
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns one change notification for each list and each resource in the filter.
    pub(super) fn everything(&self) -> impl Iterator<Item = ServerNotification> {
        let filter = &self.filter;
        let lists = [
            (filter.tools_list_changed, ServerNotification::ToolsListChanged),
            (filter.prompts_list_changed, ServerNotification::PromptsListChanged),
            (filter.resources_list_changed, ServerNotification::ResourcesListChanged),
        ];
        let lists = lists
            .into_iter()
            .filter(|(wanted, _)| *wanted == Some(true))
            .map(|(_, notification)| notification);
        lists.chain(filter.resource_subscriptions.iter().map(|uri| {
            let params = ResourceUpdatedNotificationParams { uri: uri.clone(), meta: None };
            ServerNotification::ResourceUpdated(params)
        }))
    }

    /// Ends the subscription.
    pub(super) fn end(&self, reason: McpClientError) {
        self.state().end = Some(reason);
        self.changed.notify_waiters();
    }

    /// Calls `take` at once and after each change, until `take` returns a value.
    pub(super) async fn wait_for<T>(&self, take: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(taken) = take(&mut self.state()) {
                return taken;
            }
            changed.await;
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the outcome of the first attempt to subscribe, or `None` while the attempt is pending.
    pub(super) fn subscribed(&self) -> Option<Result<(), McpClientError>> {
        match &self.end {
            _ if self.was_subscribed => Some(Ok(())),
            Some(reason) => Some(Err(reason.clone())),
            None => None,
        }
    }
}

/// `true` if both notifications are about the same list or resource.
fn is_same(one: &ServerNotification, other: &ServerNotification) -> bool {
    match (one, other) {
        (ServerNotification::ResourceUpdated(one), ServerNotification::ResourceUpdated(other)) => {
            one.uri == other.uri
        }
        _ => one == other,
    }
}

fn admits(filter: &SubscriptionFilter, notification: &ServerNotification) -> bool {
    match notification {
        ServerNotification::ToolsListChanged => filter.tools_list_changed == Some(true),
        ServerNotification::PromptsListChanged => filter.prompts_list_changed == Some(true),
        ServerNotification::ResourcesListChanged => filter.resources_list_changed == Some(true),
        ServerNotification::ResourceUpdated(updated) => filter.resource_subscriptions.contains(&updated.uri),
        ServerNotification::Message(_) | ServerNotification::Other { .. } => false,
    }
}

/// `true` while a background task renews the subscriptions. At most one task does this, even if several
/// sessions end in the meantime.
#[derive(Default, Debug)]
pub(super) struct Resubscription(pub(super) AtomicBool);

/// One lock for each resource URI, held during a request to subscribe or to unsubscribe. Without the locks,
/// the server could handle such requests in the wrong order, because HTTP requests use several connections.
#[derive(Default, Debug)]
pub(super) struct UriLocks(Mutex<HashMap<Box<str>, Weak<tokio::sync::Mutex<()>>>>);

impl UriLocks {
    /// Waits until no other subscribe or unsubscribe request for `uri` is in flight.
    pub(super) async fn lock(&self, uri: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(uri).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::<tokio::sync::Mutex<()>>::default();
                locks.insert(uri.into(), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Regression test: updates with different metadata were all kept, and a server can send any number of
    /// them.
    #[test]
    fn repeated_updates_of_a_resource_are_queued_once() {
        let wanted = ["test://a", "test://b"].map(str::to_owned);
        let filter = SubscriptionFilter {
            tools_list_changed: Some(true),
            resource_subscriptions: wanted.to_vec(),
            ..SubscriptionFilter::default()
        };
        let queue = Queue::new(filter);
        for n in 0..1000 {
            for uri in ["test://a", "test://b", "test://c"] {
                let params = json!({"uri": uri, "_meta": {"n": n}});
                let updated = ServerNotification::ResourceUpdated(serde_json::from_value(params).unwrap());
                queue.handle(methods::NOTIFICATIONS_RESOURCES_UPDATED, &updated);
            }
            let changed = ServerNotification::ToolsListChanged;
            queue.handle(methods::NOTIFICATIONS_TOOLS_LIST_CHANGED, &changed);
        }
        let queued = &queue.state().notifications;
        assert_eq!(queued.len(), 3);
        let ServerNotification::ResourceUpdated(updated) = &queued[0] else { panic!("{queued:?}") };
        assert_eq!(updated.meta.as_ref().unwrap()["n"], 999, "the queue should keep the latest update");
    }
}
