//! Subscriptions: what the server tells when something changes, in both eras, for as long as it is wanted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_mcp::Era;
use thruway_mcp::schema::{
    ResourceUpdatedNotificationParams, SubscribeRequestParams, SubscriptionFilter,
    SubscriptionsListenRequestParams, methods,
};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::McpClient;
use super::conversation::Conversation;
use super::deadline::{FOR_EVER, Patience};
use super::eras::Call;
use super::error::McpClientError;
use super::handlers::ServerNotification;

/// Tells of changes, until it is dropped.
///
/// Where the stream breaks it is opened again, and whatever may have changed meanwhile is told as changed, to
/// [`on_notification`](super::McpClientBuilder::on_notification) too.
pub struct Subscription {
    queue: Arc<Queue>,
    client: McpClient,
    era: Era,
    driving: Option<AbortHandle>,
}

/// What a subscription is to be told: each list and each resource once, however often it changes, so that there is no more than
/// was asked for.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) filter: SubscriptionFilter,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default, Debug)]
struct State {
    told: VecDeque<ServerNotification>,
    /// The stream that is open has been acknowledged.
    is_acknowledged: bool,
    /// One has been, ever.
    has_stood: bool,
    /// Why there will be no more.
    end: Option<McpClientError>,
}

impl Queue {
    fn new(filter: SubscriptionFilter) -> Self {
        Self { filter, state: Mutex::default(), changed: Notify::new() }
    }

    /// Takes what the server tells, if it was asked for.
    pub(super) fn handle(&self, method: &str, told: &ServerNotification) {
        if method == methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED {
            return self.acknowledge();
        }
        if admits(&self.filter, told) {
            self.push(told.clone());
        }
    }

    fn acknowledge(&self) {
        let mut state = self.state();
        state.is_acknowledged = true;
        state.has_stood = true;
        drop(state);
        self.changed.notify_waiters();
    }

