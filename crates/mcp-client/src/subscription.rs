//! Subscriptions to changes, in both eras.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_mcp::Era;
use thruway_mcp::schema::{
    SubscribeRequestParams, SubscriptionFilter, SubscriptionsListenRequestParams, methods,
};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::client::McpClient;
use super::conversation::Conversation;
use super::deadline::{FOR_EVER, RequestTimeouts};
use super::eras::{Call, NegotiatedProtocol};
use super::error::McpClientError;
use super::handlers::ServerNotification;
use super::queue::Queue;

/// A subscription to changes. Dropping the subscription unsubscribes.
///
/// If the stream of changes breaks, the client opens it again. The client then reports every list and
/// resource in the filter as changed, because it may have missed changes.
/// [`on_notification`](super::McpClientBuilder::on_notification) receives these reports too.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), thruway_mcp_client::McpClientError> {
/// use thruway_mcp_client::{McpClient, ServerNotification, schema::SubscriptionFilter};
/// use thruway_mcp_server::{McpServer, schema::Tool};
///
/// let server = McpServer::new("greeter", "1.0.0").tool(Tool::new("greet"), || "Hello!");
/// let client = McpClient::builder().server(&server);
/// let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
/// let mut changes = client.listen(filter).await?;
/// server.remove_tool("greet");
/// assert!(matches!(changes.next().await, Some(ServerNotification::ToolsListChanged)));
/// # Ok(()) }
/// ```
pub struct Subscription {
    queue: Arc<Queue>,
    client: McpClient,
    era: Era,
    driving: Option<AbortHandle>,
}

/// Subscribes to changes of lists and resources. The client sends `subscriptions/listen` in the modern era,
/// and `resources/subscribe` in the legacy era. A legacy server reports changes of lists without a
/// subscription.
///
/// # Errors
/// The server refuses the subscription.
pub(super) async fn listen(
    client: &McpClient,
    filter: SubscriptionFilter,
) -> Result<Subscription, McpClientError> {
    let negotiated = client.negotiated().await?;
    let queue = Arc::new(Queue::new(filter));
    let era = negotiated.era();
    let mut subscription = Subscription { queue: queue.clone(), client: client.clone(), era, driving: None };
    match era {
        Era::Modern => {
            let driving = drive(client.clone(), queue.clone());
            subscription.driving = Some(client.conversation.spawn(driving).abort_handle());
            let subscribed = queue.wait_for(|state| state.subscribed());
            timeout(client.options.request_timeouts.timeout, subscribed)
                .await
                .map_err(|_| McpClientError::TimedOut)??;
        }
        Era::Legacy => {
            client.conversation.incoming.subscribe(&queue)?;
            negotiated.begin(&client.conversation);
            subscribe(client, &queue).await?;
        }
    }
    Ok(subscription)
}

