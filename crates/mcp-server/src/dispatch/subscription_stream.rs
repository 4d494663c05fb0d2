//! The messages of subscriptions. A server may have ten thousand idle subscriptions, so each subscription
//! stores only the data for its next message.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use serde_json::json;
use thruway_mcp::json_rpc::{Id, write_notification, write_result};
use thruway_mcp::modern::ResultType;
use thruway_mcp::params::meta_keys;
use thruway_mcp::schema::{JsonObject, MetaObject, RequestId, methods};

use crate::server::{Change, ServerCore, Subscription};
use crate::session::LogInbox;

/// The messages of one subscription. Dropping the stream ends the subscription.
pub(crate) struct SubscriptionStream {
    /// The first message.
    acknowledgement: Option<Vec<u8>>,
    /// `None` after the end.
    next: Option<Next>,
    /// Any value from the backend, which must live as long as the subscription.
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

/// A future that returns the next message and the sources of later messages, or `None` at the end.
type Next = Pin<Box<dyn Future<Output = Option<(Vec<u8>, SubscriptionSources)>> + Send>>;

/// The sources of a subscription's messages.
pub(super) struct SubscriptionSources {
    pub(super) subscription: Subscription,
    pub(super) tasks: Option<Box<TaskSubscription>>,
    /// Log messages of the backend that do not belong to a request, if the client wants log messages.
    pub(super) logs: Option<Arc<LogInbox>>,
    /// The id of the request, which also identifies the subscription.
    pub(super) id: RequestId,
}

/// A subscription to changes of tasks.
pub(super) struct TaskSubscription {
    pub(super) core: Arc<ServerCore>,
    pub(super) subscription: Subscription<Arc<str>>,
}

/// The message that the server sends when it ends a subscription. This message is the result of
/// `subscriptions/listen`.
pub(crate) struct CloseMessage {
    core: Arc<ServerCore>,
    id: RequestId,
}

impl CloseMessage {
    pub(crate) const fn new(core: Arc<ServerCore>, id: RequestId) -> Self {
        Self { core, id }
    }

    pub(crate) fn to_message(&self) -> Vec<u8> {
        let meta = subscription_meta(&self.id);
        let mut message = Vec::new();
        write_result(&mut message, &Id::from(&self.id), |output| {
            self.core.results.write(output, ResultType::Complete, None, &JsonObject::new(), Some(&meta))
        });
        message
    }
}

/// Returns the `_meta` object with the id of the subscription.
fn subscription_meta(id: &RequestId) -> MetaObject {
    MetaObject::from_iter([(meta_keys::SUBSCRIPTION_ID.to_owned(), json!(id))])
}

impl SubscriptionStream {
    pub(super) fn new(
        acknowledgement: Vec<u8>,
        sources: SubscriptionSources,
        kept: Option<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        Self { acknowledgement: Some(acknowledgement), next: Some(next(sources)), _kept: kept }
    }

    /// Returns the next message, or `None` after the server has ended all subscriptions.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        if let Some(acknowledgement) = self.acknowledgement.take() {
            return Poll::Ready(Some(acknowledgement));
        }
        let Some(waiting) = &mut self.next else { return Poll::Ready(None) };
        let (message, sources) = ready!(waiting.as_mut().poll(cx)).unzip();
        self.next = sources.map(next);
        Poll::Ready(message)
    }
}

fn next(sources: SubscriptionSources) -> Next {
    if sources.tasks.is_some() || sources.logs.is_some() {
        return Box::pin(next_of_all(sources));
    }
    Box::pin(async move {
        let change = sources.subscription.next_until_end().await?;
        Some((change_notification(&change, Some(&sources.id)), sources))
    })
}

async fn next_of_all(sources: SubscriptionSources) -> Option<(Vec<u8>, SubscriptionSources)> {
    let message = loop {
        tokio::select! {
            change = sources.subscription.next_until_end() => {
                break change_notification(&change?, Some(&sources.id));
            }
            message = sources.next_of_tasks() => if let Some(message) = message {
                break message;
            },
            message = sources.next_of_logs() => if let Some(message) = message {
                break message;
            },
        }
    };
    Some((message, sources))
}

impl SubscriptionSources {
    /// Waits for a change of a task, and returns the notification. Returns `None` if the task was removed.
    /// Waits forever if the subscription has no tasks.
    async fn next_of_tasks(&self) -> Option<Vec<u8>> {
        let Some(tasks) = &self.tasks else { return std::future::pending().await };
        let task = tasks.subscription.next().await;
        task_notification(&tasks.core, &task, &subscription_meta(&self.id))
    }

    /// Returns the next log message. Returns `None` if the parameters of the message are not an object.
    /// Waits forever if the client wants no log messages.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    async fn next_of_logs(&self) -> Option<Vec<u8>> {
        let Some(logs) = &self.logs else { return std::future::pending().await };
        let mut params: JsonObject = serde_json::from_str(logs.next().await.get()).ok()?;
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        meta.as_object_mut()?.insert(meta_keys::SUBSCRIPTION_ID.to_owned(), json!(self.id));
        let mut message = Vec::new();
        write_notification(&mut message, methods::NOTIFICATIONS_MESSAGE, &params);
        Some(message)
    }
}

/// Returns the notification about `change`, with the id of the subscription, if any.
pub(crate) fn change_notification(change: &Change, subscription: Option<&RequestId>) -> Vec<u8> {
    let (method, mut params) = match change {
        Change::Tools => (methods::NOTIFICATIONS_TOOLS_LIST_CHANGED, json!({})),
        Change::Prompts => (methods::NOTIFICATIONS_PROMPTS_LIST_CHANGED, json!({})),
        Change::Resources => (methods::NOTIFICATIONS_RESOURCES_LIST_CHANGED, json!({})),
        Change::Resource(uri) => (methods::NOTIFICATIONS_RESOURCES_UPDATED, json!({"uri": &**uri})),
    };
    if let Some(id) = subscription {
        params["_meta"] = json!({meta_keys::SUBSCRIPTION_ID: id});
    }
    let mut message = Vec::new();
    write_notification(&mut message, method, &params);
    message
}

/// Returns the notification about the state of the task `id`. Returns `None` if the task was removed.
fn task_notification(core: &ServerCore, id: &str, meta: &MetaObject) -> Option<Vec<u8>> {
    let task = core.tasks.get(id)?;
    let mut message = Vec::new();
    task.show(Some(meta), |task| write_notification(&mut message, methods::NOTIFICATIONS_TASKS, task));
    Some(message)
}