    fn push(&self, told: ServerNotification) {
        let mut state = self.state();
        match state.told.iter_mut().find(|noted| is_same(noted, &told)) {
            Some(noted) => *noted = told,
            None => state.told.push_back(told),
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whatever may have changed.
    fn everything(&self) -> impl Iterator<Item = ServerNotification> {
        let filter = &self.filter;
        let lists = [
            (filter.tools_list_changed, ServerNotification::ToolsListChanged),
            (filter.prompts_list_changed, ServerNotification::PromptsListChanged),
            (filter.resources_list_changed, ServerNotification::ResourcesListChanged),
        ];
        let lists = lists.into_iter().filter(|(wanted, _)| *wanted == Some(true)).map(|(_, told)| told);
        lists.chain(filter.resource_subscriptions.iter().map(|uri| {
            let params = ResourceUpdatedNotificationParams { uri: uri.clone(), meta: None };
            ServerNotification::ResourceUpdated(params)
        }))
    }

    /// Nothing will be told any more.
    pub(super) fn end(&self, reason: McpClientError) {
        self.state().end = Some(reason);
        self.changed.notify_waiters();
    }

    /// Takes something out of the state, as soon as it is there.
    async fn wait_for<T>(&self, take: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(taken) = take(&mut self.state()) {
                return taken;
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the subscription stands, or why it does not.
    fn standing(&self) -> Option<Result<(), McpClientError>> {
        match &self.end {
            _ if self.has_stood => Some(Ok(())),
            Some(reason) => Some(Err(reason.clone())),
            None => None,
        }
    }
}

/// Whether both tell of the same change, whatever else is said of it.
fn is_same(one: &ServerNotification, other: &ServerNotification) -> bool {
    match (one, other) {
        (ServerNotification::ResourceUpdated(one), ServerNotification::ResourceUpdated(other)) => {
            one.uri == other.uri
        }
        _ => one == other,
    }
}

fn admits(filter: &SubscriptionFilter, told: &ServerNotification) -> bool {
    match told {
        ServerNotification::ToolsListChanged => filter.tools_list_changed == Some(true),
        ServerNotification::PromptsListChanged => filter.prompts_list_changed == Some(true),
        ServerNotification::ResourcesListChanged => filter.resources_list_changed == Some(true),
        ServerNotification::ResourceUpdated(updated) => filter.resource_subscriptions.contains(&updated.uri),
        ServerNotification::Message(_) | ServerNotification::Other { .. } => false,
    }
}

impl Conversation {
    /// Tells of all that `queue` is about that it may have changed, as if the server had: nobody knows what was missed.
    pub(super) fn tell_everything(&self, queue: &Queue) {
        for told in queue.everything() {
            self.cache.forget(&told);
            queue.push(told.clone());
            self.incoming.handlers.notify(told);
        }
    }
}

impl McpClient {
    /// Subscribes to changes: by `subscriptions/listen` in the modern era, by `resources/subscribe` in the legacy one, where
    /// changes of lists are told anyway.
    ///
    /// # Errors
    /// The server does not want it.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, McpClientError> {
        let spoken = self.spoken().await?;
        let queue = Arc::new(Queue::new(filter));
        let era = spoken.era();
        let mut subscription =
            Subscription { queue: queue.clone(), client: self.clone(), era, driving: None };
        match era {
            Era::Modern => {
                let driving = drive(self.clone(), queue.clone());
                subscription.driving = Some(self.conversation.spawn(driving).abort_handle());
                let standing = queue.wait_for(|state| state.standing());
                timeout(self.options.patience.timeout, standing)
                    .await
                    .map_err(|_| McpClientError::TimedOut)??;
            }
            Era::Legacy => {
                self.conversation.incoming.subscribe(&queue)?;
                spoken.begin(&self.conversation);
                self.subscribe(&queue).await?;
            }
        }
        Ok(subscription)
    }
}

/// Keeps a subscription open.
async fn drive(client: McpClient, queue: Arc<Queue>) {
    let mut pause = PAUSE;
    let mut was_acknowledged = false;
    loop {
        let began = Instant::now();
        let open = client.listen_once(&queue);
        let resumed = queue.wait_for(|state| (was_acknowledged && state.is_acknowledged).then_some(()));
        let mut open = std::pin::pin!(open);
        let mut is_told = false;
        let outcome = tokio::select! {
            outcome = &mut open => outcome,
            () = resumed => {
                client.conversation.tell_everything(&queue);
                is_told = true;
                open.as_mut().await
            }
        };
        let is_acknowledged = std::mem::take(&mut queue.state().is_acknowledged);
        if was_acknowledged && is_acknowledged && !is_told {
            // It ended as soon as it stood.
            client.conversation.tell_everything(&queue);
        }
        was_acknowledged |= is_acknowledged;
        if began.elapsed() > PAUSE_MAX {
            pause = PAUSE;
        }
        match outcome {
            // It was refused, or there is no way to come back.
            Err(error) if !was_acknowledged || !client.can_resume(&error) => {
                return queue.end(error);
            }
            Ok(()) if !was_acknowledged => return queue.end(McpClientError::MessageInvalid),
            Ok(()) | Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl Subscription {
    /// What has changed; `None` once nothing can be told any more.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<ServerNotification> {
        let next = self.queue.wait_for(|state| match state.told.pop_front() {
            Some(told) => Some(Some(told)),
            None => state.end.as_ref().map(|_| None),
        });
        next.await
    }

    /// Why nothing can be told any more.
    pub fn end(&self) -> Option<McpClientError> {
        self.queue.state().end.clone()
    }
}

impl Drop for Subscription {
    /// The server is told because there is no other place that learns that nobody listens.
    fn drop(&mut self) {
        if let Some(driving) = &self.driving {
            driving.abort();
        }
        let conversation = &self.client.conversation;
        conversation.incoming.unsubscribe(&self.queue);
        let uris = &self.queue.filter.resource_subscriptions;
        if self.era == Era::Legacy && !uris.is_empty() {
            let (client, uris) = (self.client.clone(), uris.clone());
            conversation.spawn(async move { client.unsubscribe(uris).await });
        }
    }
}

impl McpClient {
    /// Opens a subscription, and waits until it ends.
    async fn listen_once(&self, queue: &Arc<Queue>) -> Result<(), McpClientError> {
        let spoken = self.spoken().await?;
        let params = SubscriptionsListenRequestParams { notifications: queue.filter.clone(), meta: None };
        let patience = Patience { timeout: FOR_EVER, timeout_max: FOR_EVER };
        let call =
            Call { queue: Some(queue.clone()), patience, ..self.call(methods::SUBSCRIPTIONS_LISTEN, params) };
        spoken.perform(&self.conversation, &call).await.map(|answer| drop(answer.into_raw()))
    }

    /// Whether a subscription that has ended in this way may be opened again.
    fn can_resume(&self, error: &McpClientError) -> bool {
        let binding = &self.conversation.binding;
        error.is_temporary() && !self.is_closed() && (!binding.has_common_stream() || binding.can_reopen())
    }

    /// Cancels the subscriptions to resources that no other queue wants. New subscriptions to such a resource wait until the
    /// server has answered, or [`UNSUBSCRIBE_WAIT`] has passed.
    async fn unsubscribe(self, uris: Vec<String>) {
        let client = self.hurried(UNSUBSCRIBE_WAIT);
        let conversation = &client.conversation;
        let is_wanted = |uri: &String| {
            let queues = conversation.incoming.queues();
            queues.iter().any(|queue| queue.filter.resource_subscriptions.contains(uri))
        };
        for uri in uris {
            let _turn = conversation.subscribing.lock(&uri).await;
            if is_wanted(&uri) || conversation.current().is_none() {
                // By another subscription, which there is one of for a session; or there is no session to tell anything.
                continue;
            }
            let params = SubscribeRequestParams { uri, meta: None };
            // A server that is gone tells nothing either.
            let _ = client.request::<serde::de::IgnoredAny, _>(methods::RESOURCES_UNSUBSCRIBE, params).await;
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("filter", &self.queue.filter).finish_non_exhaustive()
    }
}

/// Maximum time for which new subscriptions wait for a server that does not answer `resources/unsubscribe`.
const UNSUBSCRIBE_WAIT: Duration = Duration::from_secs(10);

/// How long to wait before a subscription is opened again.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each update that said something of its own was kept, of which nobody but the server says how many there are.
    #[test]
    fn a_resource_that_changes_again_and_again_is_told_of_once() {
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
        let told = &queue.state().told;
        assert_eq!(told.len(), 3);
        let ServerNotification::ResourceUpdated(updated) = &told[0] else { panic!("{told:?}") };
        assert_eq!(updated.meta.as_ref().unwrap()["n"], 999, "the latest of them");
    }
}