/// Keeps a subscription of the modern era open: opens its stream again whenever the stream ends.
async fn drive(client: McpClient, queue: Arc<Queue>) {
    let mut pause = PAUSE;
    let mut was_acknowledged = false;
    loop {
        let began = Instant::now();
        let open = listen_once(&client, &queue);
        let resumed = queue.wait_for(|state| (was_acknowledged && state.is_acknowledged).then_some(()));
        let mut open = std::pin::pin!(open);
        let mut is_reported = false;
        let outcome = tokio::select! {
            outcome = &mut open => outcome,
            () = resumed => {
                client.conversation.report_everything_changed(&queue);
                is_reported = true;
                open.as_mut().await
            }
        };
        let is_acknowledged = std::mem::take(&mut queue.state().is_acknowledged);
        if was_acknowledged && is_acknowledged && !is_reported {
            // The stream ended right after the server acknowledged it.
            client.conversation.report_everything_changed(&queue);
        }
        was_acknowledged |= is_acknowledged;
        if began.elapsed() > PAUSE_MAX {
            pause = PAUSE;
        }
        match outcome {
            // The server refused the subscription, or the client cannot reconnect.
            Err(error) if !was_acknowledged || !can_resume(&client, &error) => {
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
    /// Returns the next change, or `None` after the subscription has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Option<ServerNotification> {
        let next = self.queue.wait_for(|state| match state.notifications.pop_front() {
            Some(notification) => Some(Some(notification)),
            None => state.end.as_ref().map(|_| None),
        });
        next.await
    }

    /// Returns the reason why the subscription has ended, or `None` while it is active.
    pub fn end(&self) -> Option<McpClientError> {
        self.queue.state().end.clone()
    }
}

impl Drop for Subscription {
    /// Unsubscribes. The destructor does this because no other code learns that the subscription is unused.
    fn drop(&mut self) {
        if let Some(driving) = &self.driving {
            driving.abort();
        }
        let conversation = &self.client.conversation;
        conversation.incoming.unsubscribe(&self.queue);
        let uris = &self.queue.filter.resource_subscriptions;
        if self.era == Era::Legacy && !uris.is_empty() {
            let (client, uris) = (self.client.clone(), uris.clone());
            conversation.spawn(async move { unsubscribe(client, uris).await });
        }
    }
}

/// Sends `subscriptions/listen` and waits until the stream of changes ends.
async fn listen_once(client: &McpClient, queue: &Arc<Queue>) -> Result<(), McpClientError> {
    let negotiated = client.negotiated().await?;
    let params = SubscriptionsListenRequestParams { notifications: queue.filter.clone(), meta: None };
    let request_timeouts = RequestTimeouts { timeout: FOR_EVER, timeout_max: FOR_EVER };
    let call = Call {
        queue: Some(queue.clone()),
        request_timeouts,
        ..client.call(methods::SUBSCRIPTIONS_LISTEN, params)
    };
    negotiated.perform(&client.conversation, &call).await.map(|answer| drop(answer.into_raw()))
}

/// `true` if a subscription that ended with `error` may be opened again.
fn can_resume(client: &McpClient, error: &McpClientError) -> bool {
    let binding = &client.conversation.binding;
    error.is_temporary() && !client.is_closed() && (!binding.has_common_stream() || binding.can_reopen())
}

/// Unsubscribes from the resources that no other subscription of this client includes. A new subscription
/// to such a resource waits until the server has answered `resources/unsubscribe`, or until
/// [`UNSUBSCRIBE_WAIT`] has passed.
async fn unsubscribe(client: McpClient, uris: Vec<String>) {
    let client = client.with_short_timeout(UNSUBSCRIBE_WAIT);
    let conversation = &client.conversation;
    let is_wanted = |uri: &String| {
        let queues = conversation.incoming.queues();
        queues.iter().any(|queue| queue.filter.resource_subscriptions.contains(uri))
    };
    for uri in uris {
        let _uri_lock = conversation.subscribing.lock(&uri).await;
        if is_wanted(&uri) || conversation.current().is_none() {
            // Another subscription needs the resource, or there is no session.
            continue;
        }
        let params = SubscribeRequestParams { uri, meta: None };
        // Errors are ignored: a server that is unreachable cannot report changes either.
        let _ = client.request::<serde::de::IgnoredAny, _>(methods::RESOURCES_UNSUBSCRIBE, params).await;
    }
}

impl Conversation {
    /// Reports every list and resource in the filter of `queue` as changed, because the client may have
    /// missed changes.
    pub(super) fn report_everything_changed(&self, queue: &Queue) {
        for notification in queue.everything() {
            self.cache.forget(&notification);
            queue.push(notification.clone());
            self.incoming.handlers.notify(notification);
        }
    }

    /// Starts a background task that opens a new session and renews the subscriptions, unless such a task
    /// is already running. The client cannot know which changes happened between the two sessions.
    pub(super) fn resubscribe(self: &Arc<Self>) {
        if !self.resubscription.0.swap(true, Ordering::AcqRel) {
            self.spawn(resubscribe(Arc::downgrade(self)));
        }
    }

    /// Returns `true` if the background task that calls this function can end: `negotiated` is still the
    /// current session, or another task renews the subscriptions.
    fn is_resubscribed(&self, negotiated: &Arc<NegotiatedProtocol>) -> bool {
        let is_current = || self.current().is_some_and(|current| Arc::ptr_eq(&current, negotiated));
        self.resubscription.0.store(false, Ordering::Release);
        // While the flag was set, the end of a session started no other task, so this task must continue if
        // its session has ended. If another task has been started since then, this task ends.
        is_current() || self.resubscription.0.swap(true, Ordering::AcqRel)
    }
}

/// Renews the subscriptions. Tries again, with growing pauses, until the renewal succeeds or fails
/// permanently, or until no subscription is left.
async fn resubscribe(conversation: Weak<Conversation>) {
    let mut pause = PAUSE;
    while let Some(alive) = conversation.upgrade() {
        let subscribed = subscribe_again(&McpClient::of(&alive)).await;
        if let Err(error) = &subscribed
            && !error.is_temporary()
        {
            alive.incoming.end_subscriptions(error);
        }
        if alive.incoming.queues().is_empty() {
            return alive.resubscription.0.store(false, Ordering::Release);
        }
        drop(alive);
        // Prevents a busy loop if sessions end as soon as they begin.
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
        if let (Ok(negotiated), Some(alive)) = (subscribed, conversation.upgrade())
            && alive.is_resubscribed(&negotiated)
        {
            return;
        }
    }
}

/// Renews all subscriptions and returns the session in which they are now active.
async fn subscribe_again(client: &McpClient) -> Result<Arc<NegotiatedProtocol>, McpClientError> {
    let negotiated = client.negotiated().await?;
    let incoming = &client.conversation.incoming;
    for queue in incoming.queues() {
        match subscribe(client, &queue).await {
            // The server refused to renew this subscription, so the subscription ends.
            Err(error @ McpClientError::Server(_)) => {
                incoming.unsubscribe(&queue);
                queue.end(error);
            }
            outcome => outcome?,
        }
        client.conversation.report_everything_changed(&queue);
    }
    Ok(negotiated)
}

/// Subscribes to the resources in the filter of `queue`.
async fn subscribe(client: &McpClient, queue: &Queue) -> Result<(), McpClientError> {
    for uri in &queue.filter.resource_subscriptions {
        let _uri_lock = client.conversation.subscribing.lock(uri).await;
        let params = SubscribeRequestParams { uri: uri.clone(), meta: None };
        client.request::<serde::de::IgnoredAny, _>(methods::RESOURCES_SUBSCRIBE, params).await?;
    }
    Ok(())
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("filter", &self.queue.filter).finish_non_exhaustive()
    }
}

/// Maximum time for which new subscriptions wait for a server that does not answer `resources/unsubscribe`.
const UNSUBSCRIBE_WAIT: Duration = Duration::from_secs(10);

/// First pause before the client opens a subscription again. The pause doubles after each attempt, up to
/// [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
