//! Subscriptions of the legacy era in the next session, when the one that they were in has ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use thruway_mcp::schema::{SubscribeRequestParams, methods};
use tokio::sync::OwnedMutexGuard;
use tokio::time::sleep;

use super::McpClient;
use super::conversation::Conversation;
use super::eras::Spoken;
use super::error::McpClientError;
use super::subscription::{PAUSE, PAUSE_MAX, Queue};

/// Whether somebody is about to subscribe again: one task does it, however often a session ends meanwhile.
#[derive(Default, Debug)]
pub(super) struct Resubscription(AtomicBool);

/// One lock for each resource URI, held while the server is asked to subscribe or to unsubscribe. Over HTTP these requests
/// use several connections, so the server could handle them in another order.
#[derive(Default, Debug)]
pub(super) struct UriLocks(Mutex<HashMap<Box<str>, Weak<tokio::sync::Mutex<()>>>>);

impl UriLocks {
    /// Waits until no other request about `uri` is in progress.
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

impl Conversation {
    /// Begins another session, and lets the subscriptions go on in it. What has changed in between nobody has told.
    pub(super) fn resubscribe(self: &Arc<Self>) {
        if !self.resubscription.0.swap(true, Ordering::AcqRel) {
            self.spawn(resubscribe(Arc::downgrade(self)));
        }
    }

    /// Whether all stand in `spoken`, so that nothing is left to do.
    fn is_resubscribed(&self, spoken: &Arc<Spoken>) -> bool {
        let stands = || self.current().is_some_and(|current| Arc::ptr_eq(&current, spoken));
        self.resubscription.0.store(false, Ordering::Release);
        // What has ended until then was left to this task; it may have been taken up by another one since.
        stands() || self.resubscription.0.swap(true, Ordering::AcqRel)
    }
}

/// Subscribes as often as it takes, with longer and longer pauses, until it cannot be helped or nobody listens any more.
async fn resubscribe(conversation: Weak<Conversation>) {
    let mut pause = PAUSE;
    while let Some(alive) = conversation.upgrade() {
        let subscribed = McpClient::of(&alive).subscribe_again().await;
        if let Err(error) = &subscribed
            && !error.is_temporary()
        {
            alive.incoming.end_subscriptions(error);
        }
        if alive.incoming.queues().is_empty() {
            return alive.resubscription.0.store(false, Ordering::Release);
        }
        drop(alive);
        // A session that ends as soon as it has begun is not followed by the next one at once.
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
        if let (Ok(spoken), Some(alive)) = (subscribed, conversation.upgrade())
            && alive.is_resubscribed(&spoken)
        {
            return;
        }
    }
}

impl McpClient {
    /// Subscribes to all that somebody listens to. Returns the session that it is in.
    async fn subscribe_again(&self) -> Result<Arc<Spoken>, McpClientError> {
        let spoken = self.spoken().await?;
        let incoming = &self.conversation.incoming;
        for queue in incoming.queues() {
            match self.subscribe(&queue).await {
                // The server may refuse it, as it may in the beginning.
                Err(error @ McpClientError::Server(_)) => {
                    incoming.unsubscribe(&queue);
                    queue.end(error);
                }
                outcome => outcome?,
            }
            self.conversation.tell_everything(&queue);
        }
        Ok(spoken)
    }

    /// Subscribes to the resources that `queue` is about.
    pub(super) async fn subscribe(&self, queue: &Queue) -> Result<(), McpClientError> {
        for uri in &queue.filter.resource_subscriptions {
            let _turn = self.conversation.subscribing.lock(uri).await;
            let params = SubscribeRequestParams { uri: uri.clone(), meta: None };
            self.request::<serde::de::IgnoredAny, _>(methods::RESOURCES_SUBSCRIBE, params).await?;
        }
        Ok(())
    }
}
